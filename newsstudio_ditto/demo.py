"""The packaged demo: prepare the packaged clip, render the packaged speech, and say where everything is."""

import time
from importlib.resources import as_file, files

import click

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.graph_render import GraphRender, render_through_graph
from newsstudio_ditto.orchestration import PreprocessReport, run_preprocess
from newsstudio_ditto.render.engine import choose_device, warm_bundle, warm_engine
from newsstudio_ditto.storage import DEFAULT_MODEL, StorageLayout
from newsstudio_ditto.terminal import note, progress_bar, show_table

AVATAR = "demo"
SPEECH = "demo"


def run_demo(layout: StorageLayout) -> None:
    """Run the demo on a storage folder and print a table of stage times and where to look.

    Raises:
        DittoError: as any preprocessing or render.
    """
    started = time.perf_counter()
    _warm_up()
    cold_start_s = time.perf_counter() - started
    media = files("newsstudio_ditto") / "bundled" / "demo"
    with as_file(media / "anchor.mp4") as anchor, progress_bar("preparing the clip") as on_progress:
        prepared = run_preprocess(
            anchor, avatar_id=AVATAR, options=PacketOptions(), storage=layout, on_progress=on_progress
        )
    with as_file(media / "speech.wav") as speech, progress_bar("rendering the speech") as on_progress:
        rendered = render_through_graph(
            layout, avatar_id=AVATAR, speech=speech, speech_id=SPEECH, on_progress=on_progress
        )
    for warning in rendered.warnings:
        note(f"Warning: {warning}")
    _show(layout, prepared, rendered, cold_start_s, time.perf_counter() - started)


def _warm_up() -> None:
    """Load the model and make the engine ready, which stays so for everything that follows in this process."""
    device = choose_device("auto")
    warm_engine(warm_bundle(DEFAULT_MODEL, device), device, eager=False).warm_up()


def _show(
    layout: StorageLayout, prepared: PreprocessReport, rendered: GraphRender, cold_start_s: float, total_s: float
) -> None:
    seconds = rendered.seconds
    preparing = f"preprocessing, {prepared.num_frames} frames" + (" (fresh)" if prepared.is_fresh else "")
    show_table(
        ("stage", "seconds"),
        [
            ("cold start: model and engine", f"{cold_start_s:.2f}"),
            (preparing, f"{prepared.seconds:.2f}"),
            ("speech features", f"{seconds['speech features']:.2f}"),
            ("motion", f"{seconds['motion']:.2f}"),
            ("opening the packet", f"{seconds['open']:.4f}"),
            ("warm-up", f"{seconds['warm_up']:.2f}"),
            ("pre-stitching", f"{seconds['pre_stitch']:.3f}"),
            (f"render, {rendered.num_frames} frames", f"{seconds['render']:.2f}"),
            ("frames a second while rendering", f"{rendered.fps:.1f}"),
            ("everything", f"{total_s:.2f}"),
        ],
        title="The demo on this machine",
    )
    click.echo(f"Packet:  {prepared.folder}")
    click.echo(f"Video:   {rendered.video}")
    click.echo("Dagster: make dev, then http://127.0.0.1:3000 shows all of it")
    click.echo(f"         (without make: newsstudio-ditto dev --storage {layout.root})")
