"""One speech over several engines, several renders at once, and a device without memory."""

import logging
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.errors import DeviceError
from newsstudio_ditto.maths.paste import CropRegion
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.devices import choose_devices
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.frame_plan import FramePlan
from newsstudio_ditto.render.pipeline import FRAMES_HELD, render_plan
from newsstudio_ditto.render.prefetch import prefetch
from tests.render.conftest import CPU
from tests.render.test_pipeline import steady_plan
from tests.render.tiny import tiny_packet


def copied(packet: Packet, plan: FramePlan, engine: Engine | list[Engine]) -> list[np.ndarray]:
    return [frame.copy() for frame in prefetch(render_plan(packet, plan, engine), FRAMES_HELD - 1)]


def assert_equal(frames: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(frames) == len(expected)
    for frame, other in zip(frames, expected, strict=True):
        assert np.abs(frame.astype(int) - other.astype(int)).max() <= 1


@pytest.mark.parametrize("num_frames", [1, 4, 5, 26])
@pytest.mark.parametrize("num_engines", [2, 3])
def test_engines_share_a_speech_and_its_frames_stay_in_order(
    num_frames: int, num_engines: int, clip_packet: Packet, bundle: ModelBundle
) -> None:
    engines = [Engine(bundle, device=CPU, batch_sizes=(4,)) for _ in range(num_engines)]
    plan = steady_plan(clip_packet, num_frames)
    before = threading.active_count()
    assert_equal(copied(clip_packet, plan, engines), copied(clip_packet, plan, engines[0]))
    assert threading.active_count() == before


class Counting(Engine):
    """Counts the frames that it renders."""

    num_frames = 0

    def render(self, volume: Tensor, *keypoints: Tensor, region: CropRegion | None = None) -> Tensor:
        self.num_frames += len(volume)
        return super().render(volume, *keypoints, region=region)


def test_every_engine_does_its_share(clip_packet: Packet, bundle: ModelBundle) -> None:
    engines = [Counting(bundle, device=CPU, batch_sizes=(4,)) for _ in range(2)]
    copied(clip_packet, steady_plan(clip_packet, 40), list(engines))
    assert [engine.num_frames for engine in engines] == [20, 20]


def test_a_video_of_two_engines_is_that_of_one(clip_packet: Packet, bundle: ModelBundle, tmp_path: Path) -> None:
    speech = tmp_path / "speech.wav"
    soundfile.write(speech, 0.2 * np.sin(np.arange(30 * 640) / 11), 16_000)
    engines = [Engine(bundle, device=CPU, batch_sizes=(4,)) for _ in range(2)]
    outputs = {"one.mp4": engines[0], "two.mp4": engines}
    for name, engine in outputs.items():
        report = render_video(clip_packet.folder, speech, tmp_path / name, engine=engine, options=RenderOptions())
        assert report.num_frames == 30
    assert report.device == "cpu,cpu"
    assert hash_file(tmp_path / "one.mp4") == hash_file(tmp_path / "two.mp4")


def test_renders_at_once_do_not_disturb_each_other(bundle: ModelBundle, tmp_path: Path) -> None:
    packets = [tiny_packet(tmp_path / name, bundle, count, avatar_id=name) for name, count in (("a", 3), ("b", 5))]
    plans = [steady_plan(packet, 40) for packet in packets]
    expected = [
        copied(packet, plan, Engine(bundle, device=CPU, batch_sizes=(4,)))
        for packet, plan in zip(packets, plans, strict=True)
    ]
    found: dict[int, list[np.ndarray]] = {}

    def render(number: int) -> None:
        engine = Engine(bundle, device=CPU, batch_sizes=(4,))
        found[number] = copied(packets[number], plans[number], engine)

    threads = [threading.Thread(target=render, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in (0, 1):
        assert_equal(found[number], expected[number])


class Small(Engine):
    """An engine on a device whose memory takes only so many frames at once."""

    most_frames = 2

    def render(self, volume: Tensor, *keypoints: Tensor, region: CropRegion | None = None) -> Tensor:
        if len(volume) > self.most_frames:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return super().render(volume, *keypoints, region=region)


def test_a_batch_that_does_not_fit_is_halved_once_and_said_once(
    clip_packet: Packet, bundle: ModelBundle, caplog: pytest.LogCaptureFixture
) -> None:
    plan = steady_plan(clip_packet, 15)
    expected = copied(clip_packet, plan, Engine(bundle, device=CPU, batch_sizes=(4,)))
    with caplog.at_level(logging.WARNING):
        frames = copied(clip_packet, plan, Small(bundle, device=CPU, batch_sizes=(4,)))
    assert_equal(frames, expected)
    assert [record.message for record in caplog.records] == [
        "a batch does not fit into the memory of the device and is halved"
    ]


@pytest.mark.parametrize("num_frames", [15, 1])
def test_half_a_batch_that_does_not_fit_is_an_error_with_a_way_out(
    num_frames: int, clip_packet: Packet, bundle: ModelBundle
) -> None:
    engine = Small(bundle, device=CPU, batch_sizes=(4,))
    engine.most_frames = 1 if num_frames > 1 else 0
    before = threading.active_count()
    with pytest.raises(DeviceError, match="too little memory") as caught:
        copied(clip_packet, steady_plan(clip_packet, num_frames), engine)
    assert "--batch-size" in caught.value.hint
    assert threading.active_count() == before


def test_an_error_of_one_engine_ends_all(clip_packet: Packet, bundle: ModelBundle) -> None:
    broken = Small(bundle, device=CPU, batch_sizes=(4,))
    broken.most_frames = 0
    before = threading.active_count()
    with pytest.raises(DeviceError):
        copied(clip_packet, steady_plan(clip_packet, 60), [Engine(bundle, device=CPU, batch_sizes=(4,)), broken])
    assert threading.active_count() == before


def test_an_error_of_the_plans_surfaces_whoever_reads(clip_packet: Packet, bundle: ModelBundle) -> None:
    def plans() -> object:
        yield steady_plan(clip_packet, 10)
        raise OSError("the motion is gone")

    engines = [Engine(bundle, device=CPU, batch_sizes=(4,)) for _ in range(2)]
    before = threading.active_count()
    with pytest.raises(OSError, match="motion is gone"):
        for _ in render_plan(clip_packet, plans(), engines):  # type: ignore[arg-type]
            pass
    assert threading.active_count() == before


def test_device_names() -> None:
    assert choose_devices("cpu") == [CPU]
    assert choose_devices("cpu,cpu") == [CPU]
    if not torch.cuda.is_available():
        assert choose_devices("all") == [CPU]
        with pytest.raises(DeviceError):
            choose_devices("cuda:0,cuda:1")
