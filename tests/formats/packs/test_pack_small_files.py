"""Tokenizer and processor files of a pack: left to the base where they are the same, found there by every reader."""

import json
import shutil

import pytest
import torch

import smelt
from checkpoints import CONFIG, random_state, snapshot, write_model
from smelt.errors import CorruptFile, IncompatibleModels
from smelt.files.identity import hash_file
from smelt.formats.folder_files import read_config, small_files
from smelt.formats.open import open_path
from smelt.inspection.small_files import tokenizer_of

SHAPES = {"w.weight": (64, 32), "bias": (32,)}
WORDS = {"tokenizer__json": '{"model": {"type": "BPE"}}', "preprocessor_config__json": '{"size": 32}'}
SAME = ["preprocessor_config.json", "tokenizer.json"]


@pytest.fixture
def pack(tmp_path):
    """A pack over `base`: tokenizer and processor are the base's, the tokenizer's settings are its own."""
    base = random_state(0, SHAPES)
    write_model(tmp_path / "base", base, **WORDS, tokenizer_config__json='{"of": "base"}')
    tuned = {name: tensor + 0.1 for name, tensor in base.items()}
    cars = write_model(tmp_path / "cars", tuned, **WORDS, tokenizer_config__json='{"of": "cars"}')
    done = smelt.pack(cars, base=tmp_path / "base", out=tmp_path / "pack")
    assert done.notes == ("left to the base, which has the same: preprocessor_config.json, tokenizer.json",)
    return tmp_path / "pack"


def note_of(pack):
    return json.loads((pack / "delta.json").read_text())


def change_note(pack, **changes):
    (pack / "delta.json").write_text(json.dumps({**note_of(pack), **changes}))


def test_what_is_the_bases_byte_for_byte_is_not_written_and_its_hash_is(pack):
    assert sorted(path.name for path in pack.iterdir()) == [
        *("README.md", "config.json", "delta.json", "delta.safetensors", "manifest.json", "tokenizer_config.json"),
    ]
    assert note_of(pack)["from_base"] == {name: hash_file(pack.parent / "base" / name) for name in SAME}
    assert note_of(pack)["version"] == 2


def test_the_config_stays_in_the_pack_though_the_base_has_the_same(pack):
    assert (pack / "config.json").read_bytes() == (pack.parent / "base" / "config.json").read_bytes()


def test_a_reader_finds_all_files_in_one_folder_of_the_packs_name(pack):
    source = open_path(pack)
    found = small_files(source.folder, source.files)
    assert sorted(found) == ["config.json", *SAME, "tokenizer_config.json"]
    assert found["tokenizer_config.json"].read_text() == '{"of": "cars"}'
    assert found["tokenizer.json"].read_text() == WORDS["tokenizer__json"]
    assert read_config(source.folder) == CONFIG
    assert source.folder.name == "pack"
    assert open_path(pack).folder == source.folder
    assert {path.name for path in source.beside if path.parent == pack.parent / "base"} >= set(SAME)


def test_unpacking_converting_and_merging_write_them_as_if_they_lay_in_the_pack(pack, tmp_path):
    smelt.unpack(pack, out=tmp_path / "plain")
    smelt.convert(pack, out=tmp_path / "half", dtype="float16")
    smelt.merge({"cars": str(pack)}, method="average", out=tmp_path / "merged")
    for folder in ("plain", "half", "merged"):
        for name in (*SAME, "tokenizer_config.json"):
            assert (tmp_path / folder / name).read_bytes() == (tmp_path / "cars" / name).read_bytes(), (folder, name)
            assert not (tmp_path / folder / name).is_symlink()
    assert (tmp_path / "plain" / "README.md").read_bytes() == (pack / "README.md").read_bytes()
    assert all(smelt.verify(tmp_path / folder).ok for folder in ("pack", "plain", "half", "merged"))


def test_inspect_and_diff_see_the_tokenizer_of_the_base(pack, tmp_path):
    assert smelt.inspect(pack).tokenizer == "BPE"
    assert smelt.inspect(pack).made is not None
    assert tokenizer_of(pack) is None
    said = str(smelt.diff(pack, tmp_path / "cars"))
    assert "tokenizer" not in said
    assert "preprocessor" not in said


