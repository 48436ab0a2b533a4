"""``newsstudio-ditto models``: the bundles of weights."""

from pathlib import Path

import click

from newsstudio_ditto.cli_shared import json_option
from newsstudio_ditto.terminal import note, progress_bar, show_json, show_table


@click.group()
def models() -> None:
    """Model bundles."""


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the bundles that can be named with --model."""
    from newsstudio_ditto.inventory import list_models as list_bundles

    rows = list_bundles()
    if as_json:
        show_json(rows)
    else:
        columns = ("name", "fingerprint", "bytes", "untrained parts", "folder")
        show_table(columns, [tuple(row[column] for column in columns) for row in rows])


@models.command("check")
@click.argument("model", required=False)
def check_model(model: str | None) -> None:
    """Check the files, hashes, keys and shapes of a bundle, or of a folder of the official release.

    Without MODEL, everything that comes with the package is checked: the bundle 'mini' and the nets 'faces'.
    Exit code 1 if anything is wrong.
    """
    from newsstudio_ditto.inventory import PACKAGED_MODELS
    from newsstudio_ditto.inventory import check_model as check

    findings = {name: check(name) for name in ([model] if model else PACKAGED_MODELS)}
    for name, faults in findings.items():
        for fault in faults:
            click.echo(fault)
        note(f"{name}: {'good' if not faults else f'{len(faults)} faults'}")
    raise SystemExit(1 if any(findings.values()) else 0)


@models.command("fetch")
@click.argument("name", type=click.Choice(["ditto"]), default="ditto")
@click.option(
    "--release", type=click.Path(path_type=Path), default=None, help="Folder of the release; files there stay."
)
@click.option("--revision", default=None, help="Revision of the repository on the hub.")
@click.option("--hubert", type=click.Path(path_type=Path), default=None, help="Other weights for the audio encoder.")
@json_option
def fetch_model(name: str, release: Path | None, revision: str | None, hubert: Path | None, as_json: bool) -> None:
    """Fetch the official checkpoints, check every file, and convert them into the bundle 'ditto'."""
    from newsstudio_ditto.official.install import fetch_ditto

    with progress_bar(f"fetching {name}") as on_progress:
        report = fetch_ditto(
            release=release,
            revision=revision,
            hubert=hubert,
            on_step=lambda _what, done, total: on_progress(done, total),
        )
    for setting in report.unknown_settings:
        note(f"Warning: the release has a setting {setting!r} that is not known here")
    for remark in (*report.notes, *(report.fetched.notes if report.fetched else ())):
        note(f"Note: {remark}")
    if as_json:
        show_json(report.to_plain())
    else:
        click.echo(report.folder)
