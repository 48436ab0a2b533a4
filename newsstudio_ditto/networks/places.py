"""Where model bundles lie: inside the package, in the user's own folder, or wherever a path leads."""

import os
from pathlib import Path

from newsstudio_ditto.errors import BundleError
from newsstudio_ditto.networks.manifest import MANIFEST_NAME

BUNDLED = Path(__file__).parent.parent / "bundled"
DEFAULT_BUNDLE = "mini"
MODELS_VARIABLE = "DITTO_MODELS"
_USER_FOLDER = Path("newsstudio-ditto") / "models"


def user_models() -> Path:
    """Folder of the user's own bundles, which need not exist.

    It is what the environment variable ``DITTO_MODELS`` names, else ``newsstudio-ditto/models`` below
    ``XDG_DATA_HOME``, which is ``~/.local/share`` if it is not set.
    """
    named = os.environ.get(MODELS_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / _USER_FOLDER


def bundle_folders() -> list[Path]:
    """Every bundle that has a name: the package's own, then the user's; a name counts once."""
    found: dict[str, Path] = {}
    for parent in (BUNDLED, user_models()):
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if (folder / MANIFEST_NAME).is_file():
                found.setdefault(folder.name, folder)
    return list(found.values())


def find_bundle(name_or_path: str | Path) -> Path:
    """Folder of a bundle: the name of one inside the package or in the user's folder, or a path.

    Raises:
        BundleError: there is none.
    """
    name = str(name_or_path)
    for folder in (BUNDLED / name, user_models() / name, Path(name_or_path)):
        if (folder / MANIFEST_NAME).is_file():
            return folder
    raise BundleError(f"there is no model bundle {name!r}", _hint(name))


def _hint(name: str) -> str:
    if name == "ditto":
        return "fetch and convert the official checkpoints: newsstudio-ditto models fetch ditto"
    return f"give {DEFAULT_BUNDLE!r}, or a folder that holds a {MANIFEST_NAME}"
