"""Fingerprints change when, and only when, something that matters changes."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.packet.fingerprint import generation_of, hash_file

SOURCE = "1" * 64
MODEL = "2" * 64


def test_a_file_hash_is_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a b.mp4"
    path.write_bytes(b"abc" * 1_000_000)
    assert hash_file(path) == sha256(b"abc" * 1_000_000).hexdigest()


def test_every_input_of_a_generation_matters() -> None:
    options = PacketOptions()
    base = generation_of(SOURCE, options, MODEL)
    others = [
        generation_of(MODEL, options, MODEL),
        generation_of(SOURCE, options, SOURCE),
        *(
            generation_of(SOURCE, replace(options, **changed), MODEL)  # type: ignore[arg-type]
            for changed in (
                {"window": "full"},
                {"crop": CropConfig()},
                {"crop": CropConfig(scale=2.5)},
                {"max_side_px": 512},
                {"max_frames": 10},
                {"smoothing_frames": 1},
                {"feather": 0.8},
                {"faces": "official"},
            )
        ),
    ]
    assert len({base, *others}) == 1 + len(others)
    assert base == generation_of(SOURCE, PacketOptions(), MODEL)
    assert len(base) == 64
