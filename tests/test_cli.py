"""The command line, run for real on a few frames of the packaged clip."""

import json
import subprocess
import sys
import wave
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from newsstudio_ditto.cli import main

DEMO = Path(__file__).parent.parent / "newsstudio_ditto" / "bundled" / "demo"
NUM_SOURCE_FRAMES = 4
NUM_SAMPLES = 5 * 640 + 1


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def document(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.stderr
    parsed: dict[str, object] = json.loads(result.stdout)
    return parsed


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli") / "storage"


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first samples of the packaged speech; one sample more than five frames, so six frames."""
    path = tmp_path_factory.mktemp("speech") / "short.wav"
    with wave.open(str(DEMO / "speech.wav"), "rb") as source, wave.open(str(path), "wb") as target:
        assert source.getframerate() == 16_000
        target.setparams(source.getparams())
        source.setpos(16_000)
        target.writeframes(source.readframes(NUM_SAMPLES))
    return path


@pytest.fixture(scope="module")
def prepared(storage: Path) -> dict[str, object]:
    arguments = ("preprocess", DEMO / "anchor.mp4", "--avatar-id", "anna", "--max-frames", NUM_SOURCE_FRAMES)
    return document(run(*arguments, "--storage", storage, "--json"))


@pytest.fixture(scope="module")
def rendered(prepared: dict[str, object], storage: Path, speech: Path) -> dict[str, object]:
    output = storage.parent / "out.mp4"
    arguments = (
        "render",
        "--avatar-id",
        "anna",
        "--speech",
        speech,
        "--output",
        output,
        "--seed",
        7,
        "--preset",
        "ultrafast",
    )
    return document(run(*arguments, "--storage", storage, "--json"))


def commands(group: click.Group, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found += commands(command, (*prefix, name)) if isinstance(command, click.Group) else [(*prefix, name)]
    return found


@pytest.mark.parametrize("command", commands(main), ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage:")


def test_preprocess_makes_all_six_files(prepared: dict[str, object]) -> None:
    folder = Path(str(prepared["folder"]))
    assert sorted(path.name for path in folder.iterdir()) == [
        "f_s.pt", "frames.pt", "grids.pt", "keypoints.pt", "masks.pt", "meta.pt",
    ]  # fmt: skip
    assert prepared["num_frames"] == NUM_SOURCE_FRAMES
    assert prepared["state"] == "made"


def test_preprocess_skips_what_is_fresh(prepared: dict[str, object], storage: Path) -> None:
    arguments = ("preprocess", DEMO / "anchor.mp4", "--avatar-id", "anna", "--max-frames", NUM_SOURCE_FRAMES)
    again = document(run(*arguments, "--storage", storage, "--json"))
    assert again["made"] == []
    assert again["generation"] == prepared["generation"]


def test_render_writes_one_frame_for_each_started_640_samples(rendered: dict[str, object]) -> None:
    assert rendered["num_frames"] == 6
    assert rendered["checked"]["sound_lost"] == 0  # type: ignore[index]
    assert b"cabac=0" in Path(str(rendered["output"])).read_bytes()  # what x264 says of ultrafast


def test_inspect_reads_the_origin_of_a_video_back(rendered: dict[str, object], prepared: dict[str, object]) -> None:
    found = document(run("inspect", rendered["output"], "--json"))
    origin = found["origin"]
    assert isinstance(origin, dict)
    assert origin["synthetic"] == "true"
    assert origin["seed"] == "7"
    assert origin["packet_generation"] == prepared["generation"]
    assert found["has_sound"] is True
    assert found["num_frames"] == 6


def test_verify_looks_at_a_video_with_its_speech_and_its_packet(
    rendered: dict[str, object], storage: Path, speech: Path
) -> None:
    found = document(run("verify", rendered["output"], "--speech", speech, "--storage", storage, "--json"))
    assert found["ok"] is True
    assert found["measured"]["colour_shift"] < 4  # type: ignore[index]
    other = run("verify", rendered["output"], "--speech", DEMO / "speech.wav", "--storage", storage)
    assert other.exit_code == 1
    assert "frames: expected" in other.stdout


def test_verify_takes_no_option_of_the_other_kind(rendered: dict[str, object], storage: Path, speech: Path) -> None:
    for arguments in ((rendered["output"], "--against", DEMO / "anchor.mp4"), ("anna", "--speech", speech)):
        result = run("verify", *arguments, "--storage", storage)
        assert result.exit_code == 1
        assert "Hint: give --" in result.stderr


def test_list_and_inspect_show_the_packet(prepared: dict[str, object], storage: Path) -> None:
    result = run("list", "--storage", storage, "--json")
    (row,) = json.loads(result.stdout)
    assert (row["avatar_id"], row["num_frames"], row["state"]) == ("anna", NUM_SOURCE_FRAMES, "ready")
    described = document(run("inspect", "anna", "--storage", storage, "--json"))
    assert described["generation"] == prepared["generation"]
    assert "anna" in run("list", "--storage", storage).stdout


def test_verify_finds_the_frames_equal_to_the_clip(prepared: dict[str, object], storage: Path) -> None:
    arguments = ("verify", "anna", "--against", DEMO / "anchor.mp4", "--storage", storage, "--json")
    found = document(run(*arguments))
    assert found["ok"] is True
    parity = found["parity"]
    assert isinstance(parity, dict)
    assert parity["max_difference"] == 0
    assert parity["num_frames"] == NUM_SOURCE_FRAMES


def test_verify_says_which_file_is_damaged(tmp_path: Path) -> None:
    arguments = ("preprocess", DEMO / "anchor.mp4", "--avatar-id", "bent", "--max-frames", 2)
    made = document(run(*arguments, "--storage", tmp_path, "--json"))
    path = Path(str(made["folder"])) / "frames.pt"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    result = run("verify", "bent", "--storage", tmp_path)
    assert result.exit_code == 1
    assert "frames" in result.stdout


def test_remove_takes_the_packet_and_nothing_else(tmp_path: Path) -> None:
    arguments = ("preprocess", DEMO / "anchor.mp4", "--avatar-id", "gone", "--max-frames", 1)
    document(run(*arguments, "--storage", tmp_path, "--json"))
    assert run("remove", "gone", "--yes", "--storage", tmp_path).exit_code == 0
    assert run("list", "--storage", tmp_path, "--json").stdout.strip() == "[]"
    assert (tmp_path / "anchors" / "gone.mp4").is_file()


def test_prune_lists_first_and_removes_on_request(tmp_path: Path) -> None:
    video = tmp_path / "videos" / "anna" / "news.mp4"
    video.parent.mkdir(parents=True)
    video.write_bytes(b"old")
    listed = document(run("prune", "--videos-older-than", 0, "--storage", tmp_path, "--json"))
    assert [item["path"] for item in listed["items"]] == [str(video)]  # type: ignore[attr-defined]
    assert video.exists()
    assert run("prune", "--videos-older-than", 0, "--yes", "--storage", tmp_path).exit_code == 0
    assert not video.exists()
    assert run("prune", "--videos-older-than", -1, "--storage", tmp_path).exit_code == 1


def test_models_list_and_check_know_mini() -> None:
    rows = json.loads(run("models", "list", "--json").stdout)
    assert "mini" in [row["name"] for row in rows]
    result = run("models", "check", "mini")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("preprocess", DEMO / "anchor.mp4", "--avatar-id", "A b"), "is not a slug"),
        (("preprocess", DEMO / "nothing.mp4", "--avatar-id", "anna"), "nothing.mp4"),
        (("preprocess", DEMO / "speech.wav", "--avatar-id", "anna"), "speech.wav"),
        (("preprocess", DEMO / "anchor.mp4", "--avatar-id", "anna", "--model", "no-such"), "no-such"),
        (("render", "--avatar-id", "nobody", "--speech", DEMO / "speech.wav", "-o", "o.mp4"), "nobody"),
        (("inspect", "nobody"), "nobody"),
        (("verify", "nobody"), "nobody"),
        (("remove", "nobody", "--yes"), "nobody"),
        (("inspect", DEMO / "anchor.mp4"), "no record of its origin"),
        (("models", "check", "no-such"), "no-such"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ".join(map(str, value[:2])),
)
def test_a_fault_is_two_lines_and_exit_code_1(arguments: tuple[object, ...], what: str, tmp_path: Path) -> None:
    folder = () if arguments[:2] == ("models", "check") else ("--storage", tmp_path)
    result = run(*arguments, *folder)
    assert result.exit_code == 1
    error, hint = [line for line in result.stderr.splitlines() if line.startswith(("Error: ", "Hint: "))]
    assert what in error
    assert error.startswith("Error: ")
    assert hint.startswith("Hint: ")


@pytest.mark.parametrize(
    "fault", [("--seed", -1), ("--batch-size", 0), ("--device", "tpu"), ("--crf", 99), ("--preset", "zoom")]
)
def test_a_value_out_of_range_names_the_range(fault: tuple[str, object], speech: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.mp4"
    result = run("render", "--avatar-id", "a", "--speech", speech, "-o", output, *fault, "--storage", tmp_path)
    assert result.exit_code == 1
    assert "Hint: give" in result.stderr
    assert not output.exists()


def test_a_failed_render_leaves_nothing_behind(prepared: dict[str, object], storage: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"not sound")
    output = tmp_path / "out" / "o.mp4"
    result = run("render", "--avatar-id", "anna", "--speech", tmp_path / "bad.wav", "-o", output, "--storage", storage)
    assert result.exit_code == 1
    assert not output.exists()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "bad.wav"]


def test_usage_faults_exit_with_2() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "newsstudio_ditto.cli", "render"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "Missing option" in result.stderr


def test_render_never_imports_dagster(prepared: dict[str, object], storage: Path, speech: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from newsstudio_ditto.cli import main; "
        "main(sys.argv[1:], standalone_mode=False); "
        "raise SystemExit('dagster' in sys.modules)"
    )
    arguments = ["render", "--avatar-id", "anna", "--speech", speech, "-o", tmp_path / "o.mp4", "--storage", storage]
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
