"""Refusing to render what is mixed or unchecked. A blocking check gates its own run only, so a later run asks again."""

import dagster as dg
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES

from assets.packet import step_key
from newsstudio_ditto.errors import PacketError, PacketMixedError, PacketModelError
from newsstudio_ditto.inspection import STEP_CHECKS
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.preparation import require_sealed
from newsstudio_ditto.stages.tensor_file import TensorFile
from resources import StorageResource


def require_renderable(instance: dg.DagsterInstance, storage: StorageResource, avatar_id: str, packet: Packet) -> None:
    """Refuse a packet whose parts have moved on since the seal, or whose checks have not passed for this generation.

    Raises:
        PacketMixedError: parts were made again after the seal.
        PacketError: names the checks.
    """
    require_sealed(storage.avatars, avatar_id, packet)
    unpassed = unpassed_checks(instance, avatar_id, packet.generation)
    if unpassed:
        named = ", ".join(f"{key.name} of {key.asset_key.to_user_string()}" for key in unpassed)
        raise PacketError(
            f"checks have not passed for generation {packet.generation[:12]} of {avatar_id}: {named}",
            f"run the job verify for {avatar_id}, or newsstudio-ditto preprocess CLIP --avatar-id {avatar_id} --force",
        )


def is_renderable(instance: dg.DagsterInstance, storage: StorageResource, avatar_id: str) -> bool:
    """Whether a render of this avatar would be let through."""
    try:
        require_renderable(instance, storage, avatar_id, storage.avatars.open(avatar_id))
    except PacketError:
        return False
    return True


def unpassed_checks(instance: dg.DagsterInstance, avatar_id: str, generation: str) -> list[dg.AssetCheckKey]:
    """Blocking checks of an avatar's packet that have not passed for this generation, or not since they failed."""
    keys = [dg.AssetCheckKey(step_key(check.step), check.name) for check in STEP_CHECKS if not check.is_warning]
    return [key for key in keys if not has_passed(instance, key, avatar_id, generation)]


def has_passed(instance: dg.DagsterInstance, key: dg.AssetCheckKey, avatar_id: str, generation: str) -> bool:
    """Whether the latest finished run of a check, for one avatar, passed for this generation."""
    # The public query knows no partition: it answers with the latest check of any avatar.
    history = instance.event_log_storage.get_asset_check_execution_history(
        key,
        limit=1,
        status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
        partition_filter=PartitionKeyFilter(key=avatar_id),
    )
    evaluation = history[0].evaluation if history else None
    checked = evaluation.metadata.get("generation") if evaluation else None
    return evaluation is not None and evaluation.passed and checked is not None and checked.value == generation


def require_matching_speech(packet: Packet, bundle: ModelBundle, features: TensorFile, speech_id: str) -> None:
    """Refuse a packet or feature rows that another model made.

    Raises:
        PacketModelError: the packet, or the features, are of another model.
    """
    packet.expect_model(bundle.fingerprint)
    if features.header["model_fingerprint"] != bundle.fingerprint:
        raise PacketModelError(
            f"the features of {speech_id} were made by another model than the packet",
            f"materialize speech_features for {speech_id} with that model",
        )


def require_matching_motion(
    packet: Packet, motion: TensorFile, avatar_id: str, speech_id: str, stage_version: str
) -> None:
    """Refuse driving motion that was sampled for another generation of the packet, or by other code.

    Raises:
        PacketMixedError: it was.
    """
    made = motion.header["generation"], motion.header["stage_version"]
    if made != (packet.generation, stage_version):
        raise PacketMixedError(
            f"the driving motion of {avatar_id}|{speech_id} is of generation {made[0][:12]} and {made[1]}, "
            f"the packet of {packet.generation[:12]}, the code {stage_version}",
            "materialize driving_motion for this partition",
        )
