from pathlib import Path

import pytest

from newsstudio_ditto.config import CropConfig, PacketOptions
from newsstudio_ditto.errors import MediaError, PacketFormatError, UsageError
from newsstudio_ditto.storage import AvatarRecipe, StorageLayout, files_by_slug, replacing


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "Clip One.MP4"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def empty(tmp_path: Path) -> StorageLayout:
    return StorageLayout(tmp_path / "storage")


def test_the_root_is_the_argument_else_the_variable_else_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DITTO_STORAGE", raising=False)
    assert StorageLayout.at(None).root == tmp_path / "storage"
    monkeypatch.setenv("DITTO_STORAGE", "elsewhere")
    assert StorageLayout.at("").root == tmp_path / "elsewhere"
    assert StorageLayout.at("given").root == tmp_path / "given"


def test_a_layout_makes_no_folder(empty: StorageLayout) -> None:
    assert empty.packet("anna").parent == empty.packets
    assert empty.recipe("anna") == AvatarRecipe()
    assert files_by_slug(empty.anchors) == {}
    assert not empty.root.exists()


def test_an_anchor_takes_the_place_of_the_older_one(empty: StorageLayout, clip: Path, tmp_path: Path) -> None:
    placed = empty.place_anchor(clip, "anna")
    assert (placed.name, placed.read_bytes()) == ("anna.mp4", b"one")
    picture = tmp_path / "two.png"
    picture.write_bytes(b"two")
    assert empty.place_anchor(picture, "anna") == empty.anchor("anna")
    assert files_by_slug(empty.anchors) == {"anna": empty.anchors / "anna.png"}
    assert empty.place_anchor(empty.anchor("anna"), "anna").read_bytes() == b"two"


def test_missing_and_ambiguous_anchors_say_what_to_do(empty: StorageLayout, clip: Path) -> None:
    with pytest.raises(MediaError, match="no anchor named 'anna'"):
        empty.anchor("anna")
    empty.place_anchor(clip, "anna")
    (empty.anchors / "anna.mov").write_bytes(b"x")
    with pytest.raises(MediaError, match=r"anna\.mov, anna\.mp4"):
        empty.anchor("anna")


@pytest.mark.parametrize("name", ["../x", "A", "a b", "a/b", "", "a|b", "-a"])
def test_ids_that_are_no_slugs_never_reach_a_path(empty: StorageLayout, clip: Path, name: str) -> None:
    for call in (empty.anchor, empty.packet, empty.recipe, empty.speech, empty.speech_features):
        with pytest.raises(UsageError, match="is not a slug"):
            call(name)
    with pytest.raises(UsageError):
        empty.video("anna", name)
    with pytest.raises(UsageError):
        empty.place_anchor(clip, name)


def test_files_without_extension_or_existence_are_refused(empty: StorageLayout, tmp_path: Path) -> None:
    bare = tmp_path / "clip"
    bare.write_bytes(b"x")
    with pytest.raises(UsageError, match="no extension"):
        empty.place_anchor(bare, "anna")
    with pytest.raises(UsageError, match="is not a file"):
        empty.place_speech(tmp_path / "none.wav", "news")


def test_a_recipe_comes_back_equal_and_an_equal_one_is_not_written_again(empty: StorageLayout) -> None:
    recipe = AvatarRecipe("mini", PacketOptions(window="full", crop=CropConfig(scale=2.0), max_frames=7))
    empty.keep_recipe("anna", recipe)
    path = empty.recipes / "anna.json"
    before = path.stat().st_mtime_ns
    empty.keep_recipe("anna", recipe)
    assert empty.recipe("anna") == recipe
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"options": {"crop": null, "colour": 1}}', '{"options": 3}'])
def test_a_file_that_is_no_recipe_is_refused_by_name(empty: StorageLayout, text: str) -> None:
    empty.keep_recipe("anna", AvatarRecipe())
    (empty.recipes / "anna.json").write_text(text)
    with pytest.raises(PacketFormatError, match=r"anna\.json is not an avatar recipe"):
        empty.recipe("anna")


def test_a_failed_replacement_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
