"""Pipelines of diffusers come out as pipelines of diffusers, and draw what weights merged by hand draw."""

import json

import pytest
import torch
from diffusers import DiffusionPipeline
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import snapshot
from pipelines import KINDS, component_states, picture, read_json, write_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two pipelines of every kind, by kind."""
    root = tmp_path_factory.mktemp("pipelines")
    return {
        kind: [write_pipeline(kind, seed, root / f"{kind}-{name}") for seed, name in enumerate(("first", "second"))]
        for kind in KINDS
    }


def by_hand(folders, alone=("vae",)):
    """The mean of every component in float32; those `alone` are the first's."""
    first, second = (component_states(folder) for folder in folders)
    return {
        name: {
            key: tensor if name in alone or not tensor.is_floating_point() else (tensor + second[name][key]) / 2
            for key, tensor in state.items()
        }
        for name, state in first.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_pipeline_draws_what_weights_merged_by_hand_draw(two, tmp_path, kind):
    summary = smelt.merge(two[kind], out=tmp_path / "out", method="average")
    wanted, made = by_hand(two[kind]), component_states(tmp_path / "out")
    assert {name: set(state) for name, state in made.items()} == {name: set(state) for name, state in wanted.items()}
    assert all(torch.equal(made[name][key], wanted[name][key]) for name in wanted for key in wanted[name])
    merged, hand, second = (
        DiffusionPipeline.from_pretrained(folder) for folder in (tmp_path / "out", two[kind][0], two[kind][1])
    )
    for name, state in wanted.items():
        getattr(hand, name).load_state_dict(state, strict=False)
    assert torch.equal(picture(merged, kind), picture(hand, kind))
    assert not torch.equal(picture(merged, kind), picture(second, kind))
    assert any(
        note.startswith(f"{len(wanted['vae'])} tensors are copied from {kind}-first (the VAE") for note in summary.notes
    )
    assert smelt.verify(tmp_path / "out").ok


def test_the_files_of_a_pipeline_are_those_that_diffusers_writes(two, tmp_path):
    smelt.merge(two["flux"], out=tmp_path / "out", method="average")
    made, given = snapshot(tmp_path / "out"), snapshot(two["flux"][0])
    assert made.keys() == given.keys() | {"README.md", "manifest.json"}
    weights = {name for name in given if name.endswith(".safetensors")}
    assert weights == {
        "text_encoder/model.safetensors", "text_encoder_2/model.safetensors",
        "transformer/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors",
    }  # fmt: skip
    for name in given.keys() - weights:
        same = read_json(tmp_path / "out" / name) if name.endswith(".json") else made[name]
        assert same == (read_json(two["flux"][0] / name) if name.endswith(".json") else given[name]), name


def test_the_vae_is_that_of_the_base_bit_for_bit(two, tmp_path):
    smelt.merge(two["sd15"][1:], base=two["sd15"][0], out=tmp_path / "out", method="task_arithmetic")
    place = "vae/diffusion_pytorch_model.safetensors"
    made, base = load_file(tmp_path / "out" / place), load_file(two["sd15"][0] / place)
    assert all(torch.equal(made[name], base[name]) for name in base)


@pytest.mark.parametrize("words", [{"include": "*"}, {"parts": [{"keys": "vae.*"}]}])
def test_a_recipe_that_names_the_vae_merges_it(two, tmp_path, words):
    smelt.merge(two["sd15"], out=tmp_path / "out", method="average", **words)
    wanted, made = by_hand(two["sd15"], alone=()), component_states(tmp_path / "out")
    assert all(torch.equal(made["vae"][key], tensor) for key, tensor in wanted["vae"].items())


def test_a_component_follows_its_own_rule(two, tmp_path):
    parts = [{"keys": "text_encoder.*", "merge": {"average": {"weights": [0, 1]}}}]
    smelt.merge(two["sd15"], out=tmp_path / "out", method="average", parts=parts, skip="unet.conv_in.*")
    first, second = (component_states(folder) for folder in two["sd15"])
    made = component_states(tmp_path / "out")
    assert all(torch.equal(made["text_encoder"][key], second["text_encoder"][key]) for key in second["text_encoder"])
    assert torch.equal(made["unet"]["conv_in.weight"], first["unet"]["conv_in.weight"])


def test_large_components_are_sharded_each_with_its_own_index(two, tmp_path):
    smelt.merge(two["flux"], out=tmp_path / "out", method="average", shard_size="20KB")
    index = read_json(tmp_path / "out" / "transformer" / "diffusion_pytorch_model.safetensors.index.json")
    names = set(index["weight_map"].values())
    assert names == {p.name for p in (tmp_path / "out" / "transformer").glob("*.safetensors")}
    assert len(names) > 1
    assert (tmp_path / "out" / "text_encoder" / "model.safetensors").is_file()
    smelt.merge(two["flux"], out=tmp_path / "whole", method="average")
    one, other = (DiffusionPipeline.from_pretrained(tmp_path / name) for name in ("out", "whole"))
    assert torch.equal(picture(one, "flux"), picture(other, "flux"))
    smelt.merge([tmp_path / "out", two["flux"][0]], out=tmp_path / "again", method="average")  # it is read again too
    assert smelt.verify(tmp_path / "again").ok


def test_the_config_of_each_component_says_the_dtype_of_its_numbers(two, tmp_path):
    smelt.merge(two["sd15"], out=tmp_path / "out", method="average", dtype="bfloat16")
    assert read_json(tmp_path / "out" / "text_encoder" / "config.json")["dtype"] == "bfloat16"
    assert "dtype" not in read_json(tmp_path / "out" / "unet" / "config.json")
    loaded = DiffusionPipeline.from_pretrained(tmp_path / "out", torch_dtype=torch.bfloat16)
    assert loaded.unet.dtype == torch.bfloat16


def test_memory_output_is_the_same_numbers_under_prefixed_names(two, tmp_path):
    state = smelt.merge(two["sd3"], method="average")
    smelt.merge(two["sd3"], out=tmp_path / "out", method="average")
    for name, tensors in component_states(tmp_path / "out").items():
        for key, tensor in tensors.items():
            assert torch.equal(state[f"{name}.{key}"], tensor)


def test_the_plan_says_what_becomes_of_the_vae_and_where_files_go(two):
    plan = smelt.plan(two["sd15"], method="average")
    assert any(
        "the VAE, which says what latents mean; `include` or `parts` with 'vae.*' merges it" in n for n in plan.notes
    )
    assert plan.shards == [
        "text_encoder/model.safetensors", "unet/diffusion_pytorch_model.safetensors",
        "vae/diffusion_pytorch_model.safetensors",
    ]  # fmt: skip


def test_a_run_that_was_stopped_continues_with_the_same_bytes(two, tmp_path, monkeypatch):
    from smelt.engine.sink.sink import FolderSink
    from smelt.errors import OutputError

    smelt.merge(two["sd15"], out=tmp_path / "whole", method="average")
    done = FolderSink.done_all

    def stop(self, items):
        done(self, items)
        raise KeyboardInterrupt

    monkeypatch.setattr(FolderSink, "done_all", stop)
    with pytest.raises(OutputError, match="interrupted"):
        smelt.merge(two["sd15"], out=tmp_path / "out", method="average")
    monkeypatch.undo()
    summary = smelt.merge(two["sd15"], out=tmp_path / "out", method="average", resume=True)
    assert summary.resumed > 0
    ours, theirs = snapshot(tmp_path / "out"), snapshot(tmp_path / "whole")
    assert {n: c for n, c in ours.items() if n != "README.md" and n != "manifest.json"} == {
        n: c for n, c in theirs.items() if n != "README.md" and n != "manifest.json"
    }
    again = smelt.merge(two["sd15"], out=tmp_path / "out", method="average", resume=True)
    assert "was finished already" in " ".join(again.notes)


def test_a_parent_changed_after_it_was_made_is_named(two, tmp_path):
    smelt.merge(two["sd15"], out=tmp_path / "out", method="average")
    place = tmp_path / "out" / "unet" / "diffusion_pytorch_model.safetensors"
    changed = {name: tensor + 1 for name, tensor in load_file(place).items()}
    save_file(changed, place)
    summary = smelt.merge([tmp_path / "out", two["sd15"][0]], out=tmp_path / "again", method="average")
    assert any("diffusion_pytorch_model.safetensors is not what the manifest" in note for note in summary.notes)


def test_a_pack_of_a_pipeline_unpacks_to_a_pipeline(two, tmp_path):
    smelt.pack(two["sd15"][1], base=two["sd15"][0], out=tmp_path / "pack", bits=8)
    smelt.unpack(tmp_path / "pack", out=tmp_path / "out")
    assert DiffusionPipeline.from_pretrained(tmp_path / "out").unet is not None
    index = json.loads((tmp_path / "out" / "model_index.json").read_text())
    assert index == read_json(two["sd15"][0] / "model_index.json")
