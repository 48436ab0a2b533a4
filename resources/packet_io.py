"""IO manager of the packet: parts go to the avatar's bench as streams of chunks and come back as read-only maps."""

import dagster as dg
from torch import Tensor

from newsstudio_ditto.packet.reader import Packet, Part
from newsstudio_ditto.packet.writer import PartStream, write_part
from newsstudio_ditto.preparation import open_bench_part
from resources.partitions import avatar_of
from resources.previews import packet_picture
from resources.reporting import show_picture, show_tensors
from resources.storage import StorageResource


class PacketIOManager(dg.ConfigurableIOManager):
    """Never pickles and never holds a whole tensor; a file appears under its name only when it is complete."""

    storage: StorageResource

    def handle_output(self, context: dg.OutputContext, obj: PartStream | Packet) -> None:
        """Write a part, or note the packet that the seal has published; then fingerprint and show."""
        avatar_id = avatar_of(context.asset_partition_key)
        if isinstance(obj, PartStream):
            generation, folder = self.storage.plan(avatar_id).generation, self.storage.avatars.bench(avatar_id)
            record = write_part(folder, obj, generation=generation, avatar_id=avatar_id)
            context.add_output_metadata({"seconds": round(record.seconds, 3)})
            self._show(context, avatar_id, open_bench_part(self.storage.avatars, avatar_id, obj.part))
        else:
            context.add_output_metadata(
                {
                    "packet": dg.MetadataValue.path(str(self.storage.layout.packet(avatar_id))),
                    "packet_bytes": obj.num_bytes,
                    "frames_without_face": int((~obj.meta.face_valid).sum()),
                }
            )
            self._show(context, avatar_id, obj.parts["meta"])

    def load_input(self, context: dg.InputContext) -> Packet | Tensor | dict[str, Tensor]:
        """Map a part of the bench, or the published packet for ``packet/meta``. A part of one tensor comes bare."""
        part, avatar_id = context.asset_key.path[-1], avatar_of(context.asset_partition_key)
        if part == "meta":
            return self.storage.open_packet(avatar_id)
        tensors = open_bench_part(self.storage.avatars, avatar_id, part).tensors
        return tensors[part] if len(tensors) == 1 else tensors

    def _show(self, context: dg.OutputContext, avatar_id: str, part: Part) -> None:
        record = part.record()
        context.step_context.set_data_version(context.asset_key, dg.DataVersion(record.sha256))
        context.add_output_metadata(
            {
                "preview": show_picture(packet_picture(part, self.storage.avatars, avatar_id)),
                "path": dg.MetadataValue.path(str(record.path)),
                "bytes": record.bytes,
                "num_frames": part.header.num_frames,
                "generation": record.generation,
                "tensors": show_tensors(part.tensors),
            }
        )
