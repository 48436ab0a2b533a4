# make demo | test | test-gpu | test-scale | test-faults | test-attack | audit | sbom | smoke | lint | bench | dev. Each target sets up what it needs in .venv on its first run.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Two names, since pip has changed which one it asks for what builds the package
PINNED := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt
PIP    := $(PINNED) $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
DITTO  := $(BIN)/newsstudio-ditto

.PHONY: help demo test test-scale test-faults test-gpu test-attack audit sbom smoke lint format bench dev install clean
help:
	@sed -n 1p $(MAKEFILE_LIST) | cut -c3-

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 demo")'
	$(PYTHON) -m venv $(VENV)

# torch first and alone, so that the version tried here is the one that everything after it resolves against
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) (a few minutes on the first run)"
	$(PIP) torch
	$(PIP) -e .
	@# librosa compiles parts of itself when it is first used: now, rather than after the first render
	$(BIN)/python -c "import numpy; from newsstudio_ditto.video_inspection import loudness_db; loudness_db(numpy.zeros(16000))"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(DITTO) demo

dev: $(VENV)/.installed
	$(DITTO) dev

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/dagster definitions validate -w workspace.yaml

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

$(VENV)/.installed-scale: $(VENV)/.installed-dev
	$(PIP) -e '.[scale]'
	@touch $@

# Real Postgres, Redis and workers in a temporary folder; installs the two servers where they are missing
test-scale: $(VENV)/.installed-scale
	deploy/setup.sh
	$(BIN)/python -m pytest -s -m scale tests/scale

# Real processes killed at every change of the disk, full and read-only disks (as root), an FFmpeg that misbehaves
test-faults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -s -m "faults or not faults" tests/faults

# A thousand damaged and hostile packets; the tests try 150 of them
test-attack: $(VENV)/.installed-dev
	$(BIN)/python -m tests.packet.attack --count 1000

# In an environment of their own: these tools share no dependency with the product
AUDIT := $(VENV)-audit
$(AUDIT)/.installed:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip --disable-pip-version-check install --quiet pip-audit==2.10.1 cyclonedx-bom==7.5.0
	@touch $@

# Every pinned version against the known vulnerabilities. Strict: a package that cannot be looked up is a failure
audit: $(AUDIT)/.installed
	$(AUDIT)/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# What is installed in $(VENV), and the packaged models, as CycloneDX
sbom: $(VENV)/.installed $(AUDIT)/.installed
	mkdir -p dist
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --sv 1.6 -o dist/sbom.cdx.json $(BIN)/python
	$(BIN)/python deploy/complete_sbom.py dist/sbom.cdx.json

test-gpu: $(VENV)/.installed-dev
	DITTO_REQUIRE_CUDA=1 $(BIN)/python -m pytest -k "cuda or gpu"

# The training programs, for real but on a handful of pictures
smoke: $(VENV)/.installed-dev
	$(BIN)/python -m training.smoke

bench: $(VENV)/.installed-dev
	$(BIN)/newsstudio-ditto bench
	$(BIN)/python benchmarks/packet_memory.py
	$(BIN)/python benchmarks/engine_graph_check.py

clean:
	rm -rf $(VENV) $(AUDIT) storage
