"""The checkpoints that a training run left behind: found in its folder, in order, chosen by a window.

In: a folder with checkpoint-500, checkpoint-1000, ... as transformers' Trainer leaves them (step-*, epoch_*, plain
numbers, global_step* of DeepSpeed, iter_* of Megatron and step-*.safetensors are read too). Out: the chosen ones with
their step numbers, each of them finished.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from smelt.caller import option
from smelt.errors import CorruptFile, RecipeError
from smelt.formats.open import is_adapter, is_pickle
from smelt.formats.shards.recognise import has_whole_shards

__all__ = ["Checkpoint", "choose_checkpoints", "find_checkpoints"]

_NAME = re.compile(r"^(?P<kind>[A-Za-z][A-Za-z_-]*?)?[-_]?(?P<number>\d+)(\.safetensors)?$")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a run."""

    number: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".safetensors")

    @property
    def is_adapter(self) -> bool:
        return is_adapter(self.path)


def find_checkpoints(run: Path) -> list[Checkpoint]:
    """Every checkpoint of a run, the earliest first."""
    if not run.is_dir():
        raise RecipeError(f"{run}: no such folder; give the folder of a training run, which holds checkpoint-*")
    found: dict[str, list[Checkpoint]] = {}
    for path in run.iterdir():
        match = _NAME.match(path.name)
        if match and (path.is_dir() or path.suffix == ".safetensors"):
            found.setdefault(match["kind"] or "", []).append(Checkpoint(int(match["number"]), path))
    if not found:
        raise RecipeError(
            f"{run}: holds no checkpoints of a training run (folders such as checkpoint-500, step-500 or 500)"
        )
    if len(found) > 1:
        kinds = " and ".join(f"{steps[0].name} (of {len(steps)})" for _, steps in sorted(found.items()))
        raise RecipeError(f"{run}: holds several kinds of checkpoints, {kinds}; move one kind to a folder of its own")
    steps = sorted(next(iter(found.values())), key=lambda step: step.number)
    for one, other in pairwise(steps):
        if one.number == other.number:
            raise RecipeError(f"{run}: {one.path.name} and {other.path.name} are the same step; remove one of them")
    return steps


def choose_checkpoints(
    run: Path,
    *,
    last: int | None = None,
    every: int = 1,
    since: int | None = None,
    until: int | None = None,
) -> list[Checkpoint]:
    """The steps from `since` to `until`, of these every `every`-th counted from the last one, of these the `last`."""
    for name, value in (("last", last), ("every", every)):
        if value is not None and value < 1:
            raise RecipeError(f"{name}: {value} is not a whole number from 1 on")
    steps = find_checkpoints(run)
    within = [s for s in steps if (since is None or s.number >= since) and (until is None or s.number <= until)]
    if not within:
        raise RecipeError(
            f"{run}: no step lies between {since or 0} and {until if until is not None else 'the end'}; "
            f"its steps run from {steps[0].number} to {steps[-1].number}"
        )
    chosen = within[::-1][::every][::-1]
    if last is not None and last > len(chosen):
        raise RecipeError(
            f"{run}: the last {last} steps are asked for, and there are {len(chosen)} ({_listed(chosen)})"
        )
    chosen = chosen[-last:] if last is not None else chosen
    _check_finished(chosen)
    return chosen


def _listed(steps: Sequence[Checkpoint]) -> str:
    numbers = [str(step.number) for step in steps]
    return ", ".join(numbers if len(numbers) <= 6 else [*numbers[:3], "...", *numbers[-2:]])


def _check_finished(steps: Sequence[Checkpoint]) -> None:
    for number, step in enumerate(steps):
        if not _has_weights(step):
            window = option("until", steps[number - 1].number)
            if number == 0:
                window = option("since", steps[1].number) if steps[1:] else ""
            out = f"leave it out ({window}) or remove it" if window else "choose another, or train it to its end"
            raise CorruptFile(f"{step.path}: holds no weights, so this checkpoint is not finished; {out}")
    _check_one_kind(steps)


def _has_weights(step: Checkpoint) -> bool:
    names = [path.name for path in step.path.iterdir()] if step.path.is_dir() else [step.path.name]
    if any(name.endswith((".safetensors", ".gguf")) or is_pickle(name) for name in names):
        return True
    return (step.is_adapter and "adapter_model.bin" in names) or has_whole_shards(step.path)


def _check_one_kind(steps: Sequence[Checkpoint]) -> None:
    adapters = [step for step in steps if step.is_adapter]
    if adapters and len(adapters) < len(steps):
        whole = next(step for step in steps if not step.is_adapter)
        raise RecipeError(
            f"{adapters[0].path.name} is an adapter and {whole.path.name} a whole model; average one kind at a time"
        )
