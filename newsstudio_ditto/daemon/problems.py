"""What an answer says when something is wrong: two fields, no path, no stack trace."""

import re

from newsstudio_ditto.errors import (
    DittoError,
    FfmpegError,
    MediaError,
    PacketMissingError,
    StorageError,
    UsageError,
)

_PATH = re.compile(r"(?<![\w.:/])/(?!api/)(?:[^\s/'\"(),;]+/)+([^\s/'\"(),;]*)")

UNEXPECTED = "something unexpected happened"
UNEXPECTED_HINT = "the daemon's log has the details"


class RequestError(DittoError):
    """A request that is refused, with the status of the answer.

    Args:
        status: of HTTP.
        what: what happened.
        hint: what to do about it.
        retry_after_s: when to come back; None if that would not help.
    """

    def __init__(self, status: int, what: str, hint: str = "", *, retry_after_s: int | None = None) -> None:
        """Keep the status beside the two fields."""
        super().__init__(what, hint)
        self.status = status
        self.retry_after_s = retry_after_s


def without_paths(text: str, *roots: str) -> str:
    """Leave of every absolute path its last part.

    Args:
        text: a sentence for people.
        roots: folders that are removed first, also where they hold spaces.
    """
    for root in sorted(roots, key=len, reverse=True):
        if len(root) > 1:
            text = text.replace(root.rstrip("/") + "/", "/storage/").replace(root, "the storage folder")
    return _PATH.sub(lambda match: match[1] or "a folder", text)


def status_of(error: DittoError) -> int:
    """HTTP status that stands for one of our errors."""
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error, UsageError):
        return 400
    if isinstance(error, PacketMissingError):
        return 404
    if isinstance(error, StorageError):
        return 507
    if isinstance(error, MediaError) and not isinstance(error, FfmpegError):
        return 415
    return 409
