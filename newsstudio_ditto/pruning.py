"""What can go: packets, renders and remains that nobody needs, by age and by size; listed first, removed on request."""

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from newsstudio_ditto.config import SLUG
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.packet.store import AvatarStore, tree_bytes
from newsstudio_ditto.storage import StorageLayout, files_by_slug
from newsstudio_ditto.writers import host_name, is_running

Kind = Literal["remains", "orphan packet", "orphan result", "packet", "video", "motion"]

DAY_S = 86400.0
_PARTIAL = re.compile(r"\.ditto-[0-9a-f]+-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]+\.partial\.mp4")
_ABANDONED_S = DAY_S


@dataclass(frozen=True)
class PruneRules:
    """What is too old or too much. None leaves a kind alone; remains of interrupted runs always go.

    Args:
        packets_older_than_days: packets that were neither made nor rendered from for so long.
        videos_older_than_days: finished videos and their motion.
        max_videos_bytes: all finished videos together; the oldest go first.
        orphans: packets whose clip is gone, and results whose speech or packet is gone.
    """

    packets_older_than_days: float | None = None
    videos_older_than_days: float | None = None
    max_videos_bytes: int | None = None
    orphans: bool = False

    def __post_init__(self) -> None:
        """Refuse negative limits."""
        for name in ("packets_older_than_days", "videos_older_than_days", "max_videos_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name} is {value}", "give 0 or more")


@dataclass(frozen=True)
class PruneItem:
    """One thing that can go.

    Args:
        kind: of what.
        path: file or folder.
        num_bytes: that it takes; files that others share count where they are removed.
        reason: why.
        avatar_id: whose packet; empty for anything else.
    """

    kind: Kind
    path: Path
    num_bytes: int
    reason: str
    avatar_id: str = ""

    def to_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "path": str(self.path)}


def list_prunable(layout: StorageLayout, rules: PruneRules, *, now: float | None = None) -> list[PruneItem]:
    """What the rules say can go. Nothing is removed.

    Args:
        layout: where everything lives.
        rules: what is too old or too much.
        now: seconds since the epoch; None asks the clock.
    """
    now = time.time() if now is None else now
    found = [*_remains(layout, now), *_orphans(layout, is_wanted=rules.orphans), *_old_packets(layout, rules, now)]
    found += _old_videos(layout, rules, now)
    return list({item.path: item for item in reversed(found)}.values())[::-1]


def prune(layout: StorageLayout, items: Iterable[PruneItem]) -> int:
    """Remove what :func:`list_prunable` named, and return the bytes that it took. What is gone already is no fault."""
    store, freed = AvatarStore(layout.root), 0
    for item in items:
        if item.avatar_id:
            if item.path.exists():
                freed += store.remove(item.avatar_id)
        elif item.path.is_dir():
            continue
        else:
            freed += item.num_bytes if item.path.exists() else 0
            item.path.unlink(missing_ok=True)
    store.prune()
    return freed


def unnoticed(layout: StorageLayout, avatars: Iterable[str], speeches: Iterable[str]) -> list[str]:
    """What lies on disk without a partition, one sentence each: partitions deleted in the browser leave their files.

    Args:
        layout: where everything lives.
        avatars: partitions of avatars.
        speeches: partitions of speeches.
    """
    known_avatars, known_speeches = {*avatars}, {*speeches}
    packets = [name for name in AvatarStore(layout.root).list() if name not in known_avatars]
    sounds = [name for name in files_by_slug(layout.speeches) if name not in known_speeches]
    results = [
        *((path, path.parent.name, path.stem) for path in _results(layout.videos, "*/*.mp4")),
        *((path, path.parent.name, path.stem) for path in _results(layout.motion("x", "x").parents[1], "*/*.pt")),
        *((path, "", path.stem) for path in _results(layout.speech_features("x").parent, "*.pt")),
    ]
    lost = [
        path
        for path, avatar_id, speech_id in results
        if (avatar_id and avatar_id not in known_avatars) or speech_id not in known_speeches
    ]
    sentences = [
        f"the packet of {name} belongs to no partition (remove it: newsstudio-ditto remove {name})" for name in packets
    ]
    sentences += [
        f"the speech {name} belongs to no partition (the sensor adds it when its file changes)" for name in sounds
    ]
    if lost:
        some = ", ".join(str(path.relative_to(layout.root)) for path in lost[:5])
        sentences.append(
            f"{len(lost)} results belong to no partition: {some}{', ...' if len(lost) > 5 else ''} "
            "(videos go by age, see prune --help; the others with the speech or the packet: prune --orphans)"
        )
    return sentences


