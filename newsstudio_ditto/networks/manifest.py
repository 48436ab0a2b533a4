"""``manifest.json`` of a model bundle: what it says, and how it becomes dataclasses and back, strictly."""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newsstudio_ditto.errors import BundleError, DittoError
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.default_tables import tables_sha256, with_tables
from newsstudio_ditto.networks.release_defaults import NOT_IN_MANIFEST

MANIFEST_NAME = "manifest.json"
FORMAT = "newsstudio-ditto bundle"
VERSION = 1
_TABLES_KEY = "tables_sha256"
NETWORK_NAMES = (
    "appearance",
    "motion_extractor",
    "warp",
    "decoder",
    "stitching",
    "motion_diffusion",
    "audio_encoder",
)
REBUILD_HINT = "install the package again, or convert the official checkpoints again"


@dataclass(frozen=True)
class WeightFile:
    """One network's weights.

    Args:
        file: name inside the bundle's folder.
        network_class: the class that the weights belong to.
        bytes: size of the file.
        sha256: checksum of the file.
        trained: false for seeded random numbers, which only stand in for weights that are still to be trained.
    """

    file: str
    network_class: str
    bytes: int
    sha256: str
    trained: bool


@dataclass(frozen=True)
class BundleManifest:
    """Everything that ``manifest.json`` says.

    Args:
        format: :data:`FORMAT`.
        version: of the format.
        name: of the bundle.
        licence: licence and origin of the weights, in a sentence.
        config: shapes and settings.
        files: weights by network.
    """

    format: str
    version: int
    name: str
    licence: str
    config: BundleConfig
    files: dict[str, WeightFile]

    @property
    def fingerprint(self) -> str:
        """Hash of the settings and of all weights, 64 hexadecimal digits."""
        hashes = {name: entry.sha256 for name, entry in self.files.items()}
        content = {"version": self.version, "config": to_plain(self.config), "files": hashes}
        tables = tables_sha256(self.config)
        content |= {} if tables is None else {_TABLES_KEY: tables}  # bundles without any keep their fingerprint
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def untrained(self) -> list[str]:
        """Networks whose weights are seeded random numbers."""
        return [name for name, entry in self.files.items() if not entry.trained]


def read_plain(kind: Any, value: Any, where: str) -> Any:
    """Make a value of type ``kind`` from parsed JSON; unknown, missing and mistyped fields are errors.

    Args:
        kind: a dataclass, ``dict[str, X]``, ``tuple[X, ...]``, a ``Literal``, a plain type, or one of these or None.
        value: what JSON gave.
        where: path of the value, for messages.

    Raises:
        BundleError: naming the path, what was expected and what is there.
    """
    origin = typing.get_origin(kind)
    if origin is types.UnionType or origin is typing.Union:
        plain = next(part for part in typing.get_args(kind) if part is not types.NoneType)
        return None if value is None else read_plain(plain, value, where)
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    if origin is dict and isinstance(value, dict):
        inner = typing.get_args(kind)[1]
        return {key: read_plain(inner, part, f"{where}.{key}") for key, part in value.items()}
    if origin is tuple and isinstance(value, list):
        inner = typing.get_args(kind)[0]
        return tuple(read_plain(inner, part, f"{where}[{index}]") for index, part in enumerate(value))
    if origin is typing.Literal and value in typing.get_args(kind):
        return value
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and type(value) is kind:
        return value
    raise BundleError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {value!r}", REBUILD_HINT)


def _read_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise BundleError(f"{where}: expected an object, got {value!r}", REBUILD_HINT)
    hints = typing.get_type_hints(kind)
    expected = {field.name: field for field in dataclasses.fields(kind) if NOT_IN_MANIFEST not in field.metadata}
    later = {name for name, field in expected.items() if field.default is None}  # what older bundles do not have
    names = expected.keys() & (value.keys() | (expected.keys() - later))
    for name in sorted(names ^ value.keys()):
        state = "missing" if name in names else "unknown"
        raise BundleError(f"{where}.{name} is {state}", REBUILD_HINT)
    parts = {name: read_plain(hints[name], value[name], f"{where}.{name}") for name in sorted(names)}
    try:
        return kind(**parts)
    except DittoError as error:
        raise BundleError(f"{where}: {error.what}", error.hint) from error


def read_manifest(folder: Path) -> BundleManifest:
    """Read and check ``manifest.json`` and the tables of its defaults; no weights are opened.

    Raises:
        BundleError: it is absent, no JSON, of another version, or says something that is not understood.
    """
    path = folder / MANIFEST_NAME
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BundleError(f"{path} does not exist", "give the name or the folder of a model bundle") from error
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read: {error}", REBUILD_HINT) from error
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise BundleError(f"{path} is no manifest of a model bundle", "give the folder of a model bundle")
    if parsed.get("version") != VERSION:
        raise BundleError(
            f"{path}: version {parsed.get('version')!r}, this release reads {VERSION}",
            "update newsstudio-ditto, or make the bundle again",
        )
    sha256 = parsed.pop(_TABLES_KEY, None)
    manifest: BundleManifest = read_plain(BundleManifest, parsed, MANIFEST_NAME)
    _check_names(manifest.files)
    if sha256 is not None and (manifest.config.defaults is None or not isinstance(sha256, str)):
        raise BundleError(f"{MANIFEST_NAME}: {_TABLES_KEY} is no hash of tables of config.defaults", REBUILD_HINT)
    return dataclasses.replace(manifest, config=with_tables(manifest.config, folder, sha256))


def _check_names(files: Mapping[str, WeightFile]) -> None:
    for name in sorted(set(NETWORK_NAMES) ^ files.keys()):
        state = "missing" if name in NETWORK_NAMES else "unknown"
        raise BundleError(f"{MANIFEST_NAME}: network {name} is {state}", REBUILD_HINT)
    for name, entry in files.items():
        if Path(entry.file).name != entry.file:
            raise BundleError(f"{MANIFEST_NAME}: file {entry.file!r} of {name} is no plain file name", REBUILD_HINT)


def manifest_text(manifest: BundleManifest) -> str:
    """JSON of a manifest, stable, with a final newline."""
    content = to_plain(manifest)
    tables = tables_sha256(manifest.config)
    content |= {} if tables is None else {_TABLES_KEY: tables}
    return json.dumps(content, indent=2) + "\n"


def to_plain(value: Any) -> Any:
    """What :func:`read_plain` reads back.

    Fields that are None by default and now are left out, so that bundles from before there was such a field keep their
    fingerprint.
    """
    if dataclasses.is_dataclass(value):
        parts = {part: getattr(value, part.name) for part in dataclasses.fields(value)}
        return {
            part.name: to_plain(inner)
            for part, inner in parts.items()
            if NOT_IN_MANIFEST not in part.metadata and not (inner is None and part.default is None)
        }
    if isinstance(value, dict):
        return {key: to_plain(inner) for key, inner in value.items()}
    return [to_plain(inner) for inner in value] if isinstance(value, tuple) else value
