"""Whole renders through the real FFmpeg: packet and speech in, checked mp4 and report out."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import soundfile

from newsstudio_ditto.api import render_video
from newsstudio_ditto.config import RenderOptions, SamplingOptions
from newsstudio_ditto.errors import EmptyAudioError, PacketMissingError, PacketModelError, SinkError
from newsstudio_ditto.media.probe import probe
from newsstudio_ditto.media.tags import read_provenance
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle, write_bundle
from newsstudio_ditto.networks.manifest import NETWORK_NAMES
from newsstudio_ditto.packet.fingerprint import hash_file
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render import engine as engines
from newsstudio_ditto.render.engine import Engine, warm_bundle
from tests.render.conftest import CPU
from tests.render.tiny import FRAME, TINY, tiny_bundle, tiny_packet

NUM_SAMPLES = 20 * 640 + 5
OPTIONS = RenderOptions(device="cpu", sampling=SamplingOptions(seed=4))


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    path = tmp_path / "speech.wav"
    soundfile.write(path, 0.2 * np.sin(np.arange(NUM_SAMPLES) / 11), 16_000)
    return path


def test_a_render_writes_a_tagged_video_and_reports(
    clip_packet: Packet, engine: Engine, speech: Path, tmp_path: Path
) -> None:
    progress: list[tuple[int, int]] = []
    output = tmp_path / "out" / "anna.mp4"
    report = render_video(
        clip_packet.folder,
        speech,
        output,
        engine=engine,
        options=OPTIONS,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert report.num_frames == 21
    assert progress == [(done, 21) for done in range(1, 22)]
    picture = probe(output).video
    assert picture is not None
    assert (picture.width_px, picture.height_px) == (FRAME.width, FRAME.height)
    stages = ["open", "load", "warm_up", "speech_features", "pre_stitch", "motion", "check", "render", "total"]
    assert list(report.seconds) == stages
    assert sum(report.seconds[stage] for stage in stages[:-1]) <= report.seconds["total"]
    assert (report.device, report.mode) == ("cpu", "eager")
    assert json.loads(json.dumps(report.to_plain()))["output"] == str(output)
    assert any("audio_encoder" in warning for warning in report.warnings)
    assert any("1 of 5 source frames" in warning for warning in report.warnings)
    tags = read_provenance(output)
    assert tags["synthetic"] == "true"
    assert tags["packet_generation"] == clip_packet.generation
    assert tags["model_fingerprint"] == engine.bundle.fingerprint
    assert (tags["seed"], tags["avatar_id"]) == ("4", "anna")
    assert tags["speech_sha256"] == hash_file(speech)
    assert tags["product"].startswith("newsstudio-ditto ")


def test_equal_inputs_give_equal_pictures(clip_packet: Packet, engine: Engine, speech: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{name}.mp4" for name in "ab"]
    for output in outputs:
        render_video(clip_packet.folder, speech, output, engine=engine, options=OPTIONS)
    assert hash_file(outputs[0]) == hash_file(outputs[1])


def test_a_packet_of_another_model_is_refused_with_the_command_that_mends_it(
    clip_packet: Packet, speech: Path, tmp_path: Path
) -> None:
    other = Engine(tiny_bundle(seed=9), device=CPU)
    with pytest.raises(PacketModelError) as refusal:
        render_video(clip_packet.folder, speech, tmp_path / "x.mp4", engine=other, options=OPTIONS)
    assert other.bundle.fingerprint[:12] in refusal.value.what
    assert "newsstudio-ditto preprocess" in refusal.value.hint
    assert not (tmp_path / "x.mp4").exists()


def test_a_missing_packet_and_an_empty_speech_are_told_apart(
    clip_packet: Packet, engine: Engine, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.wav"
    soundfile.write(empty, np.zeros(0), 16_000)
    with pytest.raises(EmptyAudioError):
        render_video(clip_packet.folder, empty, tmp_path / "x.mp4", engine=engine, options=OPTIONS)
    with pytest.raises(PacketMissingError):
        render_video(tmp_path / "nobody", empty, tmp_path / "x.mp4", engine=engine, options=OPTIONS)


def test_a_failing_sink_leaves_no_file_and_the_next_render_works(
    clip_packet: Packet, engine: Engine, speech: Path, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked.mp4"
    blocked.mkdir()
    with pytest.raises(SinkError):
        render_video(clip_packet.folder, speech, blocked, engine=engine, options=OPTIONS)
    good = tmp_path / "good.mp4"
    assert render_video(clip_packet.folder, speech, good, engine=engine, options=OPTIONS).output == good
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocked.mp4", "good.mp4", "speech.wav"]


def test_an_error_while_rendering_leaves_no_file(
    clip_packet: Packet, engine: Engine, speech: Path, tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render_video(clip_packet.folder, speech, tmp_path / "x.mp4", engine=engine, options=OPTIONS, on_progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["speech.wav"]


def write_tiny(folder: Path, seed: int) -> ModelBundle:
    """The tiny model as files, and opened."""
    made = tiny_bundle(seed=seed)
    networks = {name: getattr(made, name) for name in NETWORK_NAMES}
    write_bundle(folder, TINY, networks, name="tiny", licence="none", trained=dict.fromkeys(NETWORK_NAMES, False))
    return load_bundle(folder)


@pytest.fixture
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has rendered nothing yet."""
    monkeypatch.setattr(engines, "_engines", {})
    monkeypatch.setattr(engines, "_bundles", {})


@pytest.mark.usefixtures("no_engines")
def test_without_an_engine_the_process_makes_one_and_keeps_it(
    speech: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packet = tiny_packet(tmp_path / "root", write_tiny(tmp_path / "tiny", 7), 2)
    with caplog.at_level(logging.INFO, logger="newsstudio_ditto.api"):
        for name in "ab":
            output = tmp_path / f"{name}.mp4"
            render_video(packet.folder, speech, output, model=str(tmp_path / "tiny"), options=OPTIONS)
    assert len(engines._engines) == 1
    assert [record.message for record in caplog.records] == ["rendered", "rendered"]


@pytest.mark.usefixtures("no_engines")
def test_a_bundle_that_changed_on_disk_is_opened_anew(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_tiny(folder, 7)
    first = warm_bundle(folder, CPU)
    assert warm_bundle(folder, CPU) is first
    changed = write_tiny(folder, 8)
    assert warm_bundle(folder, CPU).fingerprint == changed.fingerprint != first.fingerprint
