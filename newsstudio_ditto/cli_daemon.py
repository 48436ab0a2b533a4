"""``newsstudio-ditto serve``: the HTTP daemon."""

from pathlib import Path

import click

from newsstudio_ditto.cli_shared import lips_option, storage_option
from newsstudio_ditto.terminal import note


@click.command()
@storage_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=8010, show_default=True, help="Port to listen on.")
@click.option("--token", envvar="DITTO_TOKEN", default=None, help="Bearer token that every call must carry.")
@click.option("--model", default="mini", show_default=True, help="Model bundle that is kept warm.")
@click.option(
    "--device", "devices", multiple=True, default=("auto",), show_default=True, help="auto, cpu, cuda:N; repeatable."
)
@click.option("--eager", is_flag=True, help="Do not capture CUDA graphs.")
@click.option("--queue", "queue_limit", type=int, default=8, show_default=True, help="Jobs that may wait.")
@click.option(
    "--preprocess",
    type=click.Choice(["auto", "graph", "inline"]),
    default="auto",
    show_default=True,
    help="How anchors are prepared.",
)
@click.option(
    "--speech-root",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder that speechPath may name files in.",
)
@lips_option
@click.option("--allow-host", "hosts", multiple=True, help="A further name of this machine; repeatable.")
@click.option("--allow-origin", "origins", multiple=True, help="A web origin that may call; repeatable.")
def serve(
    storage: Path,
    host: str,
    port: int,
    token: str | None,
    model: str,
    devices: tuple[str, ...],
    eager: bool,
    queue_limit: int,
    preprocess: str,
    speech_root: Path | None,
    lips: str,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
) -> None:
    """Serve the HTTP API and the page; the address is printed once everything is warm."""
    from newsstudio_ditto.daemon.server import serve as run
    from newsstudio_ditto.daemon.settings import DaemonSettings
    from newsstudio_ditto.storage import StorageLayout

    note(f"warming up; then http://{host}:{port}")
    settings = DaemonSettings(
        StorageLayout.at(storage),
        host,
        port,
        token,
        model,
        devices,
        eager,
        queue_limit,
        preprocess=preprocess,  # type: ignore[arg-type]
        speech_root=speech_root,
        hosts=hosts,
        origins=origins,
        lips=lips,  # type: ignore[arg-type]
    )
    run(settings)
