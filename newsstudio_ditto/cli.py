"""The command line. Every heavy import is inside the command that needs it, so that ``--help`` answers at once."""

from pathlib import Path

import click

from newsstudio_ditto import __version__
from newsstudio_ditto.cli_bench import bench
from newsstudio_ditto.cli_daemon import serve
from newsstudio_ditto.cli_look import inspect, list_avatars, verify
from newsstudio_ditto.cli_models import models
from newsstudio_ditto.cli_options import chosen_controls, control_options
from newsstudio_ditto.cli_prune import prune
from newsstudio_ditto.cli_shared import avatar_option, json_option, lips_option, model_option, storage_option
from newsstudio_ditto.terminal import DittoGroup, format_bytes, note, progress_bar, show_json


@click.group(cls=DittoGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="newsstudio-ditto")
def main() -> None:
    """Turn a presenter clip and a speech into a talking video."""


main.add_command(inspect)
main.add_command(list_avatars)
main.add_command(bench)
main.add_command(models)
main.add_command(prune)
main.add_command(serve)
main.add_command(verify)


@main.command()
@click.argument("anchor", type=click.Path(path_type=Path))
@avatar_option
@model_option
@click.option(
    "--window", type=click.Choice(["tight", "full"]), default="tight", show_default=True, help="Paste window."
)
@click.option("--max-frames", type=int, default=None, help="Take at most this many frames of the clip.")
@click.option("--max-side", "max_side_px", type=int, default=1920, show_default=True, help="Longest side, in pixels.")
@click.option(
    "--blend",
    type=click.Choice(["auto", "crop", "mouth"]),
    default="auto",
    show_default=True,
    help="What of the rendered crop goes into the frame; auto takes what suits the model.",
)
@click.option(
    "--faces",
    type=click.Choice(["packaged", "official"]),
    default="packaged",
    show_default=True,
    help="Nets that find the face; official ones come with the official release.",
)
@click.option("--force", is_flag=True, help="Make every file again, also those that are fresh.")
@storage_option
@json_option
def preprocess(
    anchor: Path,
    avatar_id: str,
    model: str,
    window: str,
    max_frames: int | None,
    max_side_px: int,
    blend: str,
    faces: str,
    force: bool,
    storage: Path,
    as_json: bool,
) -> None:
    """Prepare the clip or still ANCHOR once, as the packet of an avatar.

    Runs the asset graph; what is fresh is skipped.
    """
    from newsstudio_ditto.config import PacketOptions
    from newsstudio_ditto.orchestration import run_preprocess
    from newsstudio_ditto.storage import StorageLayout

    options = PacketOptions(
        window=window,  # type: ignore[arg-type]
        max_frames=max_frames,
        max_side_px=max_side_px,
        blend=blend,  # type: ignore[arg-type]
        faces=faces,  # type: ignore[arg-type]
    )
    with progress_bar(f"preprocess {avatar_id}") as on_progress:
        report = run_preprocess(
            anchor,
            avatar_id=avatar_id,
            options=options,
            storage=StorageLayout(storage),
            model=model,
            force=force,
            on_progress=on_progress,
        )
    if as_json:
        show_json(report.to_plain())
    else:
        made = ", ".join(report.made) if report.made else "nothing: everything is fresh"
        note(f"made {made} ({report.seconds:.1f} s)")
        for warning in report.warnings:
            note(f"Warning: {warning}")
        click.echo(report.folder)


