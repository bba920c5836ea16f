"""`smelt.average`: the mean of a training run's last checkpoints, one model that is often better than each of them.

In: the folder of a run and a window. Out: an ordinary merge by `average`, or one for every place of the window.
Adapters are averaged by what they do to their base, scaling * B @ A: the mean of the factors would be another change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from smelt.caller import Blank, option
from smelt.display.blocks import Lines
from smelt.display.shown import Shown, ShownList
from smelt.engine.merge import Summary
from smelt.errors import RecipeError, unknown
from smelt.models.training_checkpoints import Checkpoint, choose_checkpoints
from smelt.recipe.words import RecipeWords, RunWords

__all__ = ["Averaged", "Averages", "Weighting", "average"]

Weighting = Literal["uniform", "linear", "ema"]
_WEIGHTINGS = ("uniform", "linear", "ema")


@dataclass(frozen=True)
class Averaged(Shown):
    """What was averaged, and the merge that did it."""

    steps: tuple[int, ...]
    weights: tuple[float, ...]
    """They sum to 1."""
    summary: Summary

    def shown(self) -> list[Lines]:
        listed = ", ".join(f"{step} ({weight:.3f})" for step, weight in zip(self.steps, self.weights, strict=True))
        made = f"{self.summary.out}: the average of steps {listed} in {self.summary.seconds:.1f} s"
        return [Lines([made, *(f"note: {note}" for note in self.summary.notes)])]


class Averages(ShownList[Averaged]):
    """What was averaged, window after window."""

    def shown(self) -> list[Lines]:
        return [lines for one in self for lines in one.shown()]


class _Words(RecipeWords, RunWords, total=False):
    """What goes on to `smelt.merge`."""


def average(
    run: str | Path,
    *,
    out: str | Path,
    last: int | None = None,
    every: int = 1,
    since: int | None = None,
    until: int | None = None,
    weights: Weighting = "uniform",
    decay: float = 0.9,
    each: bool = False,
    base: str | Path | None = None,
    **words: Unpack[_Words],
) -> Averages:
    """Average the checkpoints of a training run.

    `run` is a folder of checkpoint-500, checkpoint-1000, ... (step-*, plain numbers). `last`, `every`, `since` and
    `until` choose among them. `weights`: `uniform`; `linear` (1, 2, 3, ..., the latest most); `ema`, where a step
    weighs `decay` times the next one. With `each` the window of `last` steps slides over the run, and `out` gets one
    model for every place, named after its last step.

    Adapters (PEFT) are averaged as changes of their base (`base`, or the one they name) and give a whole model, or with
    `lora` an adapter of that rank. Other words go to `smelt.merge` (`dtype`, `threads`, `force`, ...).
    """
    place = Path(run)
    if each and last is None:
        raise RecipeError("each: how wide is the window? Give `last`")
    steps = choose_checkpoints(place, last=None if each else last, every=every, since=since, until=until)
    if words.get("lora") is None:
        words.pop("lora", None)
    if base is None and "lora" in words and not steps[0].is_adapter:
        raise RecipeError(
            f"lora: an adapter holds the change from a base; say which with {option('base', Blank('REF'))}"
        )
    width = last if each and last is not None else len(steps)
    if width > len(steps):
        raise RecipeError(f"{place}: the window is {width} steps wide, and there are {len(steps)}")
    if width < 2:
        raise RecipeError(f"{place}: one checkpoint is its own average; choose at least two")
    windows = [steps[end - width : end] for end in range(width, len(steps) + 1)]
    shares = _shares(weights, decay, width)
    return Averages(_average(w, shares, Path(out) / w[-1].name if each else Path(out), base, words) for w in windows)


def _average(
    steps: Sequence[Checkpoint], shares: Sequence[float], out: Path, base: str | Path | None, words: _Words
) -> Averaged:
    from smelt.models.references import adapter_base
    from smelt.prepare.merge import merge

    refs = {step.name: str(step.path) for step in steps}
    if steps[0].is_adapter:
        if base is None and "lora" in words:
            base = adapter_base(steps[0].path)
        refs = {name: f"{base}+{ref}" for name, ref in refs.items()} if base is not None else refs
    done = merge(refs, base=base, method="average", weights=list(shares), out=out, **words)
    assert isinstance(done, Summary)
    return Averaged(tuple(step.number for step in steps), tuple(shares), done)


def _shares(weights: str, decay: float, count: int) -> list[float]:
    if weights not in _WEIGHTINGS:
        raise RecipeError(unknown("way to weigh steps", weights, _WEIGHTINGS))
    if weights == "ema" and not 0 < decay < 1:
        raise RecipeError(f"decay: {decay} is not between 0 and 1")
    raw = {
        "uniform": [1.0] * count,
        "linear": [float(number) for number in range(1, count + 1)],
        "ema": [decay ** (count - 1 - number) for number in range(count)],
    }[weights]
    return [one / sum(raw) for one in raw]
