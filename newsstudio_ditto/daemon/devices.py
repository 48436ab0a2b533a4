"""The warm engines of a daemon, one for each device, and who has which."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.render.engine import Engine, choose_device, warm_bundle, warm_engine
from newsstudio_ditto.render.speech_plan import warm_up_motion
from newsstudio_ditto.stages.speech import compute_speech_features
from newsstudio_ditto.units import FRAME_RATE_HZ, NUM_KEYPOINTS, SAMPLES_PER_FRAME

log = logging.getLogger(__name__)

_TRIAL_RUNS = 2


class Device:
    """One engine, used by one job or one live session at a time.

    Args:
        engine: to be warmed.
    """

    def __init__(self, engine: Engine) -> None:
        """Hold the engine; :meth:`warm_up` makes it ready."""
        self.engine = engine
        self.fps = 0.0
        self._in_use = threading.Lock()

    @property
    def name(self) -> str:
        """Of the device, such as ``cuda:0``."""
        return str(self.engine.device)

    @property
    def is_slower_than_real_time(self) -> bool:
        """Whether a live session would fall behind, as measured at the start."""
        return self.fps < FRAME_RATE_HZ

    def warm_up(self) -> None:
        """Capture what has to be captured, load every network, and measure the speed of warp and decode."""
        engine, bundle = self.engine, self.engine.bundle
        with engine.busy:
            engine.warm_up()
            _ = bundle.stitching
            _warm_motion(engine)
            self.fps = _measure_fps(engine)
        log.info("device is warm", extra={"device": self.name, "fps": self.fps})

    @contextmanager
    def claimed(self) -> Iterator[Engine]:
        """Wait until nobody uses the device, and use it while the block runs."""
        with self._in_use, self.engine.busy:
            yield self.engine

    def try_claim(self) -> bool:
        """Take the device if nobody uses it; :meth:`release` gives it back, from any thread."""
        return self._in_use.acquire(blocking=False)

    def release(self) -> None:
        """Give back what :meth:`try_claim` took."""
        self._in_use.release()


def _warm_motion(engine: Engine) -> None:
    """Run the audio encoder and capture the motion sampler: a capture later would disturb other devices' workers."""
    compute_speech_features(np.zeros(SAMPLES_PER_FRAME, np.float32), engine.bundle)
    warm_up_motion(engine, SamplingOptions())


@torch.no_grad()
def _measure_fps(engine: Engine) -> float:
    shape, size = engine.bundle.config.networks.appearance, engine.batch_size
    volume = torch.zeros(
        size, shape.volume_channels, shape.volume_depth, shape.volume_px, shape.volume_px, device=engine.device
    )
    points = torch.zeros(size, NUM_KEYPOINTS, 3, device=engine.device)
    seconds = []
    for _ in range(_TRIAL_RUNS):
        started = time.perf_counter()
        engine.render(volume, points, points).flatten()[0].item()  # waits for the device
        seconds.append(time.perf_counter() - started)
    return size / min(seconds)


class DevicePool:
    """All devices of a daemon.

    Args:
        devices: at least one.
    """

    def __init__(self, devices: list[Device]) -> None:
        """Hold the devices."""
        self.devices = devices
        self._num_wanted, self._lock = 0, threading.Lock()

    @property
    def is_wanted_live(self) -> bool:
        """Whether a live session waits for a device."""
        return self._num_wanted > 0

    @contextmanager
    def wanted_live(self) -> Iterator[None]:
        """Have jobs stand back while the block runs."""
        with self._lock:
            self._num_wanted += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_wanted -= 1

    def warm_up(self) -> None:
        """Warm every device."""
        for device in self.devices:
            device.warm_up()

    def claim_idle(self) -> Device:
        """An idle device, claimed; the caller releases it.

        Raises:
            RequestError: 503, all of them are in use.
        """
        for device in self.devices:
            if device.try_claim():
                return device
        raise RequestError(503, "every device is in use", "wait for the running job, then try again", retry_after_s=5)


def open_devices(names: tuple[str, ...], model: str, *, eager: bool) -> DevicePool:
    """Open the devices by name; ``auto`` is every CUDA device there is, else the CPU.

    Raises:
        DeviceError: a device that is not there.
        BundleError: the model is not there, or damaged.
    """
    found: list[torch.device] = []
    for name in names:
        count = torch.cuda.device_count() if name == "auto" and torch.cuda.is_available() else 0
        found += [torch.device("cuda", index) for index in range(count)] or [choose_device(name)]
    unique = list(dict.fromkeys(found))
    return DevicePool([Device(warm_engine(warm_bundle(model, device), device, eager=eager)) for device in unique])