@main.command()
@avatar_option
@click.option("--speech", required=True, type=click.Path(path_type=Path), help="Any audio file that FFmpeg reads.")
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="The mp4 to write.")
@click.option("--model", default=None, help="Model bundle; default: the one the packet was made with.")
@control_options
@click.option("--seed", type=int, default=None, help="Equal inputs and seeds give equal videos; default: 0.")
@click.option("--steps", "num_steps", type=int, default=None, help="Diffusion steps; default: the model's own.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda:N, several (cuda:0,cuda:1), or all.")
@click.option("--batch-size", type=int, default=None, help="Frames that go through the engine together.")
@click.option("--eager", is_flag=True, help="Do not capture CUDA graphs.")
@click.option("--no-stitch", is_flag=True, help="Leave out the stitching network.")
@click.option(
    "--encoder",
    default="auto",
    show_default=True,
    help="FFmpeg video encoder; auto takes a hardware encoder that passes a trial.",
)
@click.option("--preset", default="veryfast", show_default=True, help="Of x264: ultrafast (large files) to placebo.")
@click.option(
    "--crf", type=int, default=18, show_default=True, help="Constant rate factor; lower is better and larger."
)
@lips_option
@storage_option
@json_option
def render(
    avatar_id: str,
    speech: Path,
    output: Path,
    model: str | None,
    seed: int | None,
    num_steps: int | None,
    device: str,
    batch_size: int | None,
    eager: bool,
    no_stitch: bool,
    encoder: str,
    preset: str,
    crf: int,
    lips: str,
    storage: Path,
    as_json: bool,
) -> None:
    """Render a talking video straight from an avatar's packet."""
    from newsstudio_ditto.api import render_video
    from newsstudio_ditto.config import EncodeOptions, RenderOptions, validate_slug
    from newsstudio_ditto.storage import StorageLayout

    chosen = chosen_controls()
    options = RenderOptions(
        sampling=chosen.sampling(num_steps=num_steps, seed=seed),
        encode=EncodeOptions(encoder=encoder, preset=preset, crf=crf),
        batch_size=batch_size,
        stitch=chosen.stitch(is_off=no_stitch),
        device=device,
        eager=eager,
        controls=chosen.controls,
    )
    folder = StorageLayout(storage).packet(validate_slug(avatar_id))
    with progress_bar(f"render {output.name}") as on_progress:
        report = render_video(
            folder,
            speech,
            output,
            model=model,
            options=options,
            lips=lips,  # type: ignore[arg-type]
            on_progress=on_progress,
        )
    for warning in report.warnings:
        note(f"Warning: {warning}")
    if as_json:
        show_json(report.to_plain())
    else:
        note(f"{report.num_frames} frames in {report.seconds['total']:.1f} s, {report.fps:.1f} fps while rendering")
        click.echo(report.output)


@main.command()
@click.argument("avatar_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@storage_option
def remove(avatar_id: str, yes: bool, storage: Path) -> None:
    """Remove an avatar's packet. Its clip and its finished videos stay."""
    from newsstudio_ditto.inventory import remove_avatar
    from newsstudio_ditto.storage import StorageLayout

    if not yes:
        click.confirm(f"Remove the packet of {avatar_id}?", abort=True, err=True)
    freed = remove_avatar(StorageLayout(storage), avatar_id)
    note(f"removed {avatar_id} ({format_bytes(freed)})")


@main.command("import-legacy")
@click.argument("source", type=click.Path(path_type=Path))
@avatar_option
@click.option("--model", default="ditto", show_default=True, help="Model bundle that made the pickle's volumes.")
@click.option("--window", type=click.Choice(["tight", "full"]), default="tight", show_default=True)
@storage_option
@json_option
def import_legacy_pickle(source: Path, avatar_id: str, model: str, window: str, storage: Path, as_json: bool) -> None:
    """Turn an old source_info pickle into a packet, without running anything in it."""
    from newsstudio_ditto.config import PacketOptions
    from newsstudio_ditto.official.legacy import import_legacy
    from newsstudio_ditto.storage import StorageLayout

    options = PacketOptions(window=window)  # type: ignore[arg-type]
    report = import_legacy(StorageLayout(storage), source, avatar_id, model=model, options=options)
    if as_json:
        show_json(report.to_plain())
        return
    for key in report.ignored:
        note(f"Warning: {key!r} of the pickle is no part of its layout and was left out")
    before, after = report.pickle_open_seconds * 1000, report.packet_open_seconds * 1000
    note(f"{report.num_frames} frames; opening took at least {before:.0f} ms, takes {after:.2f} ms now")
    click.echo(report.folder)


@main.command()
@storage_option
def demo(storage: Path) -> None:
    """Prepare the packaged clip, render the packaged speech, and say where everything is."""
    from newsstudio_ditto.demo import run_demo
    from newsstudio_ditto.storage import StorageLayout

    run_demo(StorageLayout(storage))


@main.command()
@storage_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that the UI listens on.")
@click.option("--port", type=int, default=3000, show_default=True, help="Port of the UI.")
@click.option("--video-port", type=int, default=3001, show_default=True, help="Port that finished videos play from.")
def dev(storage: Path, host: str, port: int, video_port: int) -> None:
    """Open the Dagster UI on the storage folder, and a read-only server of its finished videos beside it."""
    from newsstudio_ditto.orchestration import serve_ui
    from newsstudio_ditto.storage import StorageLayout

    serve_ui(StorageLayout(storage), host=host, port=port, video_port=video_port)


if __name__ == "__main__":
    main()