def test_a_pack_over_a_pack_finds_what_both_leave_to_the_base(pack, tmp_path):
    further = {name: tensor + 0.3 for name, tensor in random_state(0, SHAPES).items()}
    write_model(tmp_path / "further", further, **WORDS, tokenizer_config__json='{"of": "cars"}')
    smelt.pack(tmp_path / "further", base=pack, out=tmp_path / "two")
    assert sorted(note_of(tmp_path / "two")["from_base"]) == [*SAME, "tokenizer_config.json"]
    smelt.unpack(tmp_path / "two", out=tmp_path / "plain")
    for name in (*SAME, "tokenizer_config.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "further" / name).read_bytes()


def test_pack_and_base_can_be_moved_together(pack, tmp_path):
    open_path(pack).close()
    (tmp_path / "elsewhere").mkdir()
    for folder in ("base", "pack"):
        (tmp_path / folder).rename(tmp_path / "elsewhere" / folder)
    folder = open_path(tmp_path / "elsewhere" / "pack").folder
    assert (folder / "tokenizer.json").read_text() == WORDS["tokenizer__json"]


def test_a_pack_of_version_1_holds_everything_and_is_read_as_before(pack, tmp_path):
    for name in SAME:
        shutil.copy(tmp_path / "base" / name, pack)
    old = {key: value for key, value in note_of(pack).items() if key != "from_base"}
    (pack / "delta.json").write_text(json.dumps({**old, "version": 1}))
    assert open_path(pack).folder == pack
    smelt.unpack(pack, out=tmp_path / "plain")
    assert (tmp_path / "plain" / "tokenizer.json").read_text() == WORDS["tokenizer__json"]
    change_note(pack, from_base={"tokenizer.json": "0" * 64})
    with pytest.raises(CorruptFile, match="from_base needs version 2"):
        open_path(pack)


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_base_with_another_tokenizer_is_refused_though_its_weights_are_the_same(pack, tmp_path, how):
    file = tmp_path / "base" / "tokenizer.json"
    file.write_text('{"model": {"type": "Unigram"}}') if how == "changed" else file.unlink()
    for reader in (open_path, smelt.inspect):
        with pytest.raises(
            IncompatibleModels, match=r"takes tokenizer\.json from its base \.\./base.*restore that base"
        ):
            reader(pack)


def test_a_file_that_lies_in_the_pack_and_is_the_bases_too_is_refused(pack):
    (pack / "tokenizer.json").write_text("{}")
    with pytest.raises(CorruptFile, match=r"holds tokenizer\.json, which delta\.json takes from the base"):
        open_path(pack)


@pytest.mark.parametrize(
    "name",
    [
        "../base/tokenizer.json",
        "/etc/hosts.json",
        "config.json",
        "model.safetensors",
        "x.py",
        "x.bin",
        "",
        "..",
        "a\\b.json",
    ],
)
def test_a_note_cannot_ask_for_other_files_than_small_ones_of_the_base(pack, name):
    change_note(pack, from_base={name: "0" * 64})
    with pytest.raises(CorruptFile, match="is no file that a pack can leave to its base"):
        open_path(pack)


@pytest.mark.parametrize("name", ["x" * 5000 + ".json", "no\0name.json", "missing.json"])
def test_a_name_that_no_base_can_have_is_refused_in_words(pack, name):
    change_note(pack, from_base={name: "0" * 64})
    with pytest.raises((IncompatibleModels, CorruptFile)):
        open_path(pack)


def test_a_base_of_weights_alone_gets_nothing_left_to_it(tmp_path):
    base = random_state(0, SHAPES)
    plain = write_model(tmp_path / "base", base, config=None) / "model.safetensors"
    cars = write_model(tmp_path / "cars", {name: tensor + 1 for name, tensor in base.items()}, **WORDS)
    smelt.pack(cars, base=plain, out=tmp_path / "pack")
    assert note_of(tmp_path / "pack")["from_base"] == {}
    assert (tmp_path / "pack" / "tokenizer.json").read_text() == WORDS["tokenizer__json"]


def test_reading_does_not_change_the_pack_or_the_base(pack, tmp_path):
    before = {folder: snapshot(tmp_path / folder) for folder in ("base", "pack")}
    source = open_path(pack)
    out = torch.empty(32)
    source.read("bias", 0, out)
    assert {folder: snapshot(tmp_path / folder) for folder in ("base", "pack")} == before
