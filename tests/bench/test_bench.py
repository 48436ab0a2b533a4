"""The benchmark measures what it says: the reference's way paints what the engine paints, and the report adds up."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from newsstudio_ditto.bench import reference
from newsstudio_ditto.bench.reference import ReferenceWay
from newsstudio_ditto.bench.report import COLUMNS, markdown_table, table_rows
from newsstudio_ditto.bench.samples import PacketShape, make_packet
from newsstudio_ditto.bench.timing import Figure, Times, time_runs
from newsstudio_ditto.cli import main
from newsstudio_ditto.maths.colour import yuv420_to_rgb
from newsstudio_ditto.networks.bundle import ModelBundle
from newsstudio_ditto.packet.spec import FrameSize
from newsstudio_ditto.render.engine import Engine
from newsstudio_ditto.render.pipeline import render_plan
from newsstudio_ditto.stages.speech import compute_speech_features
from tests.render.test_pipeline import steady_plan
from tests.render.test_render_video import write_tiny
from tests.render.tiny import RENDER_PX, tiny_bundle

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bundle() -> ModelBundle:
    return tiny_bundle()


def test_the_reference_way_paints_what_the_engine_paints(bundle: ModelBundle, tmp_path: Path) -> None:
    size = FrameSize(96, 128)
    packet = make_packet(tmp_path, bundle, PacketShape(size, 3, RENDER_PX))
    plan = steady_plan(packet, 4)
    pictures = list(reference.frames(ReferenceWay(bundle), packet, plan))
    ours = [frame.copy() for frame in render_plan(packet, plan, Engine(bundle, device=CPU))]
    assert len(pictures) == len(ours)
    for picture, frame in zip(pictures, ours, strict=True):
        rgb = yuv420_to_rgb(torch.from_numpy(frame)[None], *size)[0].permute(1, 2, 0).numpy()
        # Luma alone: chroma of 4:2:0 is coarser than the pictures.
        difference = (picture.astype(float) - rgb) @ np.array([0.2126, 0.7152, 0.0722])
        assert np.abs(difference).mean() < 1.0


def test_the_reference_way_hears_what_we_hear(bundle: ModelBundle) -> None:
    speech = 0.1 * np.sin(np.arange(9 * 640, dtype=np.float32) / 7)
    heard = ReferenceWay(bundle).features(speech)
    torch.testing.assert_close(heard, compute_speech_features(speech, bundle), atol=1e-5, rtol=1e-5)


def test_times_are_median_and_p95_of_a_unit() -> None:
    times = Times.of([0.1, 0.3, 0.2, 0.4, 10.0], units=10)
    assert (times.median_ms, times.p95_ms, times.runs) == (30.0, 1000.0, 5)
    assert Figure("core", "x", Times(2.0, 3.0, 5), Times(50.0, 60.0, 5)).ratio == 25.0
    assert Figure("core", "x", times).ratio is None


def test_warm_ups_are_not_counted() -> None:
    calls: list[int] = []
    assert len(time_runs(lambda: calls.append(1), 5, warmups=2)) == 5
    assert len(calls) == 7


def test_the_command_writes_json_and_a_table(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny", 7)
    output = tmp_path / "out" / "bench.json"
    options = ["bench", "--quick", "--only", "open", "--only", "paste", "--model", str(tmp_path / "tiny")]
    done = CliRunner().invoke(main, [*options, "--frames", "3", "--preset", "slow", "--output", str(output)])
    assert done.exit_code == 0, done.output
    result = json.loads(output.read_text())
    assert result["options"]["preset"] == "slow"
    assert {figure["section"] for figure in result["figures"]} == {"open", "paste"}
    assert all(figure["ours"]["runs"] >= 5 for figure in result["figures"])
    assert result["roof"]["copy_gb_s"] > 0
    assert result["run"]["device"] == "cpu"
    assert "six maps" in done.output
    names = {figure["name"] for figure in result["figures"]}
    assert names >= {"six maps", "six maps, first frame read", "f_s.pt", "meta.pt", "paste-back and colours"}
    opened = next(figure for figure in result["figures"] if figure["name"] == "six maps")
    assert opened["ratio"] == pytest.approx(
        opened["reference"]["median_ms"] / opened["ours"]["median_ms"], abs=0.006, rel=0.01
    )
    lines = markdown_table([COLUMNS, *table_rows(result)])
    assert len({line.count("|") for line in lines}) == 1


def test_an_unknown_section_is_refused() -> None:
    assert CliRunner().invoke(main, ["bench", "--only", "everything"]).exit_code == 2
