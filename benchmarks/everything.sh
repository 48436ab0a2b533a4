#!/bin/sh
# Everything that is measured on a CUDA card, one after the other: sh benchmarks/everything.sh FOLDER [DEVICE]
# What fails does not stop the rest; every program leaves its JSON and its log in FOLDER. About ten minutes on an H200 with 16 cores.
set -u
folder=$1 device=${2:-cuda}
mkdir -p "$folder"
: "${PYTHON:=python3}" "${LIMIT_S:=300}"
failed=""
measure() {
    name=$1
    shift
    echo "== $name, load $(cut -d' ' -f1 /proc/loadavg)"
    timeout "$LIMIT_S" "$@" >"$folder/$name.log" 2>&1 || failed="$failed $name"
    tail -n 40 "$folder/$name.log"
}
bench() {
    name=$1
    shift
    measure "$name" "$PYTHON" -m newsstudio_ditto.cli bench --device "$device" --output "$folder/$name.json" "$@"
}
bench stages --only motion --only open --only paste
bench video --only pipeline --only sink
bench video_ultrafast --only pipeline --only sink --preset ultrafast
bench core --only core
bench memory --only memory
measure flame "$PYTHON" benchmarks/flame.py --device "$device" --output "$folder/rendered_second.svg" --json "$folder/flame.json"
measure stream "$PYTHON" benchmarks/stream_latency.py --device "$device" --seconds 6 --runs 5 --json "$folder/stream.json"
# Dagster, whose warnings pytest is told to ignore, need not be on a machine that measures.
measure tests env DITTO_REQUIRE_CUDA=1 "$PYTHON" -m pytest -q -o filterwarnings= -o addopts= tests/render/test_fast_core_cuda.py tests/render/test_graph_cuda.py tests/networks/test_capture.py
[ -z "$failed" ] || { echo "failed:$failed" && exit 1; }
