"""Checking the official release before it is converted: keys, shapes, dtypes, ONNX signatures, the settings."""

import logging
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.build import expected_state
from newsstudio_ditto.networks.checkpoints import read_checkpoint, unwrap_checkpoint
from newsstudio_ditto.networks.config import OFFICIAL, BundleConfig
from newsstudio_ditto.networks.onnx_encoder import open_session, signature_problem
from newsstudio_ditto.networks.unwrap import find_mismatch
from newsstudio_ditto.official.release import FACE_ROLES, GENERATOR_ROLES, RELEASE_FILES, ReleaseFile, Role, find_file
from newsstudio_ditto.official.settings import read_settings
from newsstudio_ditto.official.signatures import SIGNATURES, open_checked

log = logging.getLogger(__name__)

_TASK_MEMBERS = ("face_detector.tflite", "face_landmarks_detector.tflite")


def check_release(folder: Path, config: BundleConfig = OFFICIAL) -> list[str]:
    """What is wrong with a folder of the official release, one sentence per file, in the order of the release.

    Checkpoints must have exactly the keys, shapes and dtypes of the networks; ONNX files their inputs and outputs;
    the landmark task file its two networks; the settings must be understood. A size that is not the published one is
    mentioned only where something else is wrong too.

    Args:
        folder: files at any depth.
        config: shapes of the networks.
    """
    findings = []
    for file in RELEASE_FILES:
        problem = check_file(find_file(folder, file), file, config)
        if problem:
            findings.append(problem)
    return findings


def check_file(path: Path | None, file: ReleaseFile, config: BundleConfig = OFFICIAL) -> str | None:
    """Why one file of the release cannot be used, in a sentence that names it, or None."""
    if path is None:
        return f"{file.path} is missing"
    try:
        problem = _problem(path, file, config)
    except BundleError as error:
        problem = error.what
    if problem is None:
        return None
    size = path.stat().st_size
    remark = "" if size == file.published_bytes else f" [{size:,} bytes, published were {file.published_bytes:,}]"
    return (problem if str(path) in problem else f"{path}: {problem}") + remark


def _problem(path: Path, file: ReleaseFile, config: BundleConfig) -> str | None:
    if file.role in GENERATOR_ROLES:
        return _checkpoint_problem(path, file.role, config)
    return _OTHERS[file.role](path, config)


def _checkpoint_problem(path: Path, role: str, config: BundleConfig) -> str | None:
    content = read_checkpoint(path)
    state = unwrap_checkpoint(role, content, str(path))
    mismatch = find_mismatch(expected_state(config.networks, role), state)
    return mismatch or _dtype_problem(state)


def _dtype_problem(state: Mapping[str, Tensor]) -> str | None:
    for key, value in sorted(state.items()):
        wanted = torch.int64 if key.endswith("num_batches_tracked") else torch.float32
        if value.dtype is not wanted:
            return f"key {key}: expected {wanted}, got {value.dtype}"
        if not torch.isfinite(value).all():
            return f"key {key} has values that are not finite"
    return None


def _hubert_problem(path: Path, config: BundleConfig) -> str | None:
    return signature_problem(open_session(path), config.networks.audio_encoder.hidden)


def _task_problem(path: Path, _config: BundleConfig) -> str | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            broken = archive.testzip()
    except (zipfile.BadZipFile, OSError) as error:
        return f"it is no task file: {error}"
    absent = [name for name in _TASK_MEMBERS if name not in names]
    if absent:
        return f"it lacks {absent[0]}"
    return f"its member {broken} is damaged" if broken else None


def _settings_problem(path: Path, _config: BundleConfig) -> str | None:
    settings = read_settings(path)
    if settings.unknown:
        log.warning("settings that are not known here", extra={"path": str(path), "keys": ", ".join(settings.unknown)})
    return None


def _onnx_problem(role: Role) -> Callable[[Path, BundleConfig], str | None]:
    def check(path: Path, _config: BundleConfig) -> str | None:
        open_checked(path, SIGNATURES[role])
        return None

    return check


_OTHERS: Mapping[str, Callable[[Path, BundleConfig], str | None]] = {
    **{role: _onnx_problem(role) for role in FACE_ROLES},
    "landmarks_478": _task_problem,
    "hubert": _hubert_problem,
    "settings": _settings_problem,
}
