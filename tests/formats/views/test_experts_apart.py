"""Experts one by one and experts in one tensor per layer are the same model under the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

import smelt
from smelt.formats.open import open_path
from smelt.formats.source import read_whole
from tiny_experts import KINDS, logits, made, mean, saved, saved_as_module

APART = [kind for kind in KINDS if kind not in ("GptOss", "Llama4")]
MATRIX: dict[str, Any] = {
    "ties": ("ties", {"density": 0.5}),
    "rows": ("model_stock", {"over": "row"}),
    "tsv": ("tsv", {}),
    "iso_c": ("iso_c", {}),
    "dare": [("dare", {"density": 0.5}), ("task_arithmetic", {})],
}


def loaded(kind: str, folder: Path) -> Any:
    return getattr(transformers, f"{kind}ForCausalLM").from_pretrained(folder).eval()


@pytest.mark.parametrize("kind", APART)
def test_both_layouts_have_the_same_names_and_numbers(tmp_path: Path, kind: str) -> None:
    model = made(kind, 1)
    one = open_path(Path(saved(model, tmp_path / "files")))
    other = open_path(Path(saved_as_module(model, tmp_path / "module")))
    assert one.tensors == other.tensors
    for name in one.tensors:
        assert torch.equal(read_whole(one, name), read_whole(other, name)), name
    assert not any("gate_up" in name or "input_linear" in name for name in one.tensors)
    experts = [info.shape for name, info in one.tensors.items() if ".experts." in name]
    assert experts
    assert all(len(shape) == 2 for shape in experts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_model_is_the_one_merged_by_hand(tmp_path: Path, kind: str) -> None:
    """One parent as the library saves it, one under the module's names; the output is laid out as the first."""
    models = [made(kind, seed) for seed in (1, 2)]
    by_hand = made(kind, 0)
    by_hand.load_state_dict(mean(models))
    expected = logits(by_hand)
    files, module = saved(models[0], tmp_path / "files"), saved_as_module(models[1], tmp_path / "module")
    for number, (first, second) in enumerate([(files, module), (module, files)]):
        out = tmp_path / f"out-{number}"
        smelt.merge({"a": first, "b": second}, method="average", out=out)
        assert load_file(out / "model.safetensors").keys() == load_file(Path(first) / "model.safetensors").keys()
        assert torch.equal(logits(loaded(kind, out)), expected)
        assert smelt.verify(out).ok


@pytest.mark.parametrize("method", MATRIX)
@pytest.mark.parametrize("kind", ["Mixtral", "GraniteMoe"])
def test_methods_see_the_same_matrices_in_both_layouts(tmp_path: Path, kind: str, method: str) -> None:
    models = [made(kind, seed) for seed in (0, 1, 2)]
    results = []
    for save, place in ((saved, "files"), (saved_as_module, "module")):
        base, one, two = (save(model, tmp_path / place / str(number)) for number, model in enumerate(models))
        smelt.merge({"a": one, "b": two}, base=base, method=MATRIX[method], out=tmp_path / place / "out")
        source = open_path(tmp_path / place / "out")
        results.append({name: read_whole(source, name) for name in source.tensors})
    assert results[0].keys() == results[1].keys()
    for name, tensor in results[0].items():
        assert torch.equal(tensor, results[1][name]), name


def test_modules_in_memory_merge_as_their_files_do(tmp_path: Path) -> None:
    models = [made("Mixtral", seed) for seed in (0, 1, 2)]
    state = smelt.merge({"a": models[1], "b": models[2]}, base=models[0], method="tsv")
    assert state.keys() == models[0].state_dict().keys()
    base, one, two = (saved(model, tmp_path / str(number)) for number, model in enumerate(models))
    smelt.merge({"a": one, "b": two}, base=base, method="tsv", out=tmp_path / "out")
    merged = made("Mixtral", 0)
    merged.load_state_dict(state)
    assert torch.equal(logits(merged), logits(loaded("Mixtral", tmp_path / "out")))


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_scales_of_one_change_come_out_in_the_layout_of_the_base(tmp_path: Path, scale: float) -> None:
    from smelt.engine.pool import opened
    from smelt.engine.request import read_request
    from smelt.engine.scales import Scaled

    models = [made("Qwen3Moe", seed) for seed in (0, 1)]
    base, one = (saved_as_module(model, tmp_path / str(number)) for number, model in enumerate(models))
    recipe = read_request({"a": one}, base, ("task_arithmetic", {"scale": scale}), {"skip": "*.experts.0.*"}).recipe
    with opened(recipe.pool) as pool:
        state = Scaled(pool).at(recipe)
    key = "model.layers.0.mlp.experts.down_proj"
    first, second = (model.state_dict()[key] for model in models)
    assert torch.equal(state[key][0], first[0])
    torch.testing.assert_close(state[key][1:], (first + scale * (second - first))[1:])


