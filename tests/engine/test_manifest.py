"""The manifest knows every file; any changed byte, missing or stray file is found and named."""

import json

import pytest

import smelt
from checkpoints import snapshot
from smelt.engine.manifest import encode_manifest, verify_folder
from smelt.errors import RecipeError


@pytest.fixture
def out(tmp_path, two):
    base, cars, birds = two
    (base / "additional_chat_templates").mkdir()
    (base / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    (base / "tokenizer_config.json").write_text("{}")
    smelt.merge({"cars": cars, "birds": birds}, base=base, method="ties", out=tmp_path / "out", shard_size="100B")
    return tmp_path / "out"


def test_a_fresh_output_is_as_its_manifest_says(out):
    found = verify_folder(out)
    assert found.ok
    assert found.checked == len(snapshot(out)) - 1


def test_one_changed_byte_in_any_file_is_found_and_the_file_named(out):
    for name, content in snapshot(out).items():
        for place in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[place] ^= 1
            (out / name).write_bytes(changed)
            found = verify_folder(out)
            assert not found.ok, (name, place)
            assert any(fault.startswith(name) for fault in found.faults), (name, place, found.faults)
        (out / name).write_bytes(content)
    assert verify_folder(out).ok


def test_any_changed_byte_of_the_manifest_is_found(out):
    path = out / "manifest.json"
    content = path.read_bytes()
    missed, crashed = [], []
    for place in range(len(content)):
        for flip in (1, 0x20):
            changed = bytearray(content)
            changed[place] ^= flip
            path.write_bytes(changed)
            try:
                found = verify_folder(out)
            except Exception as error:
                crashed.append((place, flip, error))
                continue
            if not any(fault.startswith("manifest.json") for fault in found.faults):
                missed.append((place, flip))
    path.write_bytes(content)
    assert (missed, crashed) == ([], [])


def test_other_white_space_in_the_manifest_is_a_changed_byte_too(out):
    path = out / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"\n", b" ", 1))
    assert not verify_folder(out).ok


def test_a_missing_file_and_another_length_are_named(out):
    (out / "config.json").unlink()
    (out / "README.md").write_bytes((out / "README.md").read_bytes() + b"!")
    faults = verify_folder(out).faults
    assert any("config.json: is missing" in fault for fault in faults)
    assert any(fault.startswith("README.md: has") for fault in faults)
    assert len(faults) == 2


@pytest.mark.parametrize("name", ["old.safetensors", "pytorch_model.bin"])
def test_weights_that_the_manifest_does_not_know_are_named(out, name):
    (out / name).write_bytes(b"x")
    assert any(fault.startswith(name) for fault in verify_folder(out).faults)


def test_a_stray_index_would_send_loaders_to_other_weights_and_is_named(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "single")
    (tmp_path / "single" / "model.safetensors.index.json").write_text("{}")
    assert any("index" in fault for fault in verify_folder(tmp_path / "single").faults)


def test_what_was_not_made_by_smelt_is_refused(tmp_path, two):
    with pytest.raises(RecipeError, match=r"has no manifest\.json"):
        verify_folder(two[0])
    with pytest.raises(RecipeError, match="no such folder"):
        verify_folder(tmp_path / "ghost")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"files": 3}', '{"files": {"a": 3}}', '{"files": {"a": {}}}', "null"]
)
def test_a_garbage_manifest_is_a_finding_not_a_crash(out, content):
    (out / "manifest.json").write_text(content)
    found = verify_folder(out)
    assert not found.ok
    assert any(fault.startswith("manifest.json") for fault in found.faults)


def test_it_holds_recipe_parents_hashes_and_versions(out, two):
    import hashlib

    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["smelt"] == smelt.__version__
    assert manifest["stages"] == ["ties"]
    assert manifest["recipe"]["pool"]["models"]["cars"] == str(two[1])
    assert manifest["recipe_hash"] == smelt.Recipe.parse(manifest["recipe"]).hash
    digest = hashlib.sha256((two[1] / "model.safetensors").read_bytes()).hexdigest()
    assert manifest["parents"]["cars"]["files"] == {"model.safetensors": digest}
    assert set(manifest["parents"]) == {"base", "cars", "birds"}


def test_files_stand_in_order_whatever_the_order_they_came_in():
    one, two = {"a": ("1", 1), "b": ("2", 2)}, {"b": ("2", 2), "a": ("1", 1)}
    assert encode_manifest({}, one) == encode_manifest({}, two)
