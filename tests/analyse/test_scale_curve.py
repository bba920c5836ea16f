"""Scale curves: one merge where that is enough, rows that say what they are."""

from dataclasses import replace

import pytest
import torch

import smelt
from analysed_by_hand import pool as opened_pool
from analysed_by_hand import scored, tensors
from smelt.analyse import scale_curve, scaled_merges
from smelt.engine import scales as scaled
from smelt.engine.scales import Change, scaled_methods
from smelt.errors import RecipeError
from smelt.formats.source import MemorySource
from smelt.prepare.merge import merge
from smelt.recipe.schema import Recipe
from smelt.testing.pico import pico
from smelt.testing.trial import statistics_for

BASE = tensors(w=[0, 0])
MODELS = {"a": tensors(w=[2, 0]), "b": tensors(w=[0, 2])}


def distance(state):
    """How far the first weight is from 1: the sum of changes (2, 2) at scale 0.5 is exactly there."""
    return abs(float(state["w"][0]) - 1)


def curve(at=(0.25, 0.5, 1.0), tasks=("photos", "digits"), **words):
    given = {"base": BASE, "method": "task_arithmetic", "evaluate": scored(distance, *tasks)} | words
    return scale_curve(MODELS, at, **given)


def test_a_curve_finds_the_scale_with_the_highest_accuracy():
    found = curve()
    assert [(row.setting["scale"], row.task, row.loss) for row in found.rows] == [
        (0.25, "photos", 0.5),
        (0.25, "digits", 0.5),
        (0.5, "photos", 0.0),
        (0.5, "digits", 0.0),
        (1.0, "photos", 1.0),
        (1.0, "digits", 1.0),
    ]
    assert found.mean_accuracy == {0.25: pytest.approx(2 / 3), 0.5: 1.0, 1.0: 0.5}
    assert (found.best, found.linear) == (0.5, True)
    assert found.to_json()["accuracy"] == [pytest.approx(2 / 3), 1.0, 0.5]


def test_of_equal_scales_the_smallest_is_best():
    assert curve(at=(0.7, 0.3)).best == 0.3


def test_a_row_says_what_was_merged_and_how():
    row = curve(at=[0.5], normalize=True).rows[0]
    assert (row.variant, row.entry, row.label, row.model) == ("curve", "task_arithmetic", "task_arithmetic", "merged")
    assert row.setting == {"scale": 0.5, "normalize": True}
    made = Recipe.parse(row.recipe)
    assert made.dump()["merge"] == [{"task_arithmetic": {"scale": 0.5, "normalize": True}}]
    assert row.recipe_hash == made.hash
    named = curve(at=[0.5], entry="ta", label="Task arithmetic").rows[0]
    assert (named.entry, named.label) == ("ta", "Task arithmetic")


def test_steps_have_their_names_before_their_parameters():
    row = curve(at=[0.5], method=[("trim", {"density": 0.5}), ("ties", {"merge": "sum"})]).rows[0]
    assert row.setting == {"trim.density": 0.5, "ties.merge": "sum", "scale": 0.5}
    assert row.entry == "trim+ties"


def test_linear_curves_merge_once_and_others_once_per_scale(monkeypatch):
    runs = []
    whole, change = scaled.merge_to_memory, Change.of
    monkeypatch.setattr(scaled, "merge_to_memory", lambda *given: runs.append(given) or whole(*given))
    monkeypatch.setattr(Change, "of", lambda *given, **words: runs.append(given) or change(*given, **words))
    curve(at=(0.1, 0.2, 0.3))
    assert len(runs) == 1
    runs.clear()
    assert not curve(at=(0.1, 0.2, 0.3), method=["task_arithmetic", "svc"]).linear
    assert len(runs) == 3


@pytest.mark.parametrize("method", scaled_methods())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_scale_is_what_a_merge_at_that_scale_gives(method, dtype):
    models = smelt.list_methods()[method].models[1] or 3
    pool = pico(models, dtype=dtype)
    words = statistics_for(smelt.list_methods()[method], pool)
    beside = {name: MemorySource(name, one) for name, one in words.get("statistics", {}).items()}
    opened = replace(opened_pool(pool.base, **pool.models), statistics=beside)
    recipe = Recipe.parse({"pool": {"base": "b", "models": dict.fromkeys(pool.models, "m")}, "merge": method})
    for scale, state in scaled_merges(recipe, [0.0, 0.3, 1.0, 1.7], pool=opened):
        expected = merge(pool.models, base=pool.base, method=method, scale=scale, **words)
        assert state.keys() == expected.keys()
        for key, tensor in expected.items():
            assert state[key].dtype == tensor.dtype
            assert torch.equal(state[key], tensor), key


def test_the_output_dtype_of_the_recipe_is_kept():
    seen = []
    curve(at=[0.5], dtype="bfloat16", evaluate=lambda state: seen.append(state["w"].dtype) or [])
    assert seen == [torch.bfloat16]


def test_scale_0_is_the_base_and_tied_names_stay_one_tensor():
    shared = torch.tensor([[1.0, 2.0]])
    base = {"embed_tokens.weight": shared, "lm_head.weight": shared}
    tuned = {"embed_tokens.weight": (t := shared + 1), "lm_head.weight": t}
    seen = []
    scale_curve(
        {"a": tuned}, [0.0, 2.0], base=base, method="task_arithmetic", evaluate=lambda state: seen.append(state) or []
    )
    assert [state["lm_head.weight"].tolist() for state in seen] == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert all(state["lm_head.weight"] is state["embed_tokens.weight"] for state in seen)


def test_bad_requests_are_refused():
    with pytest.raises(RecipeError, match="average has no scale"):
        curve(method="average")
    with pytest.raises(RecipeError, match="one or more numbers"):
        curve(at=[])
    with pytest.raises(RecipeError, match="one or more numbers"):
        curve(at=[float("nan")])
    with pytest.raises(RecipeError, match="`base=REF`"):
        curve(base=None)


def test_references_work_too(two):
    base, cars, birds = two
    seen = []
    scale_curve(
        [cars, birds], [0.5], base=base, method="task_arithmetic", evaluate=lambda state: seen.append(state) or []
    )
    assert float(seen[0]["embed.weight"][0, 0]) == 2.0
