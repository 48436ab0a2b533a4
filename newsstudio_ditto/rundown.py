"""Who says a new speech: the presenters of a storage folder, and the videos that are still wanted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from newsstudio_ditto.config import SLUG
from newsstudio_ditto.errors import MediaError, PacketError, UsageError
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.preparation import model_fingerprint
from newsstudio_ditto.stages.speech import VERSION as FEATURES_VERSION
from newsstudio_ditto.stages.tensor_file import open_tensors
from newsstudio_ditto.storage import DEFAULT_MODEL, StorageLayout

SEPARATOR = "--"


@dataclass(frozen=True)
class WantedVideo:
    """A video that nobody has made of this speech yet.

    Args:
        avatar_id: who says it.
        speech_id: what is said.
        speech_hash: sha256 of the sound file.
    """

    avatar_id: str
    speech_id: str
    speech_hash: str


def presenters_of(layout: StorageLayout, speech_id: str, avatars: list[str]) -> list[str]:
    """Avatars that say a speech of themselves.

    A speech called ``anna--headlines`` is Anna's. Every other one is said by those that ``presenters.json`` (a list of
    avatar ids, in the storage folder) names; without that file, by the only avatar if there is exactly one.

    Args:
        layout: where everything lives.
        speech_id: a slug.
        avatars: ids that have a packet.

    Raises:
        UsageError: ``presenters.json`` is no list of avatar ids.
    """
    name, separator, _rest = speech_id.partition(SEPARATOR)
    if separator and name in avatars:
        return [name]
    path = layout.root / "presenters.json"
    if not path.is_file():
        return avatars if len(avatars) == 1 else []
    try:
        named = json.loads(path.read_text())
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}", 'write a list such as ["anna", "ben"]') from error
    if not isinstance(named, list) or not all(isinstance(entry, str) and SLUG.fullmatch(entry) for entry in named):
        raise UsageError(f"{path} is no list of avatar ids", 'write a list such as ["anna", "ben"]')
    return [entry for entry in named if entry in avatars]


def wanted_videos(layout: StorageLayout, speeches: dict[str, str], avatars: list[str]) -> Iterator[WantedVideo]:
    """Videos to make of speeches that are encoded in their present content; what lies there already is left out.

    Args:
        layout: where everything lives.
        speeches: sha256 by speech id.
        avatars: ids that have a packet.
    """
    for speech_id, speech_hash in speeches.items():
        for avatar_id in presenters_of(layout, speech_id, avatars):
            is_made = made_of(layout, avatar_id, speech_id) == speech_hash
            if not is_made and is_encoded(layout, speech_id, speech_hash, layout.recipe(avatar_id).model):
                yield WantedVideo(avatar_id, speech_id, speech_hash)


def listening_model(layout: StorageLayout, speech_id: str, avatars: list[str]) -> str:
    """The model that encodes a speech: its first presenter's, or the default where nobody is to say it."""
    presenters = presenters_of(layout, speech_id, avatars)
    return layout.recipe(presenters[0]).model if presenters else DEFAULT_MODEL


def is_encoded(layout: StorageLayout, speech_id: str, speech_hash: str, model: str) -> bool:
    """Whether there are feature rows of a speech in this content, made by the present code and this model.

    Raises:
        BundleError: there is no such model.
    """
    path = layout.speech_features(speech_id)
    try:
        header = open_tensors(path, kind="speech_features", remedy="materialize speech_features").header
    except PacketError:
        return False
    made = header.get("speech_sha256"), header["stage_version"], header["model_fingerprint"]
    return made == (speech_hash, FEATURES_VERSION, model_fingerprint(model))


def made_of(layout: StorageLayout, avatar_id: str, speech_id: str) -> str | None:
    """sha256 of the sound file that the present video was made of; None if there is no video of ours."""
    path = layout.video(avatar_id, speech_id)
    if not path.is_file():
        return None
    try:
        return read_provenance(path).get("speech_sha256")
    except MediaError:
        return None
