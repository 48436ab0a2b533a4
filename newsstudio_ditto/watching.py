"""Files that appear, change and go in a folder: settled before they are taken, read only when they have moved."""

import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.storage import files_by_slug, replacing

log = logging.getLogger(__name__)

SETTLE_S = 3.0
HASH_BUDGET_S = 2.5
_SHORT = 12


@dataclass(frozen=True)
class Look:
    """What lies in a folder now.

    Args:
        hashes: sha256 by slug, of the files that are complete as far as one can tell.
        waiting: stamp by slug, of the files that still change, or are not read yet.
    """

    hashes: dict[str, str]
    waiting: dict[str, str]


@dataclass(frozen=True)
class WatchState:
    """What a watcher remembers between two looks; it becomes a sensor's cursor.

    Args:
        epoch: of this memory; another one after a reset, so that old run keys cannot match.
        round: looks that led to runs.
        waiting: stamps of files that are not settled.
        seen: by slug, the beginning of the content's hash and of the version that a run was requested for.
        missing: slugs whose file was gone at the last look.
    """

    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    round: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[str, str]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def to_cursor(self) -> str:
        """Text form."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "WatchState":
        """Read the text form; a first look, or a cursor of another version, starts anew."""
        try:
            fields = json.loads(cursor or "")
            seen = {slug: (content, version) for slug, (content, version) in fields.pop("seen").items()}
            return cls(seen=seen, missing=tuple(fields.pop("missing")), **fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()


@dataclass(frozen=True)
class Decision:
    """What to do after a look.

    Args:
        observed: slugs with new content.
        due: slugs whose version is new, stale or not.
        runs: slugs to make, each with a run key.
        gone: slugs to retire.
        state: to remember.
    """

    observed: list[str]
    due: list[str]
    runs: dict[str, str]
    gone: list[str]
    state: WatchState


def look_at(folder: Path, memory: Path, waiting: Mapping[str, str], *, budget_s: float = HASH_BUDGET_S) -> Look:
    """Stamp every file of a folder; hash those that have moved and are settled, as far as the budget goes.

    A file is settled when its size and time of change are those of the last look, and the change is some seconds old.
    What is not reached within the budget waits for the next look, so that one look stays short.

    Args:
        folder: files named by slug.
        memory: file that keeps the hashes; it can be deleted at any time.
        waiting: of the last look.
        budget_s: seconds after which no further file is begun.
    """
    known, kept, now = _recall(memory), {}, Look({}, {})
    end = time.monotonic() + budget_s
    for slug, path in files_by_slug(folder).items():
        stamp = _stamp(path)
        if stamp is None:
            continue
        if known.get(path.name, ("", ""))[0] == stamp:
            kept[path.name] = known[path.name]
        elif waiting.get(slug) == stamp and _is_old(path) and time.monotonic() < end:
            content = _hash(path)
            if _stamp(path) == stamp:
                kept[path.name] = (stamp, content)
        if path.name in kept:
            now.hashes[slug] = kept[path.name][1]
        else:
            now.waiting[slug] = stamp
    if kept != known:
        with replacing(memory) as beside:
            beside.write_text(json.dumps(kept))
    return now


def _recall(memory: Path) -> dict[str, tuple[str, str]]:
    try:
        return {name: (stamp, content) for name, (stamp, content) in json.loads(memory.read_text()).items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        log.warning("the memory of hashes cannot be read; files are hashed again", extra={"reason": str(error)})
        return {}


def _stamp(path: Path) -> str | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _is_old(path: Path) -> bool:
    age_s = time.time() - path.stat().st_mtime
    return age_s >= SETTLE_S or age_s < 0


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        # The run that this causes fails at the same file, where people look for failures.
        return f"unreadable: {error.strerror}"


def decide(
    state: WatchState, look: Look, version_of: Callable[[str, str], str], is_stale: Callable[[str, str], bool]
) -> Decision:
    """Compare a look with what was seen before. Each version of each file is asked for once.

    A file has to be missing at two looks before it is retired. When all of several are missing at once nothing is:
    that is what an unmounted disk looks like.

    Args:
        state: of the last look.
        look: now.
        version_of: called with slug and hash; a text that changes whenever another try is due.
        is_stale: called likewise when the version is new; whether something has to be made.
    """
    before = state.seen
    now = {slug: (short(content), short(version_of(slug, content))) for slug, content in look.hashes.items()}
    observed = [slug for slug in now if slug not in before or now[slug][0] != before[slug][0]]
    due = [slug for slug in now if now[slug] != before.get(slug)]
    runs = [slug for slug in due if is_stale(slug, look.hashes[slug])]
    missing = sorted({*before} - {*look.hashes} - {*look.waiting})
    gone = [slug for slug in missing if slug in state.missing]
    if gone and not look.hashes and not look.waiting and len(missing) > 1:
        log.warning("every file is gone at once: nothing is retired", extra={"num_files": len(missing)})
        gone = []
    kept = {slug: entry for slug, entry in before.items() if slug not in gone}
    still_missing = tuple(slug for slug in missing if slug not in gone)
    after = WatchState(state.epoch, state.round + bool(runs), look.waiting, kept | now, still_missing)
    keys = {slug: f"{slug} {now[slug][1]} {state.epoch}.{state.round}" for slug in runs}
    return Decision(observed, due, keys, gone, after)


def short(content_hash: str) -> str:
    """The beginning of a hash, enough to tell one version from the next; keeps cursors small."""
    return content_hash[:_SHORT]
