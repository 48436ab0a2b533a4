"""The Dagster code location: the one module that puts assets and resources together."""

import dagster as dg

from assets import ASSETS, CHECKS, JOBS, SCHEDULES, SENSORS
from newsstudio_ditto.pool_waiting import sleep_while_waiting
from newsstudio_ditto.storage import StorageLayout
from resources import BenchResource, EngineResource, PacketIOManager, SinkResource, StorageResource, TensorIOManager


def build_definitions(layout: StorageLayout | None = None, *, device: str = "auto") -> dg.Definitions:
    """Assets, checks, jobs, sensors and schedules on one storage folder.

    Args:
        layout: where everything lives; None asks the variable ``DITTO_STORAGE`` when a run starts, else ``./storage``.
        device: for all networks.
    """
    storage = StorageResource(root=str(layout.root.absolute()) if layout else "")
    return dg.Definitions(
        assets=ASSETS,
        asset_checks=CHECKS,
        jobs=JOBS,
        sensors=SENSORS,
        schedules=SCHEDULES,
        executor=dg.in_process_executor,
        resources={
            "storage": storage,
            "bench": BenchResource(storage=storage),
            "engine": EngineResource(device=device, eager=False),
            "sink": SinkResource(encoder="libx264", preset="veryfast", crf=18),
            "packet_io": PacketIOManager(storage=storage),
            "tensor_io": TensorIOManager(storage=storage),
        },
    )


sleep_while_waiting()
defs = build_definitions()
