"""Loaded by every Python that has this folder on its path: notes and refuses each try to leave the machine."""

import ipaddress
import os
import sys
from pathlib import Path


def _stays_here(host: object) -> bool:
    if host in (None, "", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # a path or None: no network
    else:
        return
    if not _stays_here(host):
        with Path(os.environ["DITTO_NETWORK_LOG"]).open("a") as log:
            log.write(f"{event} {host!r}\n")
        raise OSError(f"{event} {host!r}: this test runs without a network")


if "DITTO_NETWORK_LOG" in os.environ:
    sys.addaudithook(_guard)
