"""Accuracy against the scale of one merge.

In: a recipe whose method has a `scale`, scales, tasks. Out: one row per scale and task. Where the scale only stretches
the merged change (`linear`), the models are merged once and every scale costs one addition; else each is a merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.analyse.evaluator import Evaluate, evaluator
from smelt.analyse.linear import at_scale, is_linear
from smelt.engine import dtype as dtypes
from smelt.engine.run import Options, merge_to_memory, planned
from smelt.errors import RecipeError
from smelt.pool.modelpool import ModelPool
from smelt.pool.request import read_request
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from smelt.engine.plan import Item
    from smelt.engine.ready import Ready
    from smelt.evaluate.row import Row

__all__ = ["SCALES", "Curve", "scale_curve", "scaled_merges"]

SCALES = tuple(step / 10 for step in range(1, 11))
"""The scales that the papers search: 0.1 to 1."""


@dataclass(frozen=True)
class Curve:
    """The rows of a scale curve, scale after scale."""

    rows: tuple[Row, ...]
    linear: bool
    """Whether one merge gave all scales."""

    @property
    def mean_accuracy(self) -> dict[float, float]:
        """Accuracy by scale, averaged over the tasks."""
        found: dict[float, list[float]] = {}
        for row in self.rows:
            found.setdefault(row.setting["scale"], []).append(row.accuracy)
        return {scale: sum(values) / len(values) for scale, values in found.items()}

    @property
    def best(self) -> float:
        """The scale with the highest mean accuracy; of equals, the smallest."""
        return max(sorted(self.mean_accuracy), key=lambda scale: self.mean_accuracy[scale])

    def to_json(self) -> dict[str, Any]:
        """Plain data: the averages, the best scale, and every row."""
        means = self.mean_accuracy
        return {
            "scales": list(means),
            "accuracy": list(means.values()),
            "best": self.best,
            "linear": self.linear,
            "rows": [row.model_dump(mode="json") for row in self.rows],
        }


def scale_curve(
    models: Any,
    scales: Sequence[float] = SCALES,
    *,
    base: Any = None,
    method: Any = None,
    tasks: Any = "clip8",
    split: str = "val",
    limit: int | None = None,
    text_from: Any = None,
    device: str = "cpu",
    evaluate: Evaluate | None = None,
    entry: str | None = None,
    label: str | None = None,
    command: str = "",
    quiet: bool = True,
    **words: Any,
) -> Curve:
    """Merge at every scale and evaluate on tasks: by default on `val`, since a scale chosen on `test` proves nothing.

    `models`, `base`, `method` and other words as for `smelt.merge`; `tasks`, `split`, `limit`, `text_from` and
    `device` as for `smelt.evaluate`. `evaluate`, which maps a state dict to rows, takes the place of that evaluation.
    Rows are called `entry`, and `label` for people: by default the names of the stages. They name the `command` that
    made them.
    """
    recipe, relative_to, pool = read_request(models, base, method, words)
    name = entry or "+".join(call.name for call in recipe.merge)
    rows: list[Row] = []
    with planned(at_scale(recipe, 1.0), relative_to=relative_to, pool=pool) as ready:
        pickles = recipe.allow_pickle
        how = {"limit": limit, "text_from": text_from, "device": device, "allow_pickle": pickles, "quiet": quiet}
        run = evaluate or evaluator(ready.pool.reference, tasks, split=split, **how)
        for scale, state in scaled_merges(recipe, scales, pool=ready.pool):
            made = at_scale(recipe, scale)
            about = {
                "entry": name,
                "label": label or name,
                "variant": "curve",
                "setting": {**_setting(recipe), "scale": scale},
                "model": "merged",
                "recipe": made.dump(),
                "recipe_hash": made.hash,
                "seed": made.seed,
                "command": command,
            }
            rows += [row.model_copy(update=about) for row in run(state)]
    return Curve(tuple(rows), is_linear(recipe))


def scaled_merges(
    recipe: Recipe, scales: Sequence[float], *, relative_to: Path | None = None, pool: ModelPool | None = None
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """(scale, merged state dict) for every scale, one at a time."""
    if not scales or not all(isinstance(scale, int | float) and math.isfinite(scale) for scale in scales):
        raise RecipeError(f"scales are one or more numbers, got {list(scales)!r}")
    if is_linear(recipe):
        yield from _stretched(recipe, scales, relative_to, pool)
        return
    for scale in scales:
        with planned(at_scale(recipe, scale), relative_to=relative_to, pool=pool) as ready:
            state = merge_to_memory(ready, Options())
        yield scale, state


def _stretched(
    recipe: Recipe, scales: Sequence[float], relative_to: Path | None, pool: ModelPool | None
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """One merge in float32 at scale 1, then base + scale * change, rounded once to the output's dtype."""
    exact = at_scale(recipe, 1.0).model_copy(update={"dtype": "float32"})
    with planned(exact, relative_to=relative_to, pool=pool) as ready:
        state = merge_to_memory(ready, Options())
        for item in _merged(ready):  # from here on these hold the change
            state[item.key].sub_(_base(ready, item.key, state[item.key].shape))
        for scale in scales:
            yield scale, _scaled(recipe, ready, state, scale)


def _merged(ready: Ready) -> Iterator[Item]:
    return (item for item in ready.plan.items if not item.copied)


def _scaled(recipe: Recipe, ready: Ready, changes: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """The model at a scale: base + scale * change, copies where nothing was merged, in the output's dtypes."""
    state = dict(changes)
    for item in _merged(ready):
        change = changes[item.key]
        state[item.key] = _base(ready, item.key, change.shape).add_(change, alpha=scale)
    for key, tensor in state.items():
        if tensor.is_floating_point() and key in ready.pool.reference.tensors:
            code = dtypes.parse_dtype(recipe.dtype) if recipe.dtype else ready.pool.reference.tensors[key].dtype
            state[key] = tensor.to(dtypes.torch_dtype(code))
    return state | {name: state[twin] for name, twin in ready.plan.tied.items() if twin in state}


def _base(ready: Ready, key: str, shape: torch.Size) -> Tensor:
    assert ready.pool.base is not None
    flat = torch.empty(shape.numel())
    ready.pool.base.read(key, 0, flat)
    return flat.view(shape)


def _setting(recipe: Recipe) -> dict[str, Any]:
    """The parameters that the recipe gives, but for the scale; those of several stages after their stage's name."""
    several = len(recipe.merge) > 1
    return {
        f"{call.name}.{name}" if several else name: value
        for call in recipe.merge
        for name, value in call.parameters.items()
        if name != "scale"
    }
