"""What the motion diffusion hears."""

import dagster as dg

from assets.packet import GPU_POOL, OWNERS
from newsstudio_ditto.media.decode import read_speech
from newsstudio_ditto.preparation import content_hash
from newsstudio_ditto.stages import speech as listening
from newsstudio_ditto.stages.tensor_file import TensorFile
from newsstudio_ditto.units import SAMPLE_RATE_HZ
from resources import EngineResource, StorageResource
from resources.partitions import SPEECHES, speech_of
from resources.reporting import timed


class SpeechSettings(dg.Config):
    """Which model listens."""

    model: str = "mini"


@dg.asset(
    deps=[dg.AssetKey("speech_audio")],
    partitions_def=SPEECHES,
    group_name="speech",
    io_manager_key="tensor_io",
    code_version=listening.VERSION,
    description="One row per video frame (25 fps) from the audio encoder, T x A.",
    owners=OWNERS,
    kinds={"torch", "huggingface"},
    pool=GPU_POOL,
    tags={"stage": "speech"},
)
def speech_features(
    context: dg.AssetExecutionContext, config: SpeechSettings, storage: StorageResource, engine: EngineResource
) -> TensorFile:
    """Encode a speech."""
    bundle = engine.bundle(config.model)
    path = storage.layout.speech(speech_of(context.partition_key))
    speech = read_speech(path)
    context.add_output_metadata({"speech_seconds": round(len(speech) / SAMPLE_RATE_HZ, 3)})
    with timed(context):
        content = listening.to_tensors(listening.compute_speech_features(speech, bundle), bundle)
        return TensorFile(content.tensors, {**content.header, "speech_sha256": content_hash(path)})


SPEECH_ASSETS = [speech_features]
