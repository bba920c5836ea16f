"""One change gives every scale: what is held, and that a pass over it is the merge itself, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from smelt.engine.merge import Options, merge_to_memory, plan_to_memory, planned
from smelt.engine.request import read_request
from smelt.engine.run.cpu import backend
from smelt.engine.scales import Change, at_scale, change_plan, stretched_plan

BASE = {"w": torch.tensor([1.0, 10.0, -4.0, 0.5]), "steps": torch.tensor([7])}
MODELS = {
    "red": {"w": torch.tensor([3.0, 10.0, -4.0, 0.0]), "steps": torch.tensor([8])},
    "green": {"w": torch.tensor([2.0, 8.0, -4.0, 1.0]), "steps": torch.tensor([9])},
}
OPTIONS = Options(threads=1)


def ask(method: Any, **words: Any) -> Any:
    return read_request(MODELS, BASE, method, words)


def test_the_change_is_what_the_method_gives_at_scale_1_whatever_the_recipe_says() -> None:
    recipe, _, pool = ask("task_arithmetic", scale=0.25)
    with planned(recipe, pool=pool) as ready:
        made = plan_to_memory(change_plan(ready.plan), OPTIONS)
    assert {name: one.tolist() for name, one in made.items()} == {"w": [3.0, -2.0, 0.0, 0.0]}  # integers are copied


def test_a_scale_is_the_base_and_so_many_times_the_change() -> None:
    recipe, _, pool = ask("task_arithmetic")
    with planned(at_scale(recipe, 1.0), pool=pool) as ready:
        change = Change.of(ready.plan, OPTIONS, memory=1 << 20)
    for scale, wanted in {
        0.0: [1.0, 10.0, -4.0, 0.5],
        0.5: [2.5, 9.0, -4.0, 0.5],
        -1.0: [-2.0, 12.0, -4.0, 0.5],
    }.items():
        with planned(at_scale(recipe, scale), pool=pool) as ready:
            state = change.at(ready.plan, OPTIONS)
        assert state["w"].tolist() == wanted
        assert state["steps"].tolist() == [7]


def test_the_change_keeps_what_a_sum_with_the_base_would_lose() -> None:
    """2^-30 beside 1024 is nothing in float32; at scale 2^20 it is 2^-10, which is something."""
    base, tuned = {"w": torch.tensor([0.0, 1024.0])}, {"w": torch.tensor([2.0**-30, 1024.0 + 2.0**-13])}
    recipe, _, pool = read_request({"tuned": tuned}, base, "task_arithmetic", {"scale": 2.0**-12})
    with planned(recipe, pool=pool) as ready:
        change = plan_to_memory(change_plan(ready.plan), OPTIONS)["w"]
    assert change.tolist() == [2.0**-30, 2.0**-13]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", ["task_arithmetic", [("dare", {"density": 0.5}), ("ties", {"density": 0.4})], "tsv"])
def test_every_scale_has_the_bits_of_its_own_merge(
    method: Any, dtype: torch.dtype, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fused:
        monkeypatch.setattr(backend, "library", lambda: None)
    torch.manual_seed(1)
    base = {"up_proj.weight": torch.randn(64, 96).to(dtype), "norm.weight": torch.randn(96).to(dtype)}
    models = {
        name: {key: (one.float() + 0.02 * torch.randn_like(one.float())).to(dtype) for key, one in base.items()}
        for name in ("red", "green", "blue")
    }
    recipe, _, pool = read_request(models, base, method)
    with planned(recipe, pool=pool) as ready:
        change = Change.of(ready.plan, OPTIONS, memory=1 << 20)
    for scale in (0.0, 0.1, 0.3, 0.7, 1.0, 1.9, -0.4):
        with planned(at_scale(recipe, scale), pool=pool) as ready:
            direct, held = merge_to_memory(ready, OPTIONS), change.at(ready.plan, OPTIONS)
        assert list(held) == list(direct)
        for key, tensor in direct.items():
            assert held[key].dtype == tensor.dtype == dtype
            assert torch.equal(held[key], tensor), (key, scale)


def test_a_scale_that_differs_by_tensor_is_one_pass_too() -> None:
    scales = [{"filter": "w", "value": 0.5}, {"value": 1.0}]
    recipe, _, pool = ask("task_arithmetic", scale=scales)
    with planned(recipe, pool=pool) as ready:
        change = Change.of(ready.plan, OPTIONS, memory=1 << 20)
        assert torch.equal(change.at(ready.plan, OPTIONS)["w"], merge_to_memory(ready, OPTIONS)["w"])
        assert change.at(ready.plan, OPTIONS)["w"].tolist() == [2.5, 9.0, -4.0, 0.5]


def test_a_pass_reads_the_base_and_the_change_and_nothing_else() -> None:
    recipe, _, pool = ask("ties")
    with planned(recipe, pool=pool) as ready:
        change = Change.of(ready.plan, OPTIONS, memory=1 << 20)
        (item,) = stretched_plan(ready.plan, change.source).items
    assert [tap.source for tap in item.all_taps] == [change.source, pool.base]
    assert item.bytes_in == 4 * 4 + 4 * 4


def test_a_change_that_does_not_fit_lies_in_a_file_without_a_name(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    recipe, _, pool = ask("task_arithmetic", scale=0.5)
    with planned(recipe, pool=pool) as ready:
        inside, outside = (Change.of(ready.plan, OPTIONS, memory=memory) for memory in (16, 15))
        assert inside.nbytes == outside.nbytes == 16 + 8  # four floats, and one integer that is copied
        assert torch.equal(inside.at(ready.plan, OPTIONS)["w"], outside.at(ready.plan, OPTIONS)["w"])
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_an_error_and_not_a_signal(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    recipe, _, pool = ask("task_arithmetic")
    with planned(recipe, pool=pool) as ready, pytest.raises(OSError, match="No space left"):
        Change.of(ready.plan, OPTIONS, memory=0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_copied_is_shared_by_all_scales_and_tied_names_stay_one_tensor() -> None:
    shared, moved = torch.ones(2, 2), torch.full((2, 2), 3.0)
    base = {"model.embed_tokens.weight": shared, "lm_head.weight": shared, "n": torch.tensor([1])}
    tuned = {"model.embed_tokens.weight": moved, "lm_head.weight": moved, "n": torch.tensor([1])}
    recipe, _, pool = read_request({"tuned": tuned}, base, "task_arithmetic", {"scale": 0.5})
    with planned(recipe, pool=pool) as ready:
        change = Change.of(ready.plan, OPTIONS, memory=1 << 20)
        first, second = (change.at(ready.plan, OPTIONS) for _ in range(2))
    assert first["lm_head.weight"] is first["model.embed_tokens.weight"]
    assert first["lm_head.weight"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert first["n"] is second["n"]
    assert first["lm_head.weight"] is not second["lm_head.weight"]
