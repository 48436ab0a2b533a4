"""The asset graph: what depends on what. Logic is in ``newsstudio_ditto``, places and warm models in ``resources``."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets.backfill import render_many
from assets.checks import PACKET_CHECKS, RENDER_CHECKS
from assets.jobs import GRAPH_JOBS
from assets.packet import PACKET_ASSETS
from assets.render import RENDER_ASSETS
from assets.sensors import SENSORS
from assets.sources import SOURCES
from assets.speech import SPEECH_ASSETS
from assets.upkeep import SCHEDULES, UPKEEP_JOBS

ASSETS: list[dg.AssetsDefinition | dg.SourceAsset] = [*SOURCES, *PACKET_ASSETS, *SPEECH_ASSETS, *RENDER_ASSETS]
JOBS: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = [*GRAPH_JOBS, render_many, *UPKEEP_JOBS]
CHECKS = [*PACKET_CHECKS, *RENDER_CHECKS]

__all__ = ["ASSETS", "CHECKS", "JOBS", "SCHEDULES", "SENSORS"]
