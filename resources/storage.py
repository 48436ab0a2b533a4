"""The storage root as a Dagster resource."""

import os
from pathlib import Path

import dagster as dg
from pydantic import Field

from newsstudio_ditto.lost_runs import PROCESS_TAG, process_mark
from newsstudio_ditto.packet.local_copy import LocalPackets, open_nearest
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.preparation import PacketPlan, plan_packet, track_path
from newsstudio_ditto.storage import StorageLayout

LOCAL_PACKETS_VARIABLE = "DITTO_LOCAL_PACKETS"
LOCAL_PACKETS_GB_VARIABLE = "DITTO_LOCAL_PACKETS_GB"


def local_packets() -> LocalPackets | None:
    """Copies on this machine, for a worker whose storage lies elsewhere; a matter of the machine, not of a run."""
    folder = os.environ.get(LOCAL_PACKETS_VARIABLE)
    if not folder:
        return None
    return LocalPackets(Path(folder), round(float(os.environ.get(LOCAL_PACKETS_GB_VARIABLE) or 50) * 1e9))


class StorageResource(dg.ConfigurableResource[None]):
    """Names of everything on disk."""

    root: str = Field("", description="Storage folder; empty means the variable DITTO_STORAGE, else ./storage.")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Say in the run's tags which process executes it, so that its death is noticed whoever started it."""
        if context.run is not None and context.instance is not None:
            context.instance.add_run_tags(context.run.run_id, {PROCESS_TAG: process_mark()})

    @property
    def layout(self) -> StorageLayout:
        """Names below the root; the variable is read when a run asks, never when definitions load."""
        return StorageLayout.at(self.root)

    @property
    def avatars(self) -> AvatarStore:
        """Packets, being made and published."""
        return AvatarStore(self.layout.root)

    def open_packet(self, avatar_id: str) -> Packet:
        """The published packet, through this machine's own copy where ``DITTO_LOCAL_PACKETS`` names a folder."""
        return open_nearest(self.avatars, avatar_id, local_packets())

    def plan(self, avatar_id: str, *, source_hash: str | None = None) -> PacketPlan:
        """What the packet of an avatar has to be made of, as its anchor and recipe say now."""
        return plan_packet(self.layout, avatar_id, source_hash=source_hash)

    def tensor_path(self, asset: str, avatar_id: str, speech_id: str) -> Path:
        """File of a result that is no packet part; an id that plays no part for the asset is empty."""
        if asset == "face_track":
            return track_path(self.avatars, avatar_id)
        if asset == "speech_features":
            return self.layout.speech_features(speech_id)
        return self.layout.motion(avatar_id, speech_id)
