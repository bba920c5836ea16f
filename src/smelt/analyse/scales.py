"""Accuracy against the scale of one merge.

In: a recipe whose method has a `scale`, scales, tasks. Out: one row per scale and task. Where the scale only stretches
the merged change, the models are merged once and every scale costs one pass (`scaled`); else each is a merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.analyse.evaluator import Evaluate, evaluator
from smelt.analyse.shown import setting_table
from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.engine.merge import planned
from smelt.engine.pool import ModelPool, opened
from smelt.engine.request import read_request
from smelt.engine.scales import Scaled, at_scale, is_linear
from smelt.errors import RecipeError
from smelt.files.remote_code import takes_trust
from smelt.recipe.schema import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.evaluation.row import Row

__all__ = ["SCALES", "ScaleCurve", "scale_curve", "scaled_merges"]

SCALES = tuple(step / 10 for step in range(1, 11))
"""The scales that the papers search: 0.1 to 1."""


@dataclass(frozen=True)
class ScaleCurve(Shown):
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

    def shown(self) -> list[Table | Lines]:
        return [setting_table("scale", self.rows), Lines([f"best on {self.rows[0].split}: {self.best:g}"])]

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


@takes_trust
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
    trust_remote_code: bool = False,
    **words: Any,
) -> ScaleCurve:
    """Merge at every scale and evaluate on tasks: by default on `val`, since a scale chosen on `test` proves nothing.

    `scales` multiply the merged change. `models`, `base`, `method` and other words as for `smelt.merge`; `tasks`,
    `split`, `limit`, `text_from` and `device` as for `smelt.evaluate`. `evaluate`, which maps a state dict to rows,
    takes the place of that evaluation. Rows are called `entry`, and `label` for people: by default the names of the
    stages. They name the `command` that made them.
    """
    recipe, relative_to, pool = read_request(models, base, method, words)
    name = entry or "+".join(call.name for call in recipe.merge)
    rows: list[Row] = []
    with planned(at_scale(recipe, 1.0), relative_to=relative_to, pool=pool) as ready:
        pickles = recipe.allow_pickle
        how = {"limit": limit, "text_from": text_from, "device": device, "allow_pickle": pickles, "quiet": quiet}
        run = evaluate or evaluator(ready.pool.reference, tasks, split=split, **how)
        for scale, state in scaled_merges(recipe, scales, relative_to=relative_to, pool=ready.pool):
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
    return ScaleCurve(tuple(rows), is_linear(recipe))


def scaled_merges(
    recipe: Recipe, scales: Sequence[float], *, relative_to: Path | None = None, pool: ModelPool | None = None
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """(scale, merged state dict) for every one of `scales`, one at a time.

    References of the `recipe` are seen from the folder `relative_to`. `pool` are its models where they are open
    already.
    """
    if not scales or not all(isinstance(scale, int | float) and math.isfinite(scale) for scale in scales):
        raise RecipeError(f"scales are one or more numbers, got {list(scales)!r}")
    with ExitStack() as stack:
        if pool is None:
            words: Any = {"relative_to": relative_to, "allow_pickle": recipe.allow_pickle}
            pool = stack.enter_context(opened(recipe.pool, **words))
        merges = Scaled(pool, relative_to)
        for scale in scales:
            yield scale, merges.at(at_scale(recipe, scale))


def _setting(recipe: Recipe) -> dict[str, Any]:
    """The parameters that the recipe gives, but for the scale; those of several stages after their stage's name."""
    several = len(recipe.merge) > 1
    return {
        f"{call.name}.{name}" if several else name: value
        for call in recipe.merge
        for name, value in call.parameters.items()
        if name != "scale"
    }
