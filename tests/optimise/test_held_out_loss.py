"""Learning that ends when the loss on held-out examples does not fall any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from smelt.errors import RecipeError
from smelt.optimise.loop import optimise
from smelt.tasks.examples import ArrayStream


class Distance:
    """|p - target| on every task, whose gradient is its sign; remembers which examples it was shown."""

    def __init__(self, start: float, target: float = 0.0):
        self.parameters = {"p": torch.tensor([start])}
        self._target = target
        self.seen: list[dict[str, list[float]]] = []

    def gradients(self, batches: Any) -> Any:
        self.seen.append({name: one.inputs[:, 0].tolist() for name, one in batches.items()})
        gap = self.parameters["p"] - self._target
        return {"p": gap.sign()}, {name: float(gap.abs()) for name in batches}


def stream(name: str, count: int) -> ArrayStream:
    return ArrayStream(name, torch.arange(float(count))[:, None], torch.zeros(count, dtype=torch.long))


def test_it_ends_at_the_first_check_that_is_no_better_than_the_best_one() -> None:
    """Each step is one tenth: at steps 0, 5 and 10 the loss is 1.0, 0.5 and near 0; from then on it stays there."""
    objective = Distance(1.0)
    trace = optimise(objective, {"a": stream("a", 40)}, steps=1000, lr=0.1, batch=4, patience=5)
    checked = {line["step"]: line["held_out"] for line in trace if "held_out" in line}
    assert checked[0] == pytest.approx(1.0)
    assert checked[5] == pytest.approx(0.5, abs=0.01)
    assert 10 < len(trace) < 40
    assert len(trace) % 5 == 0


def test_steps_are_the_most_that_are_taken() -> None:
    trace = optimise(Distance(10.0), {"a": stream("a", 40)}, steps=12, lr=0.1, batch=4, patience=5)
    assert [line["step"] for line in trace if "held_out" in line] == [0, 5, 10]
    assert len(trace) == 12


def test_the_last_tenth_of_every_task_is_never_learned_from() -> None:
    objective = Distance(3.0)
    optimise(objective, {"a": stream("a", 40), "b": stream("b", 20)}, steps=8, lr=0.01, batch=4, patience=4)
    checks = [one for one in objective.seen if one["a"] == [36.0, 37.0, 38.0, 39.0]]
    assert len(checks) == 2
    assert all(one["b"] == [18.0, 19.0] for one in checks)
    steps = [one for one in objective.seen if one not in checks]
    assert len(steps) == 8
    assert max(place for one in steps for place in one["a"]) < 36
    assert max(place for one in steps for place in one["b"]) < 18


def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    whole, first, again = Distance(1.0), Distance(1.0), Distance(1.0)
    how: dict[str, Any] = {"steps": 100, "lr": 0.1, "batch": 4, "patience": 5}
    expected = optimise(whole, {"a": stream("a", 40)}, **how)
    asked = iter([False] * 7 + [True])
    optimise(first, {"a": stream("a", 40)}, folder=tmp_path / "run", stop=lambda: next(asked), **how)
    found = optimise(again, {"a": stream("a", 40)}, folder=tmp_path / "run", **how)
    assert len(found) == len(expected)
    assert torch.equal(again.parameters["p"], whole.parameters["p"])
    once_more = Distance(1.0)
    assert len(optimise(once_more, {"a": stream("a", 40)}, folder=tmp_path / "run", **how)) == len(expected)


def test_too_few_examples_for_a_tenth_are_refused() -> None:
    with pytest.raises(RecipeError, match="holds a tenth of the examples out, but a has 9"):
        optimise(Distance(1.0), {"a": stream("a", 9)}, steps=1, lr=0.1, batch=1, patience=5)
