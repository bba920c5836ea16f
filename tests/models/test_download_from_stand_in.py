"""Models of the Hub over its real client: what goes wrong on the way is one clear line, and a download goes on."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from smelt.errors import RecipeError
from smelt.formats.open import open_path
from smelt.models.download import download
from smelt.models.verified_download import WrongHash, repository_folder
from stand_in_hub.server import TOKEN, Fault

MEBIBYTE = 1 << 20


def files(value, mebibytes=0):
    tensors = {"layers.0.mlp.weight": torch.full((4, 4), float(value))}
    if mebibytes:
        tensors["large"] = torch.arange(mebibytes * MEBIBYTE // 4, dtype=torch.float32)
    return {"config.json": b"{}", "model.safetensors": save(tensors)}


def test_a_name_that_is_not_there_is_told(stand_in):
    with pytest.raises(RecipeError, match=r"^hf:nobody/nothing is not on the Hugging Face Hub \(or is private"):
        download("nobody/nothing")


def test_a_revision_that_is_not_there_is_told(stand_in):
    stand_in.contents.add_model("down/revision", files(1))
    with pytest.raises(RecipeError, match=r"^hf:down/revision@v9 has no such revision on the Hugging Face Hub$"):
        download("down/revision@v9")


def test_a_gated_repository_says_how_to_get_in(stand_in, monkeypatch):
    stand_in.contents.add_model("down/gated", files(1), gated=True)
    with pytest.raises(
        RecipeError, match=r"^hf:down/gated is gated: ask for access on its page at the Hub, then log in"
    ):
        download("down/gated")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert (download("down/gated") / "model.safetensors").is_file()


def test_a_file_with_another_hash_is_removed_and_comes_whole_the_next_time(stand_in):
    stand_in.contents.add_model("down/wrong", files(1))
    stand_in.faults["down/wrong", "model.safetensors"] = Fault(wrong_bytes=True)
    with pytest.raises(WrongHash, match=r"^down/wrong: model.safetensors did not arrive as the Hub describes it"):
        download("down/wrong")
    assert (download("down/wrong") / "model.safetensors").read_bytes() == files(1)["model.safetensors"]


def test_a_connection_that_is_cut_is_taken_up_without_a_word(stand_in, capfd):
    content = files(1, 22)
    stand_in.contents.add_model("down/cut", content)
    stand_in.faults["down/cut", "model.safetensors"] = Fault(cut_after=11 * MEBIBYTE)
    assert (download("down/cut") / "model.safetensors").read_bytes() == content["model.safetensors"]
    assert "rror" not in capfd.readouterr().err
    whole = len(content["model.safetensors"])
    assert stand_in.downloaded("down/cut") < 2 * whole, "what had arrived was not asked for again"


def test_a_connection_that_is_cut_again_and_again_ends_in_one_line(stand_in, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    stand_in.contents.add_model("down/broken", files(1, 1))
    stand_in.faults["down/broken", "model.safetensors"] = Fault(cut_after=1000, times=10_000)
    with pytest.raises(RecipeError, match=r"^hf:down/broken could not be fetched to its end: the connection broke"):
        download("down/broken")


def test_a_download_whose_process_was_killed_is_still_looked_at(stand_in):
    """It dies after the wrong file arrived and before it was hashed."""
    stand_in.contents.add_model("down/killed", {**files(1), "notes.txt": b"first"})
    download("down/killed")  # so that its folder is there
    repository = stand_in.contents.add_model("down/killed", {**files(2), "notes.txt": b"second"})
    stand_in.faults["down/killed", "model.safetensors"] = Fault(wrong_bytes=True)
    program = (
        "import os, smelt.models.verified_download as v\n"
        "v._wrong = lambda *words: os._exit(9)\n"
        "from smelt.models.download import download\n"
        "download('down/killed')\n"
    )
    assert subprocess.run([sys.executable, "-c", program], env=os.environ).returncode == 9
    with pytest.raises(WrongHash):
        download("down/killed")
    folder = download("down/killed")
    assert folder.name == repository.branches["main"]
    assert (folder / "model.safetensors").read_bytes() == files(2)["model.safetensors"]


def test_what_lies_in_the_cache_is_not_hashed_again(stand_in, monkeypatch):
    stand_in.contents.add_model("down/again", files(3))
    download("down/again")
    monkeypatch.setattr("smelt.models.verified_download._sha256", lambda path: pytest.fail(f"hashed {path}"))
    assert download("down/again").is_relative_to(Path(repository_folder("model", "down/again")))


MODULES = b"""[{"path": "%b", "type": "sentence_transformers.models.Transformer"},
 {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"""
BESIDE = {"1_Pooling/config.json": b"{}", "2_Dense/config.json": b'{"in_features": 4, "out_features": 4}'}


def pickled(value):
    sink = io.BytesIO()
    torch.save({"linear.weight": torch.full((4, 4), float(value))}, sink)
    return sink.getvalue()


def test_weights_of_modules_come_along(stand_in):
    dense = save({"linear.weight": torch.ones(4, 4)})
    content = {**files(1), **BESIDE, "modules.json": MODULES % b"", "2_Dense/model.safetensors": dense}
    stand_in.contents.add_model("down/modules", content)
    assert "2_Dense.linear.weight" in open_path(download("down/modules")).tensors


def test_weights_in_an_older_layout_come_along(stand_in):
    dense = save({"linear.weight": torch.ones(4, 4)})
    inner = {f"0_Transformer/{name}": content for name, content in files(1).items()}
    content = {**inner, **BESIDE, "modules.json": MODULES % b"0_Transformer", "2_Dense/model.safetensors": dense}
    stand_in.contents.add_model("down/older", content)
    found = open_path(download("down/older")).tensors
    assert found.keys() == {"layers.0.mlp.weight", "2_Dense.linear.weight"}


def test_a_module_with_a_pickle_alone_needs_a_word(stand_in):
    content = {**files(1), **BESIDE, "modules.json": MODULES % b"", "2_Dense/pytorch_model.bin": pickled(3)}
    stand_in.contents.add_model("down/half", content)
    with pytest.raises(
        RecipeError, match=r"holds modules with no safetensors, only pickles \(2_Dense/pytorch_model.bin\)"
    ):
        download("down/half")
    found = open_path(download("down/half", allow_pickle=True), allow_pickle=True)
    assert "2_Dense.linear.weight" in found.tensors
