"""What may come into a hub: everything that is not plain weights and known texts is refused, by name."""

import json
import os
import pickle
import shutil

import pytest
import torch

from pico_clip import colour_clip, random_clip, save_clip
from pico_hub import model, new_hub, pixels
from smelt.engine.convert.pack import pack
from smelt.errors import CorruptFile, RecipeError, SmeltError


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with new_hub(tmp_path_factory.mktemp("intake") / "hub", embedder="hashed") as hub:
        yield hub


def refused(hub, folder, kind=SmeltError):
    with pytest.raises(kind) as error:
        hub.add(folder, name="sent", label=False)
    assert (hub.models(), list(hub.folder.glob("staging/*")), list(hub.folder.glob("files/??/*"))) == ([], [], [])
    return str(error.value)


def test_a_pickle_is_refused_and_not_opened(hub, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    folder = model(tmp_path / "x")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    assert "pytorch_model.bin is a pickle" in refused(hub, folder, RecipeError)
    (folder / "pytorch_model.bin").rename(folder / "more.safetensors")
    assert "more.safetensors" in refused(hub, folder, CorruptFile)
    assert not (tmp_path / "sprung").exists()


def test_every_fault_is_named_at_once(hub, tmp_path):
    folder = model(tmp_path / "x", modeling__py="print()")
    (folder / "tokenizer").mkdir()
    (folder / "secret").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    message = refused(hub, folder, RecipeError)
    for part in (
        "modeling.py is of a kind",
        "tokenizer/ is a folder",
        "secret is a symbolic link",
        "pipe is not a plain",
    ):
        assert part in message


def test_a_link_under_an_allowed_name_is_refused(hub, tmp_path):
    folder = model(tmp_path / "x")
    (folder / "README.md").symlink_to(tmp_path / "elsewhere")
    assert "README.md is a symbolic link" in refused(hub, folder)


def test_an_index_cannot_name_files_elsewhere(hub, tmp_path):
    other, folder = model(tmp_path / "other"), model(tmp_path / "x")
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    places = {"weight_map": dict.fromkeys(["logit_scale"], "../other/model.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(places))
    assert "'../other/model.safetensors', which is not among" in refused(hub, folder, CorruptFile)
    assert other.exists()


def test_code_of_its_own_is_refused(hub, tmp_path):
    folder = model(tmp_path / "x")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "auto_map": {"AutoTokenizer": ["x.X", None]}}))
    assert "auto_map" in refused(hub, folder, RecipeError)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", b"{", "config.json: not readable as JSON"),
        ("README.md", b"\xff\xfe\x00", "README.md: is not text"),
        ("model.safetensors", b"\x00" * 40, "model.safetensors"),
        ("model.safetensors", (1 << 60).to_bytes(8, "little") + b"{}", "model.safetensors"),
        ("config.json", b"[" * 100_000, "config.json: not readable as JSON"),
        ("tokenizer.json", b"{}", ""),
        ("config.json", b'{"model_type": "bert"}', ""),
    ],
)
def test_malformed_files_are_refused(hub, tmp_path, name, content, words):
    folder = model(tmp_path / "x")
    (folder / name).write_bytes(content)
    assert words in refused(hub, folder)


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json"])
def test_a_model_with_a_part_missing_is_refused(hub, tmp_path, gone):
    folder = model(tmp_path / "x")
    (folder / gone).unlink()
    refused(hub, folder)


def test_a_model_over_the_limit_is_refused(hub, tmp_path):
    folder = model(tmp_path / "x")
    with pytest.raises(RecipeError, match="a model may have 1,000"):
        hub.add(folder, limit=1000)


def test_a_file_that_grows_while_it_is_read_is_refused(hub, tmp_path, monkeypatch):
    folder = model(tmp_path / "x")
    size = sum(path.stat().st_size for path in folder.iterdir())
    real = os.open

    def growing(path, *rest, **words):
        if str(path).endswith("x/model.safetensors"):
            with open(path, "ab") as file:
                file.write(b"x" * size)
        return real(path, *rest, **words)

    monkeypatch.setattr("smelt.files.content_store.os.open", growing)
    with pytest.raises(CorruptFile, match=r"model\.safetensors: is larger than"):
        hub.add(folder, limit=size)


@pytest.mark.parametrize("ref", ["nowhere", "zoo:nothing-like-that"])
def test_a_reference_that_leads_nowhere_is_refused(hub, ref):
    assert ref.removeprefix("zoo:") in refused(hub, ref, RecipeError)


def packed(tmp_path):
    """A model as a change of a base, and the base."""
    base = save_clip(random_clip(0), tmp_path / "base")
    tuned = random_clip(0)
    with torch.no_grad():
        tuned.vision_model.encoder.layers[0].mlp.fc1.weight.add_(0.1)
    save_clip(tuned, tmp_path / "tuned")
    pack(str(tmp_path / "tuned"), base=str(base), out=tmp_path / "sent", bits=8)
    return base, tmp_path / "sent"


def test_a_pack_needs_its_base_in_the_hub_and_keeps_it_there(tmp_path):
    base, sent = packed(tmp_path)
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        with pytest.raises(RecipeError, match="add the base first"):
            hub.add(sent)
        hub.add(base, label=False)
        shutil.rmtree(base)  # the path that the pack names is not followed
        card = hub.add(sent)
        assert (card.base, card.label) == ("hub:base", True)
        with pytest.raises(RecipeError, match="base of sent"):
            hub.remove("base")
        moved = hub.folder.rename(tmp_path / "moved")
    from smelt.hub.hub import Hub

    with Hub.open(moved) as hub:
        assert len(hub.predict([pixels("red")], ["red", "blue"], captions=["red", "blue"]).names) == 1
        hub.remove("sent")
        hub.remove("base")
        assert hub.models() == []


def test_a_pack_cannot_lead_to_another_model_of_the_machine(tmp_path):
    base, sent = packed(tmp_path)
    other = save_clip(colour_clip(), tmp_path / "private")
    note = json.loads((sent / "delta.json").read_text())
    note["base"]["ref"] = str(other)
    (sent / "delta.json").write_text(json.dumps(note))
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        hub.add(base, label=False)
        assert hub.add(sent, label=False).base == "hub:base"
