"""Options that several commands share."""

from pathlib import Path

import click

storage_option = click.option(
    "--storage",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DITTO_STORAGE",
    default=Path("storage"),
    show_default=True,
    help="Folder of packets, videos and the Dagster instance.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
avatar_option = click.option("--avatar-id", required=True, help="Name of the avatar: a slug such as 'anna'.")
model_option = click.option("--model", default="mini", show_default=True, help="Model bundle: a name or a folder.")
lips_option = click.option(
    "--check",
    "lips",
    type=click.Choice(["off", "sampled", "whole"]),
    default="sampled",
    show_default=True,
    help="How much of the finished video is searched for lips that stand still or lag; all else is checked always.",
)
