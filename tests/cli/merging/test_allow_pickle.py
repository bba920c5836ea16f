"""Every command that opens models refuses pickles, says what to write, and reads them when it is written."""

import pytest
import torch
from safetensors.torch import load_file

from checkpoints import write_yaml
from pico_clip import colour_clip, save_clip, write_task

COMMANDS = {
    "merge": ["merge", "--base", "base", "--model", "tuned", "-o", "out"],
    "plan": ["plan", "--base", "base", "--model", "tuned"],
    "models": ["models", "--base", "base", "--model", "tuned"],
    "pack": ["pack", "tuned", "--base", "base", "-o", "out"],
    "unpack": ["unpack", "tuned", "-o", "out"],
    "eval": ["eval", "tuned", "--tasks", "colours"],
    "eval with another's text": ["eval", "tower", "--text-from", "base", "--tasks", "colours"],
    "cosine": ["analyse", "cosine", "--base", "base", "--model", "tuned"],
    "norms": ["analyse", "norms", "pool.yaml"],
    "signs": ["analyse", "signs", "--base", "base", "--model", "tuned"],
    "scales": "analyse scales -m task_arithmetic --base base --model tuned --scales 1 --tasks colours".split(),
    "path": "analyse path base tuned --points 2 --tasks colours".split(),
}


@pytest.fixture
def pickles(tmp_path, monkeypatch):
    """Two CLIP models as pickles, a picture tower beside them as safetensors, and a task."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("base", "tuned")):
        folder = save_clip(colour_clip(), tmp_path / name)
        weights = {key: tensor + number / 100 for key, tensor in load_file(folder / "model.safetensors").items()}
        (folder / "model.safetensors").unlink()
        torch.save(weights, folder / "pytorch_model.bin")
    colour_clip().vision_model.save_pretrained(tmp_path / "tower")
    write_task(tmp_path / "colours")
    write_yaml(tmp_path / "pool.yaml", {"base": "base", "models": ["tuned"]})


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_pickles_are_read_when_the_flag_is_given_and_only_then(cli, pickles, words):
    refused = cli(*words)
    assert refused.code == 2
    assert "--allow-pickle" in refused.err
    done = cli(*words, "--allow-pickle")
    assert done.code == 0, done.err
