"""Methods of other people: they may load torch with their module, and their annotations may be the types themselves."""

from functools import wraps
from typing import Literal

import pytest
from torch import Tensor

import smelt
from checkpoints import state
from smelt.errors import RecipeError
from smelt.methods import Fraction, PerModel, Stack, merge_method, stages
from smelt.ops.fold import Sum


@pytest.fixture(autouse=True)
def _own_registry():
    before = dict(stages)
    yield
    stages.clear()
    stages.update(before)


def norms(scale: float) -> Sum:
    return Sum(lambda block: block.stack.flatten(1).square().sum(1), Tensor.sqrt)


def test_a_method_may_name_tensors_at_run_time():
    @merge_method("own", prepare=norms)
    def own(
        deltas: Stack,
        lengths: Tensor,
        base: Stack | None,
        *,
        weights: PerModel[float] = 1.0,
        scale: Fraction = 0.5,
        by: Literal["sum", "mean"] = "sum",
    ) -> Tensor:
        assert lengths.shape == (2,)
        assert base is not None
        return scale * (deltas * weights).sum(0) / (2 if by == "mean" else 1)

    assert [(p.name, p.type_name, p.per_model) for p in stages["own"].parameters.values()] == [
        ("weights", "float", True),
        ("scale", "0 < float <= 1", False),
        ("by", "sum | mean", False),
    ]
    merged = smelt.merge([state(1.0), state(3.0)], base=state(0.0), method=("own", {"weights": [1.0, 2.0]}))
    assert float(merged["embed.weight"][0, 0]) == 0.5 * (1.0 * 1.0 + 2.0 * 3.0)
    with pytest.raises(RecipeError, match="scale"):
        smelt.merge([state(1.0), state(3.0)], base=state(0.0), method=("own", {"scale": 2.0}))


WRITTEN = """
from __future__ import annotations

from typing import Annotated, Optional

from pydantic import Field
from torch import Tensor

from smelt.methods import Stack, merge_method

Power = Annotated[int, Field(ge=1)]


@merge_method("written")
def written(deltas: Stack, *, power: Power = 1, limit: Optional[float] = None) -> Tensor:
    return (deltas**power).mean(0) / 2
"""


def test_the_types_of_parameters_are_looked_up_where_the_method_was_written(tmp_path, monkeypatch):
    (tmp_path / "written_by_others.py").write_text(WRITTEN)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("written_by_others")
    parameters = stages["written"].parameters
    assert parameters["power"].adapter.validate_python(3) == 3
    assert (parameters["power"].default, parameters["limit"].type_name) == (1, "float | none")
    with pytest.raises(RecipeError, match="power"):
        smelt.merge([state(1.0)], base=state(0.0), method="written", power=0)
    merged = smelt.merge([state(2.0)], base=state(0.0), method="written", power=2)
    assert float(merged["embed.weight"][0, 0]) == 2.0**2 / 2


def test_a_decorated_method_keeps_its_parameters():
    def told(function):
        @wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    @merge_method("decorated")
    @told
    def decorated(deltas: Stack, *, scale: Fraction = 0.5) -> Tensor:
        return deltas.mean(0) * scale

    assert stages["decorated"].parameters["scale"].type_name == "0 < float <= 1"
    merged = smelt.merge([state(1.0), state(3.0)], base=state(0.0), method="decorated")
    assert float(merged["embed.weight"][0, 0]) == 1.0
