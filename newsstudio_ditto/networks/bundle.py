"""Model bundles: a folder with a manifest and one safetensors file per network, loaded when first used."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.build import expected_state, load_network, network_dtype, seeded_network
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.default_tables import write_tables
from newsstudio_ditto.networks.manifest import (
    FORMAT,
    MANIFEST_NAME,
    NETWORK_NAMES,
    REBUILD_HINT,
    VERSION,
    BundleManifest,
    WeightFile,
    manifest_text,
    read_manifest,
)
from newsstudio_ditto.networks.motion_diffusion import MotionDenoiser
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from newsstudio_ditto.networks.places import BUNDLED, DEFAULT_BUNDLE, find_bundle
from newsstudio_ditto.networks.stitching import StitchingNetwork
from newsstudio_ditto.networks.unwrap import find_mismatch
from newsstudio_ditto.networks.warp import WarpingNetwork
from newsstudio_ditto.networks.weights import (
    ONNX_SUFFIX,
    hash_weights,
    link_onnx,
    read_weights,
    size_problem,
    write_weights,
)

if TYPE_CHECKING:
    from newsstudio_ditto.networks.audio_encoder import AudioEncoder
    from newsstudio_ditto.networks.onnx_encoder import OnnxAudioEncoder

__all__ = [
    "BUNDLED",
    "DEFAULT_BUNDLE",
    "ModelBundle",
    "check_bundle",
    "find_bundle",
    "load_bundle",
    "replace_networks",
    "seeded_bundle",
    "write_bundle",
]


class ModelBundle:
    """Seven networks and their settings. Each network is loaded when it is first asked for.

    Args:
        manifest: what the bundle says of itself.
        folder: of the weights; ``None`` makes seeded ones.
        seed: of seeded weights.
        device: where the networks run.
        dtype: for the networks that may run in reduced precision; the others are always float32.
    """

    def __init__(
        self,
        manifest: BundleManifest,
        *,
        folder: Path | None,
        device: torch.device,
        dtype: torch.dtype,
        seed: int = 0,
    ) -> None:
        """Remember where the weights are; nothing is loaded yet."""
        self.manifest = manifest
        self.folder = folder
        self.seed = seed
        self.device = device
        self.dtype = dtype

    @property
    def config(self) -> BundleConfig:
        """Shapes and settings."""
        return self.manifest.config

    @property
    def fingerprint(self) -> str:
        """Hash of the settings and of all weights, 64 hexadecimal digits."""
        return self.manifest.fingerprint

    @property
    def untrained(self) -> list[str]:
        """Networks whose weights are seeded random numbers."""
        return self.manifest.untrained

    def _load(self, name: str) -> nn.Module:
        dtype = network_dtype(name, self.dtype)
        if self.folder is None:
            return seeded_network(self.config.networks, name, self.seed).to(self.device, dtype)
        path = self.folder / self.manifest.files[name].file
        if path.suffix == ONNX_SUFFIX:
            return _open_encoder(path, self.config)
        state = read_weights(path)
        networks = self.config.networks
        return load_network(networks, name, state, device=self.device, dtype=dtype, origin=str(path))

    @cached_property
    def appearance(self) -> AppearanceExtractor:
        """Picture -> feature volume."""
        return cast(AppearanceExtractor, self._load("appearance"))

    @cached_property
    def motion_extractor(self) -> MotionExtractor:
        """Picture -> pose, expression, canonical keypoints; float32."""
        return cast(MotionExtractor, self._load("motion_extractor"))

    @cached_property
    def warp(self) -> WarpingNetwork:
        """Volume and keypoints -> feature image."""
        return cast(WarpingNetwork, self._load("warp"))

    @cached_property
    def decoder(self) -> SpadeDecoder:
        """Feature image -> picture."""
        return cast(SpadeDecoder, self._load("decoder"))

    @cached_property
    def stitching(self) -> StitchingNetwork:
        """Source and driving keypoints -> corrected driving keypoints; float32."""
        return cast(StitchingNetwork, self._load("stitching"))

    @cached_property
    def motion_diffusion(self) -> MotionDenoiser:
        """Noisy motion and condition -> clean motion; float32."""
        return cast(MotionDenoiser, self._load("motion_diffusion"))

    @cached_property
    def audio_encoder(self) -> "AudioEncoder | OnnxAudioEncoder":
        """Windows of speech -> feature rows."""
        return cast("AudioEncoder | OnnxAudioEncoder", self._load("audio_encoder"))


def load_bundle(
    name_or_path: str | Path = DEFAULT_BUNDLE,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> ModelBundle:
    """Open a bundle. Only the manifest is read, and the sizes of the files are compared with it.

    Args:
        name_or_path: ``mini``, or a folder.
        device: where the networks will run.
        dtype: for the networks that may run in reduced precision.

    Raises:
        BundleError: there is no such bundle, or a file is absent or of another size than the manifest says.
    """
    folder = find_bundle(name_or_path)
    manifest = read_manifest(folder)
    for entry in manifest.files.values():
        problem = size_problem(folder, entry)
        if problem:
            raise BundleError(problem, REBUILD_HINT)
    return ModelBundle(manifest, folder=folder, device=torch.device(device), dtype=dtype)


def seeded_bundle(
    config: BundleConfig,
    seed: int = 0,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> ModelBundle:
    """A bundle of random weights, equal for equal configs and seeds, without any file. For tests and benchmarks."""
    files = {
        name: WeightFile(f"{name}.safetensors", "", 0, hashlib.sha256(f"{name}/{seed}".encode()).hexdigest(), False)
        for name in NETWORK_NAMES
    }
    manifest = BundleManifest(FORMAT, VERSION, f"seeded-{seed}", "random numbers", config, files)
    return ModelBundle(manifest, folder=None, device=torch.device(device), dtype=dtype, seed=seed)


def write_bundle(
    folder: Path,
    config: BundleConfig,
    networks: Mapping[str, nn.Module | Path],
    *,
    name: str,
    licence: str,
    trained: Mapping[str, bool],
    dtype: torch.dtype = torch.float16,
) -> BundleManifest:
    """Write a bundle of all seven networks; each file appears under its name only when it is complete.

    Args:
        folder: made if it does not exist.
        config: shapes and settings.
        networks: by name; the audio encoder may be the path of an ONNX file, which is linked in (or copied).
        name: of the bundle.
        licence: licence and origin of the weights.
        trained: by name; seeded weights have to be called untrained.
        dtype: in which floating dtype the weights are stored.

    Raises:
        BundleError: a network is missing, does not fit the config, or has a weight that ``dtype`` cannot hold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for network in NETWORK_NAMES:
        source, is_trained = networks[network], trained[network]
        if isinstance(source, Path):
            files[network] = link_onnx(folder, network, source, trained=is_trained)
        else:
            files[network] = write_weights(folder, config.networks, network, source, trained=is_trained, dtype=dtype)
    return _publish(folder, BundleManifest(FORMAT, VERSION, name, licence, config, files))


