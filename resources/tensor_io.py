"""IO manager of the small results that are no packet file: face track, feature rows, driving motion."""

from pathlib import Path

import dagster as dg

from newsstudio_ditto.stages.tensor_file import TensorFile, open_tensors, save_tensors
from resources.partitions import avatar_of, render_of, speech_of
from resources.previews import tensor_picture
from resources.reporting import show_picture, show_tensors
from resources.storage import StorageResource


class TensorIOManager(dg.ConfigurableIOManager):
    """Writes one file of tensors beside, then renames; loads it as read-only maps."""

    storage: StorageResource

    def handle_output(self, context: dg.OutputContext, obj: TensorFile) -> None:
        """Store, fingerprint and show."""
        key = context.asset_key
        path = self._path(key, context.asset_partition_key)
        save_tensors(path, obj)
        context.step_context.set_data_version(key, dg.DataVersion(obj.checksum))
        context.add_output_metadata(
            {
                "preview": show_picture(tensor_picture(obj, self.storage, context.asset_partition_key)),
                "path": dg.MetadataValue.path(str(path)),
                "bytes": path.stat().st_size,
                "tensors": show_tensors(obj.tensors),
            }
        )

    def load_input(self, context: dg.InputContext) -> TensorFile:
        """Map read-only."""
        key, partition = context.asset_key, context.asset_partition_key
        remedy = f"materialize {key.to_user_string()} for partition {partition}"
        return open_tensors(self._path(key, partition), kind=key.path[-1], remedy=remedy)

    def _path(self, key: dg.AssetKey, partition: str) -> Path:
        asset = key.path[-1]
        if asset == "face_track":
            return self.storage.tensor_path(asset, avatar_of(partition), "")
        if asset == "speech_features":
            return self.storage.tensor_path(asset, "", speech_of(partition))
        return self.storage.tensor_path(asset, *render_of(partition))
