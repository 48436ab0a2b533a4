"""The file with a bundle's default tables, and whether it is the one that the manifest speaks of."""

from dataclasses import fields, replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.config import BundleConfig
from newsstudio_ditto.networks.release_defaults import DefaultTables

TABLES_NAME = "defaults.safetensors"
_HINT = "convert the release again: newsstudio-ditto models fetch ditto"


def tables_sha256(config: BundleConfig) -> str | None:
    """Hash of the tables' content; None where the config has none."""
    return None if config.defaults is None else config.defaults.tables.sha256


def write_tables(folder: Path, config: BundleConfig) -> None:
    """Write the tables of a config into ``folder``; without any, a file of earlier ones is removed."""
    tables = {} if config.defaults is None else config.defaults.tables.present()
    path = folder / TABLES_NAME
    if not tables:
        path.unlink(missing_ok=True)
        return
    part = folder / f"{TABLES_NAME}.part"
    save_file({name: table.contiguous() for name, table in tables.items()}, part)
    part.replace(path)


def with_tables(config: BundleConfig, folder: Path, sha256: str | None) -> BundleConfig:
    """The config with the tables of ``folder``, a few thousand numbers.

    Args:
        config: as the manifest gives it.
        folder: of the bundle.
        sha256: what the manifest says of the tables' content; None if there are none.

    Raises:
        BundleError: the file is absent, damaged, of another kind, or not the one that the manifest speaks of.
    """
    if sha256 is None or config.defaults is None:
        return config
    path = folder / TABLES_NAME
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BundleError(f"{path} cannot be read: {error}", _HINT) from error
    unknown = sorted(stored.keys() - {part.name for part in fields(DefaultTables)})
    if unknown:
        raise BundleError(f"{path}: table {unknown[0]} is unknown", "update newsstudio-ditto")
    tables = DefaultTables(**stored)
    if tables.sha256 != sha256:
        raise BundleError(f"{path}: expected content {sha256[:12]}, got {(tables.sha256 or 'none')[:12]}", _HINT)
    return replace(config, defaults=replace(config.defaults, tables=tables))
