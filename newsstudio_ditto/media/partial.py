"""Names of half-made videos, and the removal of those whose writer was killed."""

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

_NAME = ".ditto-{digest}-{host}-{pid}-{token}.partial.mp4"


def partial_path(output: Path) -> Path:
    """A new hidden name beside ``output``, so that the final rename stays on one file system."""
    return output.with_name(
        _NAME.format(digest=_digest(output), host=_host(), pid=os.getpid(), token=secrets.token_hex(4))
    )


def remove_stale(output: Path) -> None:
    """Remove half-made files for ``output`` that a process of this machine left when it was killed."""
    ours = re.compile(re.escape(f".ditto-{_digest(output)}-{_host()}-") + r"(\d+)-[0-9a-f]+\.partial\.mp4")
    for path in output.parent.iterdir():
        match = ours.fullmatch(path.name)
        if match and not _is_alive(int(match[1])):
            path.unlink(missing_ok=True)


def _digest(output: Path) -> str:
    return hashlib.sha256(os.fsencode(output.name)).hexdigest()[:12]


def _host() -> str:
    return re.sub(r"[^a-zA-Z0-9]", "_", socket.gethostname())[:32]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
