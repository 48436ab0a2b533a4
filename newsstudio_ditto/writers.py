"""Who writes a half-made file: its name says so, and what a killed process left behind can be told and removed."""

import os
import re
import secrets
import socket
from pathlib import Path


def host_name() -> str:
    """This machine's name, as it stands in names of half-made files: letters, digits and underscores, 32 at most."""
    return re.sub(r"[^a-zA-Z0-9]", "_", socket.gethostname())[:32]


def writer_mark() -> str:
    """``{host}-{pid}-{token}`` of this process; another one at every call."""
    return f"{host_name()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_running(pid: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_left_behind(folder: Path, prefix: str, suffix: str) -> None:
    """Remove files ``{prefix}{mark}{suffix}`` whose writer was a process of this machine that has ended."""
    ours = re.compile(re.escape(f"{prefix}{host_name()}-") + r"(\d+)-[0-9a-f]+" + re.escape(suffix))
    for path in folder.iterdir():
        match = ours.fullmatch(path.name)
        if match and not is_running(int(match[1])):
            path.unlink(missing_ok=True)
