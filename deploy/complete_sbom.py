"""Finish the bill of materials that ``make sbom`` has drawn up of an environment.

The tool knows Python packages. This adds the version of the product and the models that it carries, with
their hashes. Usage: ``python deploy/complete_sbom.py FILE``, a CycloneDX document in JSON, which is changed in place.
"""

import json
import sys
from pathlib import Path
from typing import Any

from newsstudio_ditto import __version__
from newsstudio_ditto.faces.packaged import expected_hashes
from newsstudio_ditto.networks.bundle import BUNDLED, DEFAULT_BUNDLE
from newsstudio_ditto.networks.manifest import read_manifest


def packaged_models() -> list[dict[str, Any]]:
    """CycloneDX components of every packaged weight file."""
    manifest = read_manifest(BUNDLED / DEFAULT_BUNDLE)
    own = {f"{DEFAULT_BUNDLE}/{entry.file}": entry.sha256 for entry in manifest.files.values()}
    faces = {f"faces/{name}": digest for name, digest in expected_hashes().items()}
    return [_component(name, digest) for name, digest in sorted({**own, **faces}.items())]


def _component(name: str, digest: str) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{name}",
        "name": name,
        "version": __version__,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The document with version and models.

    Args:
        document: CycloneDX 1.5 or later, as ``cyclonedx-py environment --pyproject`` writes it.
    """
    root = {**document["metadata"]["component"], "version": __version__}
    models = packaged_models()
    known = [component for component in document["components"] if component["type"] != "machine-learning-model"]
    refs = [model["bom-ref"] for model in models]
    dependencies = [
        {**entry, "dependsOn": sorted({*entry.get("dependsOn", []), *refs})}
        if entry["ref"] == root["bom-ref"]
        else entry
        for entry in document["dependencies"]
        if entry["ref"] not in refs
    ]
    return {
        **document,
        "metadata": {**document["metadata"], "component": root},
        "components": [*known, *models],
        "dependencies": [*dependencies, *({"ref": ref} for ref in refs)],
    }


def main(path: Path) -> None:
    """Change a document in place."""
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(complete(document), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
