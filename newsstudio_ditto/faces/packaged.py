"""The face nets inside the package, and the hashes that they must have."""

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from newsstudio_ditto.errors import BundleError

HASHES = "SHA256SUMS"
_HINT = "install the package again"


def read_network(name: str) -> bytes:
    """Content of a packaged net, checked against its hash.

    Raises:
        BundleError: it is absent, or not the one that belongs to this release.
    """
    problem, content = _read(name, expected_hashes())
    if problem:
        raise BundleError(problem, _HINT)
    return content


def check_networks() -> list[str]:
    """Faults of the packaged face nets, one sentence each; empty if all is well."""
    try:
        hashes = expected_hashes()
    except BundleError as error:
        return [error.what]
    return [problem for name in sorted(hashes) if (problem := _read(name, hashes)[0])]


def expected_hashes() -> dict[str, str]:
    """SHA-256 by file name, 64 hexadecimal digits each; the file is one that ``sha256sum --check`` reads.

    Raises:
        BundleError: it is absent or says something else.
    """
    path = _folder() / HASHES
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{path} cannot be read: {error}", _HINT) from error
    if not rows or any(len(row) != 2 or len(row[0]) != 64 for row in rows):
        raise BundleError(f"{path} holds something else than hashes", _HINT)
    return {name: digest for digest, name in rows}


def _folder() -> Traversable:
    return files("newsstudio_ditto") / "bundled" / "faces"


def _read(name: str, hashes: dict[str, str]) -> tuple[str, bytes]:
    """What is wrong with a net, if anything, and its content."""
    path = _folder() / name
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}", b""
    found, expected = sha256(content).hexdigest(), hashes.get(name, "none")
    return ("" if found == expected else f"{path}: sha256: expected {expected}, got {found}"), content
