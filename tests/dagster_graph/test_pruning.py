"""What prune names, what it removes, and what it leaves alone."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from assets.gate import unpassed_checks
from newsstudio_ditto.cli import main
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.orchestration import PreprocessReport, open_instance
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.pruning import DAY_S, PruneRules, list_prunable, prune, unnoticed
from newsstudio_ditto.record_pruning import list_old_runs, remove_runs
from newsstudio_ditto.storage import StorageLayout
from tests.dagster_graph.conftest import AVATAR, SPEECH, Studio


@pytest.fixture
def old(tmp_path: Path, studio: Studio) -> Iterator[Studio]:
    """A copy with two videos, one of them 40 days old."""
    shutil.copytree(studio.layout.root, tmp_path / "studio", symlinks=True)
    layout = StorageLayout(tmp_path / "studio")
    shutil.rmtree(layout.videos, ignore_errors=True)
    for name, days in (("ancient", 40), (SPEECH, 1)):
        for path in (layout.video(AVATAR, name), layout.motion(AVATAR, name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * 1000)
            os.utime(path, (0, time.time() - days * DAY_S))
    with open_instance(layout) as instance:
        yield Studio(layout, instance)


def named(layout: StorageLayout, rules: PruneRules, **at: float) -> set[tuple[str, str]]:
    return {(item.kind, item.path.name) for item in list_prunable(layout, rules, **at)}


def test_without_rules_only_remains_go(old: Studio) -> None:
    assert named(old.layout, PruneRules()) == set()
    partial = old.layout.videos / AVATAR / ".ditto-0123456789ab-elsewhere-1-00ff.partial.mp4"
    partial.write_bytes(b"x")
    assert named(old.layout, PruneRules()) == set()
    os.utime(partial, (0, 0))
    assert named(old.layout, PruneRules()) == {("remains", partial.name)}


def test_old_videos_go_with_their_motion(old: Studio) -> None:
    rules = PruneRules(videos_older_than_days=30)
    assert named(old.layout, rules) == {("video", "ancient.mp4"), ("motion", "ancient.pt")}
    assert prune(old.layout, list_prunable(old.layout, rules)) == 2000
    assert not old.layout.video(AVATAR, "ancient").exists()
    assert old.layout.video(AVATAR, SPEECH).exists()
    assert list_prunable(old.layout, rules) == []


def test_too_many_videos_go_oldest_first(old: Studio) -> None:
    assert ("video", "ancient.mp4") in named(old.layout, PruneRules(max_videos_bytes=1500))
    assert ("video", f"{SPEECH}.mp4") not in named(old.layout, PruneRules(max_videos_bytes=1500))
    assert ("video", f"{SPEECH}.mp4") in named(old.layout, PruneRules(max_videos_bytes=0))


def test_a_packet_counts_as_used_while_videos_are_made_of_it(old: Studio) -> None:
    rules, soon, later = PruneRules(packets_older_than_days=30), time.time() + 20 * DAY_S, time.time() + 60 * DAY_S
    assert named(old.layout, rules, now=soon) == set()
    assert named(old.layout, rules, now=later) == {("packet", AVATAR)}
    assert prune(old.layout, list_prunable(old.layout, rules, now=later)) > 0
    assert AvatarStore(old.layout.root).list() == []
    assert old.layout.anchor(AVATAR).is_file()


def test_orphans_are_named_when_asked_for(old: Studio) -> None:
    old.layout.anchor(AVATAR).unlink()
    assert named(old.layout, PruneRules()) == set()
    assert {("orphan packet", AVATAR), ("orphan result", "ancient.pt")} <= named(old.layout, PruneRules(orphans=True))


def test_a_partition_deleted_in_the_browser_is_noticed(old: Studio) -> None:
    def sentences() -> list[str]:
        avatars, speeches = (old.instance.get_dynamic_partitions(name) for name in ("avatar_id", "speech_id"))
        return unnoticed(old.layout, avatars, speeches)

    (before,) = sentences()
    assert "ancient" in before
    assert SPEECH not in before
    old.instance.delete_dynamic_partition("avatar_id", AVATAR)
    old.instance.delete_dynamic_partition("speech_id", SPEECH)
    packet, sound, results = sentences()
    assert packet.startswith(f"the packet of {AVATAR} belongs to no partition")
    assert sound.startswith(f"the speech {SPEECH} belongs to no partition")
    assert f"videos/{AVATAR}/{SPEECH}.mp4" in results
    listed = CliRunner().invoke(main, ["prune", "--json", "--storage", str(old.layout.root)])
    assert json.loads(listed.stdout)["without_partition"] == [packet, sound, results]


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="videos_older_than_days"):
        PruneRules(videos_older_than_days=-1)


def test_old_records_go_and_what_a_render_asks_for_stays(old: Studio, prepared: PreprocessReport) -> None:
    for _ in range(2):
        old.run("preprocess", AVATAR, ["packet", "masks"], ["packet", "meta"])
    old.run("listen", SPEECH)
    assert list_old_runs(old.instance, older_than_days=1) == []
    later = time.time() + 3 * DAY_S
    runs = list_old_runs(old.instance, older_than_days=1, now=later)
    assert runs
    assert list_old_runs(old.instance, older_than_days=1, keep=1000, now=later) == []
    before = old.instance.get_runs_count()
    assert remove_runs(old.instance, runs) > 0
    assert old.instance.get_runs_count() == before - len(runs)
    assert unpassed_checks(old.instance, AVATAR, prepared.generation) == []
    assert list_old_runs(old.instance, older_than_days=1, now=later) == []