def _remains(layout: StorageLayout, now: float) -> Iterator[PruneItem]:
    for path in AvatarStore(layout.root).leftovers():
        size = tree_bytes([path]) if path.is_dir() else _size(path)
        yield PruneItem("remains", path, size, "left behind by an interrupted run")
    for path in layout.videos.glob("*/.ditto-*.partial.mp4"):
        if _is_abandoned(path, now):
            yield PruneItem("remains", path, _size(path), "a video whose writer was killed")


def _is_abandoned(path: Path, now: float) -> bool:
    match = _PARTIAL.fullmatch(path.name)
    if match and match["host"] == host_name():
        return not is_running(int(match["pid"]))
    # Of another machine: its process cannot be asked.
    return now - path.stat().st_mtime > _ABANDONED_S


def _orphans(layout: StorageLayout, *, is_wanted: bool) -> Iterator[PruneItem]:
    if not is_wanted:
        return
    anchors, speeches = files_by_slug(layout.anchors), files_by_slug(layout.speeches)
    avatars = AvatarStore(layout.root).list()
    for avatar_id in avatars:
        if avatar_id not in anchors:
            yield _packet_item(layout, "orphan packet", avatar_id, "its clip is gone")
    for path in _results(layout.speech_features("x").parent, "*.pt"):
        if path.stem not in speeches:
            yield PruneItem("orphan result", path, _size(path), "its speech is gone")
    for path in _results(layout.motion("x", "x").parents[1], "*/*.pt"):
        if path.stem not in speeches or path.parent.name not in avatars:
            yield PruneItem("orphan result", path, _size(path), "its speech or its packet is gone")


def _old_packets(layout: StorageLayout, rules: PruneRules, now: float) -> Iterator[PruneItem]:
    if rules.packets_older_than_days is None:
        return
    for avatar_id in AvatarStore(layout.root).list():
        videos = [path.stat().st_mtime for path in _results(layout.videos / avatar_id, "*.mp4")]
        used = max([(layout.packet(avatar_id) / "meta.pt").stat().st_mtime, *videos])
        if now - used > rules.packets_older_than_days * DAY_S:
            days = (now - used) / DAY_S
            yield _packet_item(layout, "packet", avatar_id, f"not used for {days:.0f} days")


def _old_videos(layout: StorageLayout, rules: PruneRules, now: float) -> Iterator[PruneItem]:
    videos = sorted(_results(layout.videos, "*/*.mp4"), key=lambda path: path.stat().st_mtime)
    excess = sum(map(_size, videos)) - rules.max_videos_bytes if rules.max_videos_bytes is not None else 0
    for path in videos:
        age_days = (now - path.stat().st_mtime) / DAY_S
        is_old = rules.videos_older_than_days is not None and age_days > rules.videos_older_than_days
        if not is_old and excess <= 0:
            continue
        reason = f"{age_days:.0f} days old" if is_old else "the videos take more room than they may"
        excess -= _size(path)
        yield PruneItem("video", path, _size(path), reason)
        motion = layout.motion(path.parent.name, path.stem)
        if motion.is_file():
            yield PruneItem("motion", motion, _size(motion), "of that video")


def _packet_item(layout: StorageLayout, kind: Kind, avatar_id: str, reason: str) -> PruneItem:
    folder = layout.packet(avatar_id)
    return PruneItem(kind, folder, tree_bytes([folder.resolve()]), reason, avatar_id)


def _results(folder: Path, pattern: str) -> list[Path]:
    found = folder.glob(pattern) if folder.is_dir() else ()
    return sorted(path for path in found if SLUG.fullmatch(path.stem) and path.is_file())


def _size(path: Path) -> int:
    return os.lstat(path).st_size
