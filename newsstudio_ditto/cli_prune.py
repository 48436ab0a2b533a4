"""``newsstudio-ditto prune``: what nobody needs any more."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from newsstudio_ditto.cli_shared import json_option, storage_option
from newsstudio_ditto.terminal import format_bytes, note, show_json, show_table

if TYPE_CHECKING:
    from newsstudio_ditto.storage import StorageLayout

_GB = 10**9


@click.command()
@click.option("--packets-older-than", "packets_days", type=float, default=None, metavar="DAYS", help="Unused packets.")
@click.option("--videos-older-than", "videos_days", type=float, default=None, metavar="DAYS", help="Finished videos.")
@click.option(
    "--max-videos", "max_videos_gb", type=float, default=None, metavar="GB", help="Oldest videos beyond this."
)
@click.option("--orphans", is_flag=True, help="Also packets and results whose clip or speech is gone.")
@click.option("--runs-older-than", "runs_days", type=float, default=None, metavar="DAYS", help="Finished Dagster runs.")
@click.option("--yes", is_flag=True, help="Remove; without it, only list.")
@storage_option
@json_option
def prune(
    packets_days: float | None,
    videos_days: float | None,
    max_videos_gb: float | None,
    orphans: bool,
    runs_days: float | None,
    yes: bool,
    storage: Path,
    as_json: bool,
) -> None:
    """List what can go by age and size, and remove it with --yes. Remains of interrupted runs are always listed."""
    from newsstudio_ditto.pruning import PruneRules, list_prunable
    from newsstudio_ditto.pruning import prune as remove
    from newsstudio_ditto.storage import StorageLayout

    layout = StorageLayout.at(storage)
    limit = None if max_videos_gb is None else round(max_videos_gb * _GB)
    items = list_prunable(layout, PruneRules(packets_days, videos_days, limit, orphans))
    runs, strays = _look_at_records(layout, runs_days, yes=yes)
    freed = remove(layout, items) if yes else 0
    if as_json:
        rows = [item.to_plain() for item in items]
        document = {"items": rows, "runs": runs, "removed": yes, "freed_bytes": freed, "without_partition": strays}
        show_json(document)
        return
    if items:
        table = [(item.kind, item.path, format_bytes(item.num_bytes), item.reason) for item in items]
        show_table(("kind", "path", "size", "why"), table)
    for stray in strays:
        note(f"Note: {stray}")
    verb = "removed" if yes else "would be removed with --yes:"
    note(f"{verb} {len(items)} things, {format_bytes(sum(item.num_bytes for item in items))}, and {runs} runs")


def _look_at_records(layout: "StorageLayout", older_than_days: float | None, *, yes: bool) -> tuple[int, list[str]]:
    """How many old runs go, and what lies on disk without a partition; nothing where Dagster was never used."""
    if not layout.dagster_home.is_dir():
        return 0, []
    from newsstudio_ditto.orchestration import open_instance
    from newsstudio_ditto.pruning import unnoticed
    from newsstudio_ditto.record_pruning import list_old_runs, remove_runs

    with open_instance(layout) as instance:
        strays = unnoticed(layout, *(instance.get_dynamic_partitions(name) for name in ("avatar_id", "speech_id")))
        if older_than_days is None:
            return 0, strays
        runs = list_old_runs(instance, older_than_days=older_than_days)
        if yes:
            remove_runs(instance, runs)
        return len(runs), strays
