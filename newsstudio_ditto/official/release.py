"""What the official release consists of, as far as this package uses it: the PyTorch part."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from newsstudio_ditto.errors import BundleError

REPOSITORY = "digital-avatar/ditto-talkinghead"
AUXILIARY_FOLDER = "auxiliary"
"""Folder inside a converted bundle with the release's own face networks."""

FETCH_COMMAND = "newsstudio-ditto models fetch ditto"

Role = Literal[
    "appearance",
    "motion_extractor",
    "warp",
    "decoder",
    "stitching",
    "motion_diffusion",
    "detector",
    "landmarks_106",
    "landmarks_203",
    "landmarks_478",
    "hubert",
    "settings",
]


@dataclass(frozen=True)
class ReleaseFile:
    """One file of the release.

    Args:
        role: what it is for.
        path: in the repository, with ``/``.
        published_bytes: size that the release is known to have; a hint, not a condition.
        licence: of the file, in a few words.
    """

    role: Role
    path: str
    published_bytes: int
    licence: str

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.path.rpartition("/")[2]


_DITTO = "Apache-2.0 (Ant Group)"
_INSIGHTFACE = "InsightFace: non-commercial research only"
_GENERATORS = (
    ("appearance", "appearance_extractor.pth", 3_387_959),
    ("motion_extractor", "motion_extractor.pth", 112_545_506),
    ("warp", "warp_network.pth", 182_180_086),
    ("decoder", "decoder.pth", 221_813_590),
    ("stitching", "stitch_network.pth", 2_393_098),
    ("motion_diffusion", "lmdm_v0.4_hubert.pth", 191_247_715),
)
_AUXILIARY = (
    ("detector", "det_10g.onnx", 16_923_827, _INSIGHTFACE),
    ("landmarks_106", "2d106det.onnx", 5_030_888, _INSIGHTFACE),
    ("landmarks_203", "landmark203.onnx", 114_666_491, "part of LivePortrait, MIT (Kuaishou)"),
    ("landmarks_478", "face_landmarker.task", 3_758_596, "Apache-2.0 (Google, MediaPipe)"),
    ("hubert", "hubert_streaming_fix_kv.onnx", 1_460_740_880, "see the HuBERT weights' licence (Meta)"),
)
RELEASE_FILES: tuple[ReleaseFile, ...] = (
    *(ReleaseFile(role, f"ditto_pytorch/models/{name}", size, _DITTO) for role, name, size in _GENERATORS),  # type: ignore[arg-type]
    *(ReleaseFile(role, f"ditto_pytorch/aux_models/{name}", size, terms) for role, name, size, terms in _AUXILIARY),  # type: ignore[arg-type]
    ReleaseFile("settings", "ditto_cfg/v0.4_hubert_cfg_pytorch.pkl", 31_002, _DITTO),
)
GENERATOR_ROLES = tuple(role for role, _, _ in _GENERATORS)
FACE_ROLES: tuple[Role, ...] = ("detector", "landmarks_106", "landmarks_203")


def find_file(folder: Path, file: ReleaseFile) -> Path | None:
    """Where a file of the release lies in ``folder`` or below it; its own place wins; None if nowhere."""
    place = folder / file.path
    if place.is_file():
        return place
    return next((path for path in sorted(folder.rglob(file.name)) if path.is_file()), None)


def require_file(folder: Path, role: Role) -> Path:
    """Path of the file with ``role``.

    Raises:
        BundleError: it is not there; the hint says where it comes from and where to put it.
    """
    file = next(file for file in RELEASE_FILES if file.role == role)
    path = find_file(folder, file)
    if path is None:
        raise BundleError(f"{folder} holds no {file.name}", by_hand(folder, [file]))
    return path


def missing_files(folder: Path) -> list[ReleaseFile]:
    """Files of the release that are not in ``folder``."""
    return [file for file in RELEASE_FILES if find_file(folder, file) is None]


def by_hand(folder: Path, files: list[ReleaseFile]) -> str:
    """Instruction for somebody who carries the files over by hand: addresses, places, sizes."""
    lines = [f"download on a machine with network, put the files there, then: {FETCH_COMMAND}"]
    lines += [
        f"https://huggingface.co/{REPOSITORY}/resolve/main/{file.path} -> {folder / file.path} "
        f"({file.published_bytes:,} bytes)"
        for file in files
    ]
    return "\n".join(lines)