def test_a_killed_run_goes_on_where_experts_share_a_tensor(tmp_path: Path) -> None:
    """The journal knows matrices, of which a stored tensor holds many."""
    from smelt.engine.sink.sink import FolderSink

    one, two = (saved_as_module(made("Olmoe", seed), tmp_path / str(seed)) for seed in (1, 2))
    smelt.merge({"a": one, "b": two}, out=tmp_path / "whole")
    done, original = 0, FolderSink.done_all

    def stopping(self: Any, items: Any) -> None:
        nonlocal done
        original(self, items)
        done += 1
        if done == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderSink, "done_all", stopping)
        with pytest.raises(Exception, match="interrupted"):
            smelt.merge({"a": one, "b": two}, out=tmp_path / "out", memory="300MB")
    again = smelt.merge({"a": one, "b": two}, out=tmp_path / "out", resume=True)
    assert again.resumed > 0
    whole, out = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "out"))
    assert whole == out


def test_a_layer_is_refused_that_is_stored_in_both_ways(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = Path(saved_as_module(made("Qwen3Moe", 1), tmp_path / "model"))
    state = load_file(folder / "model.safetensors")
    state["model.layers.0.mlp.experts.0.down_proj.weight"] = torch.zeros(8, 8)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(smelt.CorruptFile, match=r"experts\.0\.down_proj.* on its own and in .*experts\.down_proj"):
        open_path(folder)


def test_stacks_of_other_numbers_of_experts_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = Path(saved_as_module(made("Mixtral", 1), tmp_path / "model"))
    state = load_file(folder / "model.safetensors")
    key = "model.layers.1.mlp.experts.down_proj"
    state[key] = state[key][:3].contiguous()
    save_file(state, folder / "model.safetensors")
    with pytest.raises(smelt.CorruptFile, match=r": model\.layers.*\(4, 24, 8\) but .*down_proj is \(3, 8, 12\)"):
        open_path(folder)


def test_layers_and_shards_of_stacked_models(tmp_path: Path) -> None:
    """Layers taken from two models, in files that hold one tensor each."""
    one, two = (saved_as_module(made("Qwen3Moe", seed), tmp_path / str(seed)) for seed in (1, 2))
    recipe = {
        "pool": {"models": {"a": one, "b": two}},
        "merge": "passthrough",
        "slices": [{"models": {"a": [0, 2]}}, {"models": {"b": [1, 2]}}],
        "shard_size": "1KB",
    }
    smelt.merge(recipe, out=tmp_path / "out")
    assert smelt.verify(tmp_path / "out").ok
    shards = [load_file(path) for path in (tmp_path / "out").glob("*.safetensors")]
    assert len(shards) > 10
    merged = {name: tensor for shard in shards for name, tensor in shard.items()}
    key = "model.layers.{}.mlp.experts.gate_up_proj"
    assert torch.equal(merged[key.format(2)], load_file(Path(two) / "model.safetensors")[key.format(1)])
    assert loaded("Qwen3Moe", tmp_path / "out").config.num_hidden_layers == 3


def test_a_pack_comes_out_in_the_layout_of_its_base(tmp_path: Path) -> None:
    base, one = (saved(made("GraniteMoe", seed), tmp_path / str(seed)) for seed in (0, 1))
    smelt.pack(one, base=base, out=tmp_path / "pack", bits=8)
    smelt.unpack(tmp_path / "pack", out=tmp_path / "out")
    key = "model.layers.0.block_sparse_moe.input_linear.weight"
    wanted, got = (load_file(Path(folder) / "model.safetensors")[key] for folder in (one, tmp_path / "out"))
    torch.testing.assert_close(got, wanted, atol=0.02, rtol=0)
