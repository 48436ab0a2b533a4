"""From the official release to a bundle that ``--model ditto`` finds."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.bundle import load_bundle
from newsstudio_ditto.networks.checkpoints import convert_official
from newsstudio_ditto.networks.config import NetworkConfig
from newsstudio_ditto.networks.places import user_models
from newsstudio_ditto.official.fetch import FETCHED_FOLDER, Download, FetchReport, fetch_release
from newsstudio_ditto.official.packaged_crop import packaged_crop
from newsstudio_ditto.official.release import AUXILIARY_FOLDER, FACE_ROLES, require_file
from newsstudio_ditto.official.release_check import check_release
from newsstudio_ditto.official.settings import read_settings
from newsstudio_ditto.packet.files import link_or_copy

log = logging.getLogger(__name__)

BUNDLE_NAME = "ditto"


@dataclass(frozen=True)
class DittoInstall:
    """What :func:`install_ditto` made.

    Args:
        folder: of the bundle.
        fingerprint: of the bundle.
        unknown_settings: keys of the configuration that nobody knows and that are not in use.
        notes: what the release does otherwise when a source is prepared.
        fetched: what was fetched before; None if nothing was.
    """

    folder: Path
    fingerprint: str
    unknown_settings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    fetched: FetchReport | None = None

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "fingerprint": self.fingerprint,
            "unknown_settings": list(self.unknown_settings),
            "notes": list(self.notes),
            "fetched": None if self.fetched is None else self.fetched.to_plain(),
        }


def fetch_ditto(
    *,
    release: Path | None = None,
    target: Path | None = None,
    revision: str | None = None,
    hubert: Path | None = None,
    download: Download | None = None,
    on_step: Callable[[str, int, int], None] | None = None,
) -> DittoInstall:
    """Fetch the official release, check it, and convert it into the bundle ``ditto``.

    Args:
        release: folder of the release; files that are there already are not fetched. None: beside the user's bundles.
        target: folder of the bundle; None: ``ditto`` among the user's bundles.
        revision: of the repository.
        hubert: other weights for the audio encoder than the release's ONNX file.
        download: how one file is fetched; None uses huggingface_hub.
        on_step: called with (what, done, in all).

    Raises:
        BundleError: a file cannot be fetched, or is not what it should be; the first one is named.
    """
    release = release or user_models() / f".{FETCHED_FOLDER}"
    fetched = fetch_release(release, revision=revision, download=download, on_file=on_step)
    return replace(install_ditto(release, target, hubert=hubert), fetched=fetched)


def install_ditto(
    release: Path, target: Path | None = None, *, hubert: Path | None = None, networks: NetworkConfig | None = None
) -> DittoInstall:
    """Check a folder of the official release and convert it into a bundle.

    The bundle's crop is the one for the packaged landmarks; a packet made with ``faces="official"`` uses the official
    one by itself. ONNX files are linked in, so they take no second room on the same disk.

    Args:
        release: files at any depth.
        target: folder of the bundle; None: ``ditto`` among the user's bundles.
        hubert: other weights for the audio encoder than the release's ONNX file.
        networks: shapes; None takes the full width, with the conditions that the release's configuration names.

    Raises:
        BundleError: a file is missing or wrong; the first one is named.
    """
    settings = read_settings(require_file(release, "settings"))
    config = replace(
        settings.bundle, networks=networks or settings.bundle.networks, crop=packaged_crop(settings.bundle.crop)
    )
    findings = check_release(release, config)
    if findings:
        more = f"; {len(findings) - 1} more files are wrong" if len(findings) > 1 else ""
        raise BundleError(
            f"{findings[0]}{more}", f"fetch them again; all faults: newsstudio-ditto models check {release}"
        )
    target = target or user_models() / BUNDLE_NAME
    auxiliary = target / AUXILIARY_FOLDER
    auxiliary.mkdir(parents=True, exist_ok=True)
    for role in FACE_ROLES:
        source = require_file(release, role)
        (auxiliary / source.name).unlink(missing_ok=True)
        link_or_copy(source.resolve(), auxiliary / source.name)
    convert_official(release, target, hubert=hubert or require_file(release, "hubert"), config=config)
    log.info("installed the official model", extra={"folder": str(target)})
    notes = tuple(_preparation_notes(settings.packet))
    return DittoInstall(target, load_bundle(target).fingerprint, settings.unknown, notes)


def _preparation_notes(wanted: PacketOptions) -> list[str]:
    """What the release prepares otherwise than a packet is prepared unless somebody says so."""
    own = PacketOptions()
    return [
        f"the release prepares sources with {name} {getattr(wanted, name)}, this product with {getattr(own, name)}"
        for name in ("max_side_px", "max_frames", "smoothing_frames")
        if getattr(wanted, name) != getattr(own, name)
    ]
