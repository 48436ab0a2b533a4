"""Names of half-made videos, and the removal of those whose writer was killed."""

import hashlib
import os
from pathlib import Path

from newsstudio_ditto.writers import remove_left_behind, writer_mark

_SUFFIX = ".partial.mp4"


def partial_path(output: Path) -> Path:
    """A new hidden name beside ``output``, so that the final rename stays on one file system."""
    return output.with_name(f"{_prefix(output)}{writer_mark()}{_SUFFIX}")


def remove_stale(output: Path) -> None:
    """Remove half-made files for ``output`` that a process of this machine left when it was killed."""
    remove_left_behind(output.parent, _prefix(output), _SUFFIX)


def _prefix(output: Path) -> str:
    return f".ditto-{hashlib.sha256(os.fsencode(output.name)).hexdigest()[:12]}-"