def replace_networks(
    folder: Path, networks: Mapping[str, nn.Module], *, config: BundleConfig | None = None
) -> BundleManifest:
    """Put newly trained networks into an existing bundle; the others stay as they are.

    Args:
        folder: of the bundle.
        networks: by name; they count as trained.
        config: new settings; ``None`` keeps them.
    """
    manifest = read_manifest(folder)
    config = config or manifest.config
    written = {
        name: write_weights(folder, config.networks, name, network, trained=True, dtype=torch.float16)
        for name, network in networks.items()
    }
    return _publish(folder, replace(manifest, config=config, files={**manifest.files, **written}))


def _open_encoder(path: Path, config: BundleConfig) -> "OnnxAudioEncoder":
    # onnxruntime, like transformers, is only needed by those who hear speech
    from newsstudio_ditto.networks.onnx_encoder import OnnxAudioEncoder

    return OnnxAudioEncoder(path, config.networks.audio_encoder.hidden)


def _publish(folder: Path, manifest: BundleManifest) -> BundleManifest:
    write_tables(folder, manifest.config)
    part = folder / f"{MANIFEST_NAME}.part"
    part.write_text(manifest_text(manifest), encoding="utf-8")
    part.replace(folder / MANIFEST_NAME)
    return manifest


def _file_problem(folder: Path, config: BundleConfig, name: str, entry: WeightFile) -> str | None:
    problem = size_problem(folder, entry)
    if problem:
        return problem
    path = folder / entry.file
    found = hash_weights(path)
    if found != entry.sha256:
        return f"{path}: expected sha256 {entry.sha256[:12]}, got {found[:12]}"
    if path.suffix == ONNX_SUFFIX:
        _open_encoder(path, config)
        return None
    state = read_weights(path)
    mismatch = find_mismatch(expected_state(config.networks, name), state)
    if mismatch:
        return f"{path}: {mismatch}"
    broken = next((key for key, value in sorted(state.items()) if not torch.isfinite(value).all()), None)
    return f"{path}: key {broken} has values that are not finite" if broken else None


def check_bundle(name_or_path: str | Path) -> list[str]:
    """Everything that is wrong with a bundle, one sentence per file, naming the first wrong key; empty if all is well.

    Sizes, checksums, keys, shapes and finiteness of all weights are checked.
    """
    try:
        folder = find_bundle(name_or_path)
        manifest = read_manifest(folder)
    except BundleError as error:
        return [error.what]
    findings = []
    for name, entry in manifest.files.items():
        try:
            problem = _file_problem(folder, manifest.config, name, entry)
        except BundleError as error:
            problem = error.what
        if problem:
            findings.append(problem)
    return findings
