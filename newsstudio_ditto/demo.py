"""The packaged demo: prepare the packaged clip, render the packaged speech, and say where everything is."""

import time
from importlib.resources import as_file, files

import click

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.graph_render import GraphRender, render_through_graph
from newsstudio_ditto.orchestration import PreprocessReport, run_preprocess
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.terminal import note, progress_bar, show_table

AVATAR = "demo"
SPEECH = "demo"


def run_demo(layout: StorageLayout) -> None:
    """Run the demo on a storage folder and print a table of stage times and where to look.

    Raises:
        DittoError: as any preprocessing or render.
    """
    started = time.perf_counter()
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
    _show(layout, prepared, rendered, time.perf_counter() - started)


def _show(layout: StorageLayout, prepared: PreprocessReport, rendered: GraphRender, total_s: float) -> None:
    seconds = rendered.seconds
    preparing = f"preprocessing, {prepared.num_frames} frames" + (" (fresh)" if prepared.is_fresh else "")
    cold = seconds["open"] + seconds["warm_up"]
    show_table(
        ("stage", "seconds"),
        [
            (preparing, f"{prepared.seconds:.2f}"),
            ("speech features", f"{seconds['speech features']:.2f}"),
            ("motion", f"{seconds['motion']:.2f}"),
            ("cold start: packet opening", f"{seconds['open']:.4f}"),
            ("cold start: engine warm-up", f"{seconds['warm_up']:.2f}"),
            ("pre-stitching", f"{seconds['pre_stitch']:.3f}"),
            (f"render, {rendered.num_frames} frames", f"{seconds['render']:.2f}"),
            ("frames a second while rendering", f"{rendered.fps:.1f}"),
            ("everything", f"{total_s:.2f}"),
        ],
        title=f"Demo on this machine; cold start {cold:.2f} s",
    )
    click.echo(f"Packet:  {prepared.folder}")
    click.echo(f"Video:   {rendered.video}")
    click.echo(f"Open the Dagster UI on it:  newsstudio-ditto dev --storage {layout.root}    (or: make dev)")
    click.echo("then look at http://127.0.0.1:3000")
