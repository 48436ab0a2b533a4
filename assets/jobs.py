"""Jobs: what a person or a sensor launches. Every one runs in one process, so that models stay loaded between steps."""

import dagster as dg

from assets.packet import PACKET_ASSETS
from assets.render import RENDER_ASSETS
from assets.speech import SPEECH_ASSETS

GPU_QUEUE = {"dagster-celery/queue": "gpu"}
"""Where several machines share the work, runs that use the GPU wait in the queue of the GPU workers."""

CPU_QUEUE = {"dagster-celery/queue": "cpu"}

preprocess = dg.define_asset_job(
    "preprocess",
    selection=dg.AssetSelection.assets(*PACKET_ASSETS),
    executor_def=dg.in_process_executor,
    tags=GPU_QUEUE,
    description="Anchor to packet: all six files, checked, sealed and published.",
)
listen = dg.define_asset_job(
    "listen",
    selection=dg.AssetSelection.assets(*SPEECH_ASSETS),
    executor_def=dg.in_process_executor,
    tags=GPU_QUEUE,
    description="Speech to feature rows.",
)
render = dg.define_asset_job(
    "render",
    selection=dg.AssetSelection.assets(*RENDER_ASSETS),
    executor_def=dg.in_process_executor,
    tags=GPU_QUEUE,
    description="Packet and speech to a talking video.",
)

verify = dg.define_asset_job(
    "verify",
    selection=dg.AssetSelection.checks_for_assets(*PACKET_ASSETS),
    executor_def=dg.in_process_executor,
    tags=CPU_QUEUE,
    description="Every check of a packet again, reading it from end to end; nothing is made.",
)

GRAPH_JOBS = [preprocess, listen, render, verify]
