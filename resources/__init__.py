"""Dagster resources: where things live, and what stays warm between runs."""

from resources.bench import BenchResource
from resources.engine import EngineResource
from resources.packet_io import PacketIOManager
from resources.sink import SinkResource
from resources.storage import StorageResource
from resources.tensor_io import TensorIOManager

__all__ = ["BenchResource", "EngineResource", "PacketIOManager", "SinkResource", "StorageResource", "TensorIOManager"]
