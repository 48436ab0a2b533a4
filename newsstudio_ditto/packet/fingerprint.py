"""Fingerprints: of a file's bytes, and of everything that decides what a packet contains."""

import json
from dataclasses import asdict
from hashlib import file_digest, sha256
from pathlib import Path

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.packet.spec import PACKET_VERSION


def hash_file(path: Path) -> str:
    """The sha256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def generation_of(source_hash: str, options: PacketOptions, model_fingerprint: str) -> str:
    """Fingerprint that all six files of a packet carry, 64 hex digits.

    Args:
        source_hash: :func:`hash_file` of the anchor.
        options: everything else that decides the content.
        model_fingerprint: of the bundle's weights.
    """
    facts = {
        "version": PACKET_VERSION,
        "source": source_hash,
        "options": asdict(options),
        "model": model_fingerprint,
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
