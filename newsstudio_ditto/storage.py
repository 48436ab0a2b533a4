"""Where everything lives on disk: one root folder, and a name for each kind of thing below it."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from newsstudio_ditto.config import SLUG, CropConfig, PacketOptions, validate_slug
from newsstudio_ditto.errors import MediaError, PacketFormatError, UsageError
from newsstudio_ditto.packet.files import reporting_refusals
from newsstudio_ditto.writers import remove_left_behind, writer_mark

STORAGE_VARIABLE = "DITTO_STORAGE"
DEFAULT_MODEL = "mini"


def default_root() -> Path:
    """The storage root: the environment variable ``DITTO_STORAGE``, else ``storage`` in the working directory."""
    return Path(os.environ.get(STORAGE_VARIABLE) or "storage").absolute()


@dataclass(frozen=True)
class AvatarRecipe:
    """How an avatar is prepared. It is kept with the anchor, so that every door prepares it the same way.

    Args:
        model: name or folder of the model bundle.
        options: what a packet contains, besides source and model.
    """

    model: str = DEFAULT_MODEL
    options: PacketOptions = field(default_factory=PacketOptions)

    def to_json(self) -> str:
        """Text form, the same for equal recipes."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, path: Path) -> "AvatarRecipe":
        """Read the text form.

        Raises:
            PacketFormatError: not a recipe; ``path`` is named.
        """
        try:
            fields = json.loads(text)
            options = dict(fields.pop("options"))
            crop = options.pop("crop")
            return cls(options=PacketOptions(crop=None if crop is None else CropConfig(**crop), **options), **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            hint = "delete the file, or prepare the avatar again from its anchor"
            raise PacketFormatError(f"{path} is not an avatar recipe: {error}", hint) from error


@dataclass(frozen=True)
class StorageLayout:
    """Names below one storage root. It makes no folder and opens no file until asked to place or write one.

    Args:
        root: a folder; a relative one is meant from the working directory.
    """

    root: Path

    @classmethod
    def at(cls, root: Path | str | None = None) -> "StorageLayout":
        """Layout at ``root``, or at :func:`default_root` when that is None or empty."""
        return cls(Path(root).absolute() if root else default_root())

    @property
    def anchors(self) -> Path:
        """Anchor clips and stills, ``{avatar_id}.*``."""
        return self.root / "anchors"

    @property
    def speeches(self) -> Path:
        """Speeches, ``{speech_id}.*``."""
        return self.root / "speeches"

    @property
    def controls(self) -> Path:
        """Controls files that a run of the asset graph may name."""
        return self.root / "controls"

    @property
    def recipes(self) -> Path:
        """How each avatar is prepared, ``{avatar_id}.json``."""
        return self.root / "recipes"

    @property
    def packets(self) -> Path:
        """Published packets, one folder (a link to a sealed set) per avatar."""
        return self.root / "cache" / "avatars" / "ditto"

    def packet(self, avatar_id: str) -> Path:
        """The published packet of an avatar; it need not exist."""
        return self.packets / validate_slug(avatar_id)

    @property
    def videos(self) -> Path:
        """Finished videos."""
        return self.root / "videos"

    @property
    def dagster_home(self) -> Path:
        """Dagster's own records: runs, events, schedules, logs. Absolute, as Dagster wants it."""
        return self.root.absolute() / "dagster"

    def speech_features(self, speech_id: str) -> Path:
        """File of one speech's feature rows."""
        return self.root / "cache" / "speech_features" / f"{validate_slug(speech_id, 'speech id')}.pt"

    def motion(self, avatar_id: str, speech_id: str) -> Path:
        """File of one render's driving motion."""
        name = f"{validate_slug(speech_id, 'speech id')}.pt"
        return self.root / "cache" / "motion" / validate_slug(avatar_id) / name

    def video(self, avatar_id: str, speech_id: str) -> Path:
        """The talking video of one avatar and one speech."""
        return self.videos / validate_slug(avatar_id) / f"{validate_slug(speech_id, 'speech id')}.mp4"

    def bench_lock(self, avatar_id: str) -> Path:
        """File that a run locks while it makes parts of an avatar's packet."""
        return self.root / "cache" / "locks" / "runs" / f"{validate_slug(avatar_id)}.lock"

    def hash_memory(self, folder: str) -> Path:
        """File that remembers the hashes of a watched folder; it can be deleted at any time."""
        return self.root / "cache" / "hashes" / f"{folder}.json"

    def anchor(self, avatar_id: str) -> Path:
        """The anchor file of an avatar.

        Raises:
            MediaError: none is there, or more than one.
        """
        return _only_file(self.anchors, validate_slug(avatar_id), "anchor")

    def speech(self, speech_id: str) -> Path:
        """The sound file of a speech.

        Raises:
            MediaError: none is there, or more than one.
        """
        return _only_file(self.speeches, validate_slug(speech_id, "speech id"), "speech")

    def place_anchor(self, source: Path, avatar_id: str) -> Path:
        """Put a clip or still into the anchors folder under its avatar id, in place of an older one."""
        return _place(source, self.anchors, validate_slug(avatar_id))

    def place_speech(self, source: Path, speech_id: str) -> Path:
        """Put a sound file into the speeches folder under its speech id, in place of an older one."""
        return _place(source, self.speeches, validate_slug(speech_id, "speech id"))

    def recipe(self, avatar_id: str) -> AvatarRecipe:
        """The recipe kept for an avatar, or the default one."""
        path = self.recipes / f"{validate_slug(avatar_id)}.json"
        return AvatarRecipe.from_json(path.read_text(), path) if path.is_file() else AvatarRecipe()

    def keep_recipe(self, avatar_id: str, recipe: AvatarRecipe) -> None:
        """Keep ``recipe`` for an avatar; a file that already says the same is not touched."""
        path = self.recipes / f"{validate_slug(avatar_id)}.json"
        if not path.is_file() or path.read_text() != recipe.to_json():
            with replacing(path) as beside:
                beside.write_text(recipe.to_json())


def files_by_slug(folder: Path) -> dict[str, Path]:
    """Files of ``folder`` whose stem is a slug, by stem; hidden and half-written ones are left out."""
    if not folder.is_dir():
        return {}
    found = (path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.stem: path for path in found if SLUG.fullmatch(path.stem) and path.suffix not in (".tmp", ".part")}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name in the folder of ``path``; rename it to ``path`` on success, remove it on failure.

    What a killed process left behind for the same name is removed first.

    Raises:
        StorageError: the folder is full, read-only or forbidden.
    """
    prefix, suffix = f".{path.name}.", ".tmp"
    with reporting_refusals(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_left_behind(path.parent, prefix, suffix)
        beside = path.with_name(f"{prefix}{writer_mark()}{suffix}")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            # Told by its lock from what was left behind, as other half-made files of the storage are.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield beside
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            os.close(descriptor)
            beside.unlink(missing_ok=True)


def _named(folder: Path, slug: str) -> list[Path]:
    return [path for path in sorted(folder.glob(f"{slug}.*")) if path.stem == slug and path.is_file()]


def _only_file(folder: Path, slug: str, what: str) -> Path:
    found = _named(folder, slug)
    if not found:
        raise MediaError(f"no {what} named {slug!r} in {folder}", f"put a file {slug}.* there")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise MediaError(f"{len(found)} files could be the {what} {slug!r}: {names}", f"keep one of them in {folder}")
    return found[0]


def _place(source: Path, folder: Path, slug: str) -> Path:
    if not source.is_file():
        raise UsageError(f"{source} is not a file", "give the path of an existing file")
    if not source.suffix:
        raise UsageError(f"{source.name} has no extension", "rename it, for example to .mp4, .png or .wav")
    target = folder / f"{slug}{source.suffix.lower()}"
    if not (target.exists() and target.samefile(source)):
        with replacing(target) as beside:
            beside.unlink()
            _link_or_copy(source.resolve(), beside)
    for older in _named(folder, slug):
        if older != target:
            older.unlink()
    return target


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(source, target)
