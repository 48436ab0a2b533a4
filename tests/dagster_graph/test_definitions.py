import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml  # type: ignore[import-untyped]

from newsstudio_ditto.definitions import defs
from newsstudio_ditto.packet.spec import PARTS
from newsstudio_ditto.preparation import VERSIONS

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "newsstudio_ditto" / "bundled"
SNAPSHOT = Path(__file__).parent / "definitions.txt"
GRAPH = defs.resolve_asset_graph()


def describe_graph() -> Iterator[str]:
    """One block of text per asset, then checks, jobs and sensors; a change of the graph shows in review."""
    for key in sorted(GRAPH.get_all_asset_keys(), key=str):
        node = GRAPH.get(key)
        parts = node.partitions_def
        yield key.to_user_string()
        yield f"  depends on: {', '.join(sorted(parent.to_user_string() for parent in node.parent_keys)) or '-'}"
        yield f"  group: {node.group_name}; io manager: {node.assets_def.get_io_manager_key_for_asset_key(key)}"
        yield f"  partitions: {'|'.join(names_of(parts))}; code version: {node.code_version}"
        yield f"  kinds: {', '.join(sorted(node.kinds)) or '-'}; owners: {', '.join(node.owners) or '-'}"
    yield "checks"
    for check in sorted(GRAPH.asset_check_keys, key=str):
        spec = GRAPH.get_check_spec(check)
        yield f"  {check.asset_key.to_user_string()}: {check.name}{' (blocking)' if spec.blocking else ''}"
    for job in ("listen", "nightly", "preprocess", "render", "render_many", "verify"):
        definition = defs.resolve_job_def(job)
        keys = sorted(key.to_user_string() for key in definition.asset_layer.executable_asset_keys)
        yield f"job {job} ({definition.executor_def.name}): {', '.join(keys) or '-'}"
    for sensor in sorted(definition.name for definition in defs.sensors or []):
        yield f"sensor {sensor}"
    for schedule in defs.schedules or []:
        assert isinstance(schedule, dg.ScheduleDefinition)
        yield f"schedule {schedule.name}: {schedule.cron_schedule} {schedule.job_name}"


def names_of(partitions: dg.PartitionsDefinition[str] | None) -> list[str]:
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        return [dimension.name for dimension in partitions.partitions_defs]
    assert isinstance(partitions, dg.DynamicPartitionsDefinition)
    return [partitions.name or ""]


def test_the_graph_is_the_one_in_the_snapshot() -> None:
    """When the change is meant, put what ``describe_graph`` yields into ``definitions.txt``."""
    assert "\n".join(describe_graph()) + "\n" == SNAPSHOT.read_text()


def test_every_asset_tells_what_it_is() -> None:
    for key in GRAPH.get_all_asset_keys():
        node = GRAPH.get(key)
        assert node.description, key
        assert node.kinds, key
        if node.is_materializable:
            assert node.owners == ["team:newsstudio"], key
            assert node.code_version, key


def test_packet_assets_and_checks_derive_from_the_spec() -> None:
    for part, spec in PARTS.items():
        node = GRAPH.get(dg.AssetKey(["packet", part]))
        assert node.code_version == VERSIONS[part]
        for tensor in spec:
            assert f"`{tensor.name}`: {tensor}" in (node.description or "")
    checks = {(key.asset_key.path[-1], key.name): GRAPH.get_check_spec(key) for key in GRAPH.asset_check_keys}
    assert all(checks[part, "matches_spec"].blocking for part in PARTS)


def test_jobs_run_in_one_process_so_that_models_stay_warm() -> None:
    assert {defs.resolve_job_def(job).executor_def.name for job in ("preprocess", "listen", "render")} == {"in_process"}


def test_the_two_instance_files_agree_but_for_where_records_lie() -> None:
    packaged = yaml.safe_load((BUNDLED / "dagster.yaml").read_text())
    checkout = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    places = {"storage", "local_artifact_storage", "compute_logs"}
    assert {key: value for key, value in checkout.items() if key not in places} == packaged
    assert checkout["telemetry"] == checkout["nux"] == {"enabled": False}


def test_a_checkout_and_the_command_line_share_their_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from newsstudio_ditto.orchestration import open_instance
    from newsstudio_ditto.storage import StorageLayout

    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as checkout:
        checkout.add_dynamic_partitions("avatar_id", ["anna"])
    with open_instance(StorageLayout(tmp_path / "storage")) as instance:
        assert instance.get_dynamic_partitions("avatar_id") == ["anna"]


def test_both_workspaces_name_the_composition_root_alike() -> None:
    checkout = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"][0]["python_file"]
    packaged = yaml.safe_load((BUNDLED / "workspace.yaml").read_text())["load_from"][0]["python_module"]
    assert checkout["relative_path"] == "newsstudio_ditto/definitions.py"
    assert packaged["module_name"] == "newsstudio_ditto.definitions"
    for name in ("attribute", "location_name"):
        assert checkout[name] == packaged[name]
