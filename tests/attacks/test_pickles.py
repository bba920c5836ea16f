"""A pickle can run code when it is opened: it is refused, and where it is allowed it is read as tensors only."""

import os
import pickle

import pytest
import torch

import smelt
from checkpoints import state
from smelt.errors import CorruptFile, SmeltError


@pytest.fixture
def pickled(two):
    """birds as a PyTorch pickle instead of safetensors."""
    _base, cars, birds = two
    (birds / "model.safetensors").unlink()
    torch.save(state(3.0), birds / "pytorch_model.bin")
    return {"cars": cars, "birds": birds}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.pkl"])
def test_a_pickle_is_refused_and_the_way_out_is_told(pickled, tmp_path, name):
    (pickled["birds"] / "pytorch_model.bin").rename(pickled["birds"] / name)
    with pytest.raises(SmeltError, match=f"{name}.*safetensors.*allow_pickle=True") as caught:
        smelt.merge(pickled, out=tmp_path / "out")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_pickle_given_as_a_file_is_refused(pickled, tmp_path):
    with pytest.raises(SmeltError, match=r"pytorch_model\.bin.*allow_pickle"):
        smelt.merge({**pickled, "birds": pickled["birds"] / "pytorch_model.bin"}, out=tmp_path / "out")


def test_where_it_is_allowed_it_is_read(pickled, tmp_path):
    merged = smelt.merge(pickled, allow_pickle=True)
    assert merged["embed.weight"][0, 0] == 2
    assert smelt.merge(pickled, allow_pickle=True, out=tmp_path / "out").tensors == 6
    assert smelt.verify(tmp_path / "out").ok


def test_pickles_of_the_old_format_and_with_a_state_dict_inside_are_read(pickled):
    path = pickled["birds"] / "pytorch_model.bin"
    torch.save({"state_dict": state(3.0), "epoch": 3}, path)
    assert smelt.merge(pickled, allow_pickle=True)["embed.weight"][0, 0] == 2
    torch.save(state(3.0), path, _use_new_zipfile_serialization=False)
    assert smelt.merge(pickled, allow_pickle=True)["embed.weight"][0, 0] == 2


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("way", ["torch", "old torch", "plain", "inside"])
def test_a_malicious_pickle_is_blocked_and_does_not_run(pickled, tmp_path, way):
    path, trap = pickled["birds"] / "pytorch_model.bin", tmp_path / "trap"
    if way == "plain":
        path.write_bytes(pickle.dumps(Bomb(trap)))
    elif way == "old torch":
        torch.save(Bomb(trap), path, _use_new_zipfile_serialization=False)
    else:
        torch.save({**state(3.0), "bomb": Bomb(trap)} if way == "inside" else Bomb(trap), path)
    for allowed in (False, True):
        with pytest.raises(SmeltError, match=r"pytorch_model\.bin"):
            smelt.merge(pickled, allow_pickle=allowed, out=tmp_path / "out")
        assert not trap.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"PK\x03\x04 not a zip", pickle.dumps([1, 2]), pickle.dumps({"a": 1})]
)
def test_a_damaged_pickle_is_refused(pickled, tmp_path, content):
    (pickled["birds"] / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(SmeltError, match=r"pytorch_model\.bin"):
        smelt.merge(pickled, allow_pickle=True, out=tmp_path / "out")


def test_a_pickle_that_holds_no_table_of_tensors_is_refused(pickled, tmp_path):
    torch.save(torch.ones(3), pickled["birds"] / "pytorch_model.bin")
    with pytest.raises(SmeltError, match="does not hold a plain table of tensors"):
        smelt.merge(pickled, allow_pickle=True, out=tmp_path / "out")


def test_what_a_trainer_leaves_beside_the_weights_is_not_taken_for_weights(pickled):
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        torch.save({"state": {"step": 3}}, pickled["birds"] / name)
    assert smelt.merge(pickled, allow_pickle=True)["embed.weight"][0, 0] == 2


def test_a_missing_shard_of_pickles_is_refused(pickled, tmp_path):
    (pickled["birds"] / "pytorch_model.bin").rename(pickled["birds"] / "pytorch_model-00001-of-00002.bin")
    with pytest.raises(SmeltError, match="2 of 2"):
        smelt.merge(pickled, allow_pickle=True, out=tmp_path / "out")


def test_a_tensor_in_two_pickles_is_refused(pickled, tmp_path):
    torch.save(state(5.0), pickled["birds"] / "pytorch_model-2.bin")
    with pytest.raises(CorruptFile, match=r"embed\.weight"):
        smelt.merge(pickled, allow_pickle=True, out=tmp_path / "out")
