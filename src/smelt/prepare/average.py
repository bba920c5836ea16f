"""`smelt.average`: the mean of a training run's last checkpoints, one model that is often better than each of them.

In: the folder of a run and a window. Out: an ordinary merge by `average`, or one for every place of the window.
Adapters are averaged by what they do to their base, scaling * B @ A: the mean of the factors would be another change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from smelt.caller import Blank, option
from smelt.display.blocks import Block, Lines
from smelt.display.shown import Shown, ShownList
from smelt.engine.merge import Summary
from smelt.engine.plan.describe import PlanReport
from smelt.errors import RecipeError
from smelt.models.training_checkpoints import Checkpoint, choose_checkpoints
from smelt.prepare.step_weights import Weighting, step_weights
from smelt.recipe.words import RecipeWords, RunWords

__all__ = ["Averaged", "Averages", "Weighting", "average"]


@dataclass(frozen=True)
class Averaged(Shown):
    """What was averaged, and the merge that did it."""

    steps: tuple[int, ...]
    weights: tuple[float, ...]
    """They sum to 1."""
    summary: Summary | None
    """None where nothing was merged."""
    plan: PlanReport | None = None

    def shown(self) -> list[Block]:
        listed = ", ".join(f"{step} ({weight:.3f})" for step, weight in zip(self.steps, self.weights, strict=True))
        if self.summary is None:
            return [Lines([f"the average of steps {listed}"]), *(self.plan.shown() if self.plan is not None else ())]
        made = f"{self.summary.out}: the average of steps {listed} in {self.summary.seconds:.1f} s"
        return [Lines([made, *(f"note: {note}" for note in self.summary.notes)])]


class Averages(ShownList[Averaged]):
    """What was averaged, window after window."""

    def shown(self) -> list[Block]:
        return [block for one in self for block in one.shown()]


_ONLY_MERGES = ("data_device", "resume", "force", "quiet", "trust_remote_code")
"""Words of a merge that a plan has no use for."""


class _Words(RecipeWords, RunWords, total=False):
    """What goes on to `smelt.merge`."""


def average(
    run: str | Path,
    *,
    out: str | Path | None = None,
    last: int | None = None,
    every: int = 1,
    since: int | None = None,
    until: int | None = None,
    weights: Weighting = "uniform",
    decay: float = 0.9,
    each: bool = False,
    plan: bool = False,
    base: str | Path | None = None,
    **words: Unpack[_Words],
) -> Averages:
    """Average the checkpoints of a training run.

    `run` is a folder of checkpoint-500, checkpoint-1000, ... (step-*, plain numbers, DeepSpeed's global_step*,
    Megatron's iter_*); shards of training frameworks are read as they are. `last`, `every`, `since` and `until` choose
    among them. `weights`: `uniform`; `linear` (1, 2, 3, ..., the latest most); `exponential` (`ema` is the same), where
    a step weighs `decay` times the next one; `wsm-linear`, `wsm-cosine`, `wsm-1-sqrt`, where the average stands for a
    decay of the learning rate over the chosen steps. With `each` the window of `last` steps slides over the run, and
    `out` gets one model for every place, named after its last step. With `plan` nothing is merged: it is said which
    steps are averaged, what each weighs, and what the merge takes.

    Adapters (PEFT) are averaged as changes of their base (`base`, or the one they name) and give a whole model, or with
    `lora` an adapter of that rank. Other words go to `smelt.merge` (`dtype`, `threads`, `force`, ...).
    """
    place = Path(run)
    if out is None and not plan:
        raise RecipeError(f"where is the average written to? Give {option('out', Blank('FOLDER'))}")
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
    shares = step_weights(weights, width, decay)
    if plan or out is None:
        return Averages(_planned(window, shares, base, words) for window in windows)
    places = [Path(out) / window[-1].name if each else Path(out) for window in windows]
    return Averages(_average(w, shares, at, base, words) for w, at in zip(windows, places, strict=True))


def _average(
    steps: Sequence[Checkpoint], shares: Sequence[float], out: Path, base: str | Path | None, words: _Words
) -> Averaged:
    from smelt.prepare.merge import merge

    refs, base = _references(steps, base, words)
    done = merge(refs, base=base, method="average", weights=list(shares), out=out, **words)
    assert isinstance(done, Summary)
    return Averaged(tuple(step.number for step in steps), tuple(shares), done)


def _planned(steps: Sequence[Checkpoint], shares: Sequence[float], base: str | Path | None, words: _Words) -> Averaged:
    from smelt.prepare.plan import plan

    refs, base = _references(steps, base, words)
    of_plan: Any = {name: word for name, word in words.items() if name not in _ONLY_MERGES}
    found = plan(refs, base=base, method="average", weights=list(shares), **of_plan)
    return Averaged(tuple(step.number for step in steps), tuple(shares), None, found)


def _references(
    steps: Sequence[Checkpoint], base: str | Path | None, words: _Words
) -> tuple[dict[str, str], str | Path | None]:
    """The steps as a merge is given them, and its base."""
    from smelt.models.references import adapter_base

    refs = {step.name: str(step.path) for step in steps}
    if steps[0].is_adapter:
        if base is None and "lora" in words:
            base = adapter_base(steps[0].path)
        refs = {name: f"{base}+{ref}" for name, ref in refs.items()} if base is not None else refs
    return refs, base
