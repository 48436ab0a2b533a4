"""``newsstudio-ditto bench``: how fast this machine renders, beside the reference's way."""

from pathlib import Path
from typing import Any

import click

from newsstudio_ditto.cli_shared import json_option
from newsstudio_ditto.terminal import note, show_json

_SECTIONS = ("memory", "open", "core", "motion", "paste", "sink", "pipeline")


@click.command()
@click.option("--only", multiple=True, type=click.Choice(_SECTIONS), help="Sections to run; repeatable. Default: all.")
@click.option("--quick", is_flag=True, help="A small picture and a short speech: minutes on two cores.")
@click.option("--model", default=None, help="Bundle, or full-width; default: full-width on CUDA, mini on the CPU.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda:N.")
@click.option("--frames", "num_frames", type=click.IntRange(1), default=None, help="Frames of the packet.")
@click.option("--runs", type=click.IntRange(5), default=5, show_default=True, help="Runs of each figure.")
@click.option("--batch-sizes", default=None, help="Of the core, separated by commas.")
@click.option("--preset", default="veryfast", show_default=True, help="Of x264, for the sink and the pipeline.")
@click.option("--output", type=click.Path(path_type=Path), default=None, help="Write the JSON there as well.")
@json_option
def bench(
    only: tuple[str, ...],
    quick: bool,
    model: str | None,
    device: str,
    num_frames: int | None,
    runs: int,
    batch_sizes: str | None,
    preset: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure opening, warp and decode, motion, paste-back, encoding, whole renders and memory.

    Every figure is the median of its runs and stands beside the reference's way, measured in the same run.
    """
    import json

    from newsstudio_ditto.bench.report import COLUMNS, markdown_table, run_bench, table_rows
    from newsstudio_ditto.bench.samples import FULL_WIDTH
    from newsstudio_ditto.bench.setup import BenchOptions
    from newsstudio_ditto.config import EncodeOptions
    from newsstudio_ditto.packet.spec import FrameSize
    from newsstudio_ditto.render.engine import choose_device

    chosen = choose_device(device)
    sizes = (1, 2) if quick else (1, 2, 4, 8, 16)
    options = BenchOptions(
        model=model or (FULL_WIDTH if chosen.type == "cuda" else "mini"),
        device=chosen,
        frame=FrameSize(360, 640) if quick else FrameSize(1080, 1920),
        num_frames=num_frames or (8 if quick else 165),
        speech_s=0.2 if quick else 6.6,
        runs=runs,
        batch_sizes=tuple(int(size) for size in batch_sizes.split(",")) if batch_sizes else sizes,
        reference_frames=2 if quick else 24,
        encode=EncodeOptions(preset=preset),
    )

    def keep(found: dict[str, Any]) -> None:
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    def on_section(section: str, found: dict[str, Any]) -> None:
        note(f"measuring {section}")
        keep(found)  # what is measured stays, even if a later section fails

    result = run_bench(options, only or _SECTIONS, on_section)
    keep(result)
    if as_json:
        show_json(result)
        return
    click.echo(f"{options.model} on {result['run']['device']}; roof: {result['roof']}")
    for line in markdown_table([COLUMNS, *table_rows(result)]):
        click.echo(line)
    note(json.dumps(result["run"]))
