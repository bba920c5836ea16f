"""The straight line between two models: accuracy and loss on the way, and the barrier.

    model(t) = (1 - t) A + t B        barrier = max_t loss(t) - ((1 - t) loss(0) + t loss(1))

A barrier near zero says that the models lie in one basin, where averaging works. One model at a time is in memory.
Tensors that are not interpolated (integers, those outside `keys`, those that only A has) are A's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.analyse.deltas import Patterns, chosen_keys
from smelt.analyse.evaluator import Evaluate, evaluator
from smelt.analyse.models import open_one
from smelt.analyse.shown import notes_lines, setting_table
from smelt.caller import option
from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.engine.pool import ModelPool
from smelt.errors import RecipeError
from smelt.files.remote_code import takes_trust
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, read_whole
from smelt.recipe.reference_name import ref_name

if TYPE_CHECKING:
    from smelt.evaluation.row import Row

__all__ = ["Barrier", "Interpolation", "interpolated", "interpolation_path"]


@dataclass(frozen=True)
class Barrier:
    """How far the loss rises above the line between its ends, and at which t; 0 at the ends if it never does."""

    loss: float
    t: float


@dataclass(frozen=True)
class Interpolation(Shown):
    """The rows along a path, in the order of t; barriers by task and of the mean loss."""

    first: str
    second: str
    rows: tuple[Row, ...]
    barriers: Mapping[str, Barrier]
    mean_barrier: Barrier
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table | Lines]:
        highest = f"barrier of the mean loss: {self.mean_barrier.loss:.4f} at t = {self.mean_barrier.t:g}"
        return [setting_table("t", self.rows), Lines([highest]), notes_lines(self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data: the means over tasks, the barriers, and every row."""
        points = _by_t(self.rows)
        return {
            "from": self.first,
            "to": self.second,
            "t": list(points),
            "accuracy": [_mean([row.accuracy for row in rows]) for rows in points.values()],
            "loss": [_mean([_loss(row) for row in rows]) for rows in points.values()],
            "barrier": vars(self.mean_barrier),
            "barriers": {task: vars(barrier) for task, barrier in self.barriers.items()},
            "rows": [row.model_dump(mode="json") for row in self.rows],
            "notes": list(self.notes),
        }


@takes_trust
def interpolation_path(
    first: Any,
    second: Any,
    points: int | Sequence[float] = 11,
    *,
    tasks: Any = "clip8",
    split: str = "test",
    limit: int | None = None,
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    keys: Patterns = None,
    skip: Patterns = None,
    names: tuple[str, str] | None = None,
    evaluate: Evaluate | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    command: str = "",
    quiet: bool = True,
) -> Interpolation:
    """Evaluate models on the straight line from one model to another.

    `first` and `second` are references, state dicts or modules; rows call them by `names`. `keys` and `skip` are
    patterns of the tensors that move, as for `cosine_similarity`; the others stay as in `first`. `points` is how many,
    evenly from 0 to 1, or the values of t themselves (0 and 1 are added: a barrier needs both ends). `tasks`, `split`,
    `limit`, `text_from`, `device`, `dtype` and `threads` as for `smelt.evaluate`; `evaluate`, which maps a state dict
    to rows, takes its place. With `allow_pickle` references may name pickles. Rows name the `command` that made them.
    """
    steps = _steps(points)
    names = names or (_name(first, "first"), _name(second, "second"))
    rows: list[Row] = []
    with ExitStack() as stack:
        a, b = (stack.enter_context(open_one(model, allow_pickle=allow_pickle)) for model in (first, second))
        chosen, notes = _between(names, a, b, keys, skip)
        where = {"device": device, "dtype": dtype, "threads": threads}
        how = {"limit": limit, "text_from": text_from, "allow_pickle": allow_pickle, "quiet": quiet, **where}
        run = evaluate or evaluator(a, tasks, split=split, **how)
        for t in steps:
            about = {
                "entry": f"{names[0]}..{names[1]}",
                "label": f"{names[0]} to {names[1]}",
                "variant": "path",
                "setting": {"from": names[0], "to": names[1], "t": t},
                "model": f"(1 - {t:g}) {names[0]} + {t:g} {names[1]}",
                "recipe": None,
                "recipe_hash": None,
                "command": command,
            }
            found = run(interpolated(a, b, t, chosen))
            for row in found:
                _loss(row)  # refused at the first point, not after the last
            rows += [row.model_copy(update=about) for row in found]
    losses = {t: {row.task: _loss(row) for row in at} for t, at in _by_t(rows).items()}
    tasks_seen = list(dict.fromkeys(row.task for row in rows))
    barriers = {task: _barrier({t: found[task] for t, found in losses.items()}) for task in tasks_seen}
    mean = _barrier({t: _mean(list(found.values())) for t, found in losses.items()})
    return Interpolation(*names, tuple(rows), barriers, mean, notes)


def interpolated(a: Source, b: Source, t: float, keys: Sequence[str]) -> dict[str, Tensor]:
    """(1 - t) a + t b in float32 for the tensors named, a's own for the others; dtypes are a's."""
    state: dict[str, Tensor] = {}
    mixed = set(keys)
    for key, info in a.tensors.items():
        if key in mixed and info.count > 0:
            one, other = (read_whole(source, key, torch.float32) for source in (a, b))
            state[key] = one.mul_(1 - t).add_(other, alpha=t).to(dtypes.torch_dtype(info.dtype))
        else:
            state[key] = read_whole(a, key)
    return state | {name: state[twin] for name, twin in a.tied.items() if twin in state}


def _between(
    names: tuple[str, str], a: Source, b: Source, keys: Patterns, skip: Patterns
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tensors to interpolate and what to know about the rest."""
    if names[0] == names[1]:
        raise RecipeError(f"both ends of the path are named {names[0]!r}; a path needs two models, named apart")
    chosen = chosen_keys(ModelPool(None, {names[0]: a, names[1]: b}), keys, skip)
    stranger = next((key for key in chosen.left_out if key not in a.tensors), None)
    if stranger is not None:
        raise RecipeError(
            f"{names[1]} has {stranger!r}, which {names[0]} lacks; leave it out with {option('skip', stranger)}"
        )
    if not chosen.left_out:
        return chosen.keys, ()
    return chosen.keys, (f"{len(chosen.left_out)} tensors that {names[1]} lacks stay those of {names[0]}",)


def _steps(points: int | Sequence[float]) -> list[float]:
    if isinstance(points, int):
        if points < 2:
            raise RecipeError(f"points: a path has at least its two ends, got {points}")
        return [number / (points - 1) for number in range(points)]
    if not all(0 <= t <= 1 for t in points):
        raise RecipeError(f"points: t runs from 0 to 1, got {list(points)!r}")
    return sorted({0.0, 1.0, *map(float, points)})


def _name(model: Any, otherwise: str) -> str:
    return ref_name(str(model)) if isinstance(model, str | Path) else otherwise


def _by_t(rows: Sequence[Row]) -> dict[float, list[Row]]:
    found: dict[float, list[Row]] = {}
    for row in rows:
        found.setdefault(row.setting["t"], []).append(row)
    return found


def _loss(row: Row) -> float:
    if row.loss is None:
        raise RecipeError(f"{row.task}: has no loss, so a path on it has no barrier; give tasks with a loss")
    return row.loss


def _barrier(losses: Mapping[float, float]) -> Barrier:
    start, end = losses[0.0], losses[1.0]
    rises = {t: loss - ((1 - t) * start + t * end) for t, loss in losses.items()}
    peak = max(sorted(rises), key=lambda t: rises[t])
    return Barrier(rises[peak], peak)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
