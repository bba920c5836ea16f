"""Two runs may hold the same experts in another order: matched first, they merge as if they did not."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from smelt.engine.plan.expert_matching import best_order
from smelt.formats.architecture.expert_layers import expert_layers
from smelt.formats.open import open_path
from tiny_experts import KINDS, logits, made, permuted, saved

ORDER = [2, 3, 1, 0]  # groups of two stay together, as DeepSeek's router needs


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def blocks(folder: str | Path) -> list[str]:
    source = open_path(Path(folder))
    return [layer.name for layer in expert_layers(source.tensors)]


def orders(folder: str) -> dict[str, list[int]]:
    return {block: ORDER if number % 2 == 0 else [1, 0, 3, 2] for number, block in enumerate(blocks(folder))}


APART = [kind for kind in KINDS if kind != "GraniteMoe"]


@pytest.mark.parametrize("kind", APART)
def test_permuted_experts_compute_the_same(tmp_path: Path, kind: str) -> None:
    """The premise, against transformers: whatever the order, the same logits (up to the order of a sum)."""
    model = made(kind, 1)
    one = saved(model, tmp_path / "one")
    other = type(model).from_pretrained(permuted(Path(one), tmp_path / "other", orders(one))).eval()  # type: ignore[attr-defined]
    torch.testing.assert_close(logits(other), logits(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", APART)
def test_a_model_with_permuted_experts_merges_back_to_itself(tmp_path: Path, kind: str) -> None:
    one = saved(made(kind, 1), tmp_path / "one")
    other = permuted(Path(one), tmp_path / "other", orders(one))
    summary = smelt.merge({"one": one, "other": other}, align_experts=True, out=tmp_path / "out")
    merged = weights(tmp_path / "out")
    for name, tensor in weights(one).items():
        assert torch.equal(merged[name], tensor), name
    note = next(note for note in summary.notes if "matched" in note)
    assert f"4 of 4 in {blocks(one)[0]}" in note
    assert note in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize("method", ["ties", "tsv", "dare"])
@pytest.mark.parametrize("kind", ["Qwen2Moe", "DeepseekV3", "GptOss"])
def test_permuted_fine_tunes_merge_as_those_in_order_do(tmp_path: Path, kind: str, method: str) -> None:
    base = saved(made(kind, 0), tmp_path / "base")
    folders = []
    for seed in (1, 2):
        state = {
            name: tensor + 0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))
            for name, tensor in weights(base).items()
        }
        saved(made(kind, 0), tmp_path / str(seed))
        save_file(state, tmp_path / str(seed) / "model.safetensors", {"format": "pt"})
        folders.append(str(tmp_path / str(seed)))
    other = permuted(Path(folders[1]), tmp_path / "other", orders(base))
    calls: Any = [(method, {"density": 0.5}), ("task_arithmetic", {})] if method == "dare" else method
    smelt.merge({"a": folders[0], "b": folders[1]}, base=base, method=calls, out=tmp_path / "in-order")
    smelt.merge({"a": folders[0], "b": other}, base=base, method=calls, align_experts=True, out=tmp_path / "matched")
    expected, got = weights(tmp_path / "in-order"), weights(tmp_path / "matched")
    for name, tensor in expected.items():
        assert torch.equal(got[name], tensor), name


@pytest.mark.parametrize("kind", ["DeepseekV2", "DeepseekV3", "Qwen3Moe", "GptOss"])
def test_a_matched_model_computes_what_it_did(tmp_path: Path, kind: str) -> None:
    """Experts changed places across DeepSeek's groups, so another model: it may not be put back into the old order."""
    one = saved(made(kind, 1), tmp_path / "one")
    other = permuted(Path(one), tmp_path / "other", {block: [1, 2, 3, 0] for block in blocks(one)})
    words: Any = {"method": ("average", {"weights": {"one": 0, "other": 1}}), "align_experts": True}
    smelt.merge({"one": one, "other": other}, out=tmp_path / "out", **words)
    before, after = (type(made(kind, 1)).from_pretrained(path).eval() for path in (other, tmp_path / "out"))  # type: ignore[attr-defined]
    torch.testing.assert_close(logits(after), logits(before), rtol=1e-4, atol=1e-5)


def test_stacked_experts_are_matched_too(tmp_path: Path) -> None:
    """Granite's: a stack is read in another order."""
    one = saved(made("GraniteMoe", 1), tmp_path / "one")
    saved(made("GraniteMoe", 1), tmp_path / "other")
    state = {name: tensor[ORDER].contiguous() if "moe" in name else tensor for name, tensor in weights(one).items()}
    save_file(state, tmp_path / "other/model.safetensors", {"format": "pt"})
    smelt.merge({"one": one, "other": str(tmp_path / "other")}, align_experts=True, out=tmp_path / "out")
    for name, tensor in weights(one).items():
        assert torch.equal(weights(tmp_path / "out")[name], tensor), name


