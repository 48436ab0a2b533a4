"""Model bundles and engines that stay loaded between the runs of one process."""

import dagster as dg
import torch
from pydantic import Field

from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.render.engine import Engine, choose_device, warm_bundle, warm_engine


class EngineResource(dg.ConfigurableResource[None]):
    """The GPU (or CPU) side. Weights are read once per process and graphs captured once per process."""

    device: str = Field("auto", description="auto, cpu, cuda or cuda:N.")
    eager: bool = Field(False, description="Never capture CUDA graphs.")

    @property
    def torch_device(self) -> torch.device:
        """The device that the name stands for."""
        return choose_device(self.device)

    def bundle(self, model: str) -> ModelBundle:
        """A model bundle by name or folder, the same object for every run of this process."""
        return warm_bundle(model, self.torch_device)

    def engine(self, model: str) -> Engine:
        """A warm engine for a model bundle; hold its ``busy`` lock for a whole render."""
        return warm_engine(self.bundle(model), self.torch_device, eager=self.eager)
