"""A limit of memory counts what folds hold, decides how ranks are found, and changes no byte of the result."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import smelt
from smelt.engine.plan.build import make_plan
from smelt.engine.plan.plan import Plan
from smelt.engine.pool import ModelPool
from smelt.engine.run.backends import run_limits
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.machine import library
from smelt.engine.run.work_memory import FoldRooms, model_folds
from smelt.errors import RecipeError
from smelt.formats.source import MemorySource
from smelt.ops import bracket, order
from smelt.recipe.schema import Recipe

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")

MILLION = 1 << 20


def planned(merge: Any, models: int = 3, count: int = MILLION, tensors: int = 1) -> Plan:
    """Tensors whose numbers are all the same one, which takes no memory."""
    state = {f"t{number}": torch.zeros(1).expand(count) for number in range(tensors)}
    names = [f"m{number}" for number in range(models)]
    pool = ModelPool(MemorySource("base", state), {name: MemorySource(name, state) for name in names})
    recipe = {"pool": {"base": "b", "models": dict.fromkeys(names, "x")}, "merge": merge}
    return make_plan(Recipe.parse(recipe), pool)


def test_the_number_of_a_plan_grows_by_what_is_held() -> None:
    """A bracket of 2**23 entries, whose sample has 2**16, has 5 * (2**23 / 2**8 + 2**8) = 165,120. Three models have
    three, and one is copied: 4 * 4 bytes each. Within one of eight tensors the sample of 2**15 entries is larger, and
    eight tensors may be under way for two threads.
    """
    plain, ranked = (run_limits(planned(merge, tensors=8), 2, None) for merge in ("task_arithmetic", "ties"))
    assert plain.held == 0
    assert ranked.held == 4 * 4 * 165_120
    assert ranked.peak == 2 * ranked.largest + ranked.held
    by_tensor = run_limits(planned({"ties": {"trim": "tensor"}}, tensors=8), 2, None)
    assert by_tensor.held == 8 * 4 * 4 * 32_768


def test_masks_are_held_as_bits_of_all_tensors_under_way() -> None:
    """Of 2**20 entries and three models: 393,216 bytes; for one thread four tensors may be under way."""
    drawn = planned([{"dare": {"density": 0.5, "rescale": "l1"}}, "average"], tensors=9)
    assert run_limits(drawn, 1, None).held == 4 * 3 * MILLION // 8


def test_a_limit_leaves_room_for_folds_before_it_leaves_it_for_threads() -> None:
    """Sixteen threads would leave nothing of the least limit that has room for a sample."""
    plan = planned("ties")
    one = run_limits(plan, 1, None)
    tight = run_limits(plan, 16, one.largest + 6 * MILLION)
    assert tight.threads * tight.largest + tight.held <= tight.memory
    assert tight.threads < 16
    assert tight.room >= one.held


def test_where_there_is_no_room_for_a_sample_there_is_for_histograms_and_below_that_it_is_refused() -> None:
    """Three histograms of a mebibyte each, once for the model and once for the tensor under way."""
    plan = planned("ties", count=1 << 28)
    largest = run_limits(plan, 1, None).largest
    assert run_limits(plan, 1, None).held == 4 * 4 * (1 << 21)
    assert run_limits(plan, 1, largest + 6 * MILLION).held == 6 * MILLION
    with pytest.raises(RecipeError, match=r"'t0' alone needs \d+ MB of work memory, more than the limit of \d+ MB"):
        run_limits(plan, 1, largest + 6 * MILLION - 1)


def test_a_fold_of_tensors_before_one_of_the_model_gets_half() -> None:
    folds = list(model_folds(planned(["breadcrumbs", "ties"])))
    assert [len(one.members) for one in folds] == [1]
    assert FoldRooms.of(folds, 2, 100) == FoldRooms(50, 50, 25)
    assert FoldRooms.of(list(model_folds(planned("ties"))), 2, 100) == FoldRooms(100, 100, 50)


def models() -> dict[str, dict[str, torch.Tensor]]:
    """A base and three fine-tunes in bfloat16, whose changes have few magnitudes; a third of them are zero."""
    draw = torch.Generator().manual_seed(1)
    base = {"a.weight": torch.randn(60, 500, generator=draw) / 20, "c.bias": torch.randn(40, generator=draw) / 20}
    states = {"base": base}
    for name in ("cars", "birds", "flowers"):
        noise = {key: torch.randn(tensor.shape, generator=draw) / 500 for key, tensor in base.items()}
        kept = {key: torch.rand(tensor.shape, generator=draw) > 0.3 for key, tensor in base.items()}
        states[name] = {key: tensor + noise[key] * kept[key] for key, tensor in base.items()}
    return {name: {key: one.bfloat16() for key, one in state.items()} for name, state in states.items()}


PIPELINES: list[Any] = [
    {"ties": {"density": 0.3}},
    {"ties": {"density": 0.3, "trim": "tensor"}},
    {"sce": {"density": 0.1}},
    {"consensus": {}},
    {"localize_and_stitch": {"density": 0.1}},
    [{"breadcrumbs": {"density": 0.8}}, "average"],
    [{"breadcrumbs": {"density": 0.8, "rescale": "l1"}}, {"ties": {"density": 0.3}}],
    [{"trim": {"density": 0.2, "rescale": "l1"}}, "average"],
    [{"della": {"density": 0.5, "rescale": "l1"}}, "task_arithmetic"],
    "arcee_fusion",
    "tsv",
]


@pytest.mark.parametrize("merge", PIPELINES, ids=str)
def test_no_limit_changes_a_byte(monkeypatch: pytest.MonkeyPatch, merge: Any) -> None:
    """From the least that is not refused on; samples, spans and buffers are small, so that limits matter."""
    monkeypatch.setattr(bracket, "_SAMPLE", 512)
    monkeypatch.setattr(order, "_HISTOGRAM", 1 << 12)
    for name, size in {"_SPAN": 4096, "_AT_ONCE": 1024, "_PIECE": 16, "_READ": 1024}.items():
        monkeypatch.setattr(backend, name, size)
    states = models()
    base = states.pop("base")
    if merge == "arcee_fusion":
        states = {"cars": states["cars"]}
    first = smelt.merge(states, base=base, method=merge)
    limits = [20_000 * 4**step for step in range(8)]
    merged = 0
    for limit in limits:
        for threads in (1, 3):
            try:
                other = smelt.merge(states, base=base, method=merge, memory=limit, threads=threads)
            except RecipeError:  # the least does not fit
                continue
            merged += 1
            assert all(torch.equal(first[key], other[key]) for key in first), limit
    assert merged >= 6


@pytest.mark.parametrize("way", ["held", "counted", "lost", "histograms"])
def test_every_way_to_a_rank_gives_the_same_cuts(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Brackets that hold, that count, that can do neither, and none: by what the passes were they are told apart."""
    monkeypatch.setattr(bracket, "_SAMPLE", 512)
    for name, size in {"_SPAN": 4096, "_AT_ONCE": 1024, "_PIECE": 16}.items():
        monkeypatch.setattr(backend, name, size)
    states = models()
    states["birds"]["a.weight"] = states["birds"]["a.weight"] + 1  # so that there is more than one magnitude inside
    base = {key: tensor.float() for key, tensor in states.pop("base").items()}
    draw = torch.Generator().manual_seed(2)
    tunes = {
        name: {key: one.float() + torch.randn(one.shape, generator=draw) / 1000 for key, one in state.items()}
        for name, state in states.items()
    }
    steps: list[str] = []
    absorb, plan_sample = order.Largest.absorb, order.plan_sample

    def noted(self: order.Largest, total: Any) -> None:
        steps.append(self.step)
        absorb(self, total)

    def planned_so(*words: Any) -> bracket.SamplePlan | None:
        found = plan_sample(*words)
        most = {"held": None, "counted": (0, 1 << 26), "lost": (0, 0), "histograms": None}[way]
        if way == "histograms" or found is None:
            return None
        return bracket.SamplePlan(found.share, *most, found.bytes) if most else found

    expected = smelt.merge(tunes, base=base, method={"ties": {"density": 0.3}})
    monkeypatch.setattr(order.Largest, "absorb", noted)
    monkeypatch.setattr(order, "plan_sample", planned_so)
    merged = smelt.merge(tunes, base=base, method={"ties": {"density": 0.3}})
    assert (
        steps[:4]
        == {
            "held": ["sample", "bracket"],
            "counted": ["sample", "bracket"],
            "lost": ["sample", "bracket", "coarse", "fine"],
            "histograms": ["coarse", "fine"],
        }[way]
    )
    assert all(torch.equal(expected[key], merged[key]) for key in expected)