def test_without_it_experts_merge_with_strangers(tmp_path: Path) -> None:
    one = saved(made("Mixtral", 1), tmp_path / "one")
    other = permuted(Path(one), tmp_path / "other", orders(one))
    smelt.merge({"one": one, "other": other}, out=tmp_path / "out")
    name = "model.layers.0.block_sparse_moe.experts.0.w1.weight"
    assert not torch.allclose(weights(tmp_path / "out")[name], weights(one)[name])


def test_a_plan_reads_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.engine.plan import expert_matching

    one, two = (saved(made("Mixtral", seed), tmp_path / str(seed)) for seed in (1, 2))
    monkeypatch.setattr(expert_matching, "_read", None)
    report = smelt.plan([one, two], align_experts=True)
    assert any("matched with those of 1 before the merge" in note for note in report.notes)


def test_experts_are_compared_in_runs_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by the length of the runs, and the order does not depend on it."""
    from smelt.engine.plan import expert_matching

    one = saved(made("Mixtral", 1), tmp_path / "one")
    other = permuted(Path(one), tmp_path / "other", orders(one))
    monkeypatch.setattr(expert_matching, "_AT_ONCE", 28)  # 7 numbers of each of 4 experts
    merged = smelt.merge([one, other], align_experts=True)
    for name, tensor in weights(one).items():
        assert torch.equal(merged[name], tensor), name


def test_the_cheapest_assignment_wins() -> None:
    """By hand: rows take columns 1, 2, 0 at 1 + 1 + 2; the greedy choice would be dearer."""
    costs = np.array([[9.0, 1.0, 2.0], [9.0, 8.0, 1.0], [2.0, 1.0, 9.0]])
    assert best_order(costs) == [1, 2, 0]


def test_equal_costs_leave_experts_in_place() -> None:
    assert best_order(np.ones((4, 4))) == [0, 1, 2, 3]


def test_groups_stay_together() -> None:
    """Experts 0 and 1 are best served by 2 and 0, which are of two groups: only whole groups change places."""
    costs = np.full((4, 4), 5.0)
    costs[0, 2] = costs[1, 0] = costs[2, 3] = costs[3, 1] = 0.0
    assert best_order(costs) == [2, 0, 3, 1]
    order = best_order(costs, groups=2)
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 1}), frozenset({2, 3})}
    # two groups in place serve 1 by 0 and 2 by 3; changed places, they serve 0 by 2 and 3 by 1: 10 either way
    assert sum(costs[row, column] for row, column in enumerate(order)) == 10.0


def test_what_cannot_follow_its_expert_is_refused_by_name(tmp_path: Path) -> None:
    one = saved(made("Mixtral", 1), tmp_path / "one")
    other = saved(made("Mixtral", 2), tmp_path / "other")
    for folder in (one, other):
        state = weights(folder) | {"model.layers.0.block_sparse_moe.strange.weight": torch.ones(4, 4)}
        save_file(state, Path(folder) / "model.safetensors", {"format": "pt"})
    with pytest.raises(smelt.IncompatibleModels, match=r"strange\.weight.* neither expert, shared expert nor router"):
        smelt.merge({"one": one, "other": other}, align_experts=True)


def test_a_router_stored_the_other_way_is_refused(tmp_path: Path) -> None:
    """[width, experts]: its rows are no experts, even where the width is a multiple of their number."""
    folders = [saved(made("Qwen3Moe", seed), tmp_path / str(seed)) for seed in (1, 2)]
    for folder in folders:
        state = weights(folder)
        state["model.layers.0.mlp.gate.weight"] = torch.ones(8, 4)
        save_file(state, Path(folder) / "model.safetensors", {"format": "pt"})
    with pytest.raises(smelt.IncompatibleModels, match=r"gate\.weight' is \(8, 4\), and no axis"):
        smelt.merge(folders, align_experts=True)


def test_blocks_of_experts_below_one_another_follow_too() -> None:
    """DBRX: four experts of three rows each in one matrix."""
    draw = torch.Generator().manual_seed(0)
    ffn = "transformer.blocks.0.ffn"
    names = {
        **{f"{ffn}.experts.mlp.{one}": (12, 5) for one in ("w1", "v1", "w2")},
        f"{ffn}.router.layer.weight": (4, 5),
    }
    state = {name: torch.randn(shape, generator=draw) for name, shape in names.items()}
    moved = {name: tensor.view(4, -1, 5)[ORDER].reshape(tensor.shape) for name, tensor in state.items()}
    merged = smelt.merge({"a": state, "b": moved}, align_experts=True)
    for name, tensor in state.items():
        assert torch.equal(merged[name], tensor), name


def test_dense_models_have_nothing_to_match() -> None:
    with pytest.raises(smelt.RecipeError, match="no layer with experts"):
        smelt.merge({"a": {"w": torch.ones(2, 2)}, "b": {"w": torch.ones(2, 2)}}, align_experts=True)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *words: Any, **more: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *words, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(smelt.SmeltError, match=r"pip install 'smelt\[experts\]'"):
        best_order(np.eye(3))
