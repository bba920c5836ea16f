"""Looks at a model while it is trained, on examples that it does not learn from; the best weights, and an early end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.files.writing import write_file
from smelt.optimise.state import read_trace
from smelt.optimise.tensors import load_tensors, save_tensors
from smelt.training.loop import Hooks, trained_state

if TYPE_CHECKING:
    from smelt.system.progress import Progress
    from smelt.tasks.examples import ExampleStream
    from smelt.training.trainee import Trainee

__all__ = ["Looks"]

_LOOKS, _BEST = "validations.jsonl", "best.safetensors"


class Looks(Hooks):
    """Asks the model now and then. What it found lies in the run's folder, so that a run that goes on knows it."""

    def __init__(
        self,
        trainee: Trainee,
        streams: Mapping[str, ExampleStream],
        steps: int,
        folder: Path,
        progress: Progress,
    ):
        self._trainee, self._streams, self._steps, self._folder = trainee, streams, steps, folder
        self._progress, self._recipe = progress, trainee.recipe
        self.found: list[dict[str, Any]] = []

    def begin(self, done: int) -> None:
        """Take up what an earlier run found in its first `done` steps."""
        self.found = [one for one in read_trace(self._folder / _LOOKS) if one["step"] <= done]

    def after_step(self, step: int, loss: float) -> bool:
        self._progress.advance(self._recipe.batch)
        words, done = self._recipe.validation, step + 1
        if words is None or (done % words.every and done != self._steps):
            return False
        size = self._recipe.micro_batch or self._recipe.batch
        self.found += [
            {
                "step": done,
                "task": name,
                "measure": self._trainee.measure,
                "value": self._trainee.validate(stream, size),
            }
            for name, stream in self._streams.items()
        ]
        write_file(self._folder / _LOOKS, "".join(json.dumps(one) + "\n" for one in self.found))
        if words.patience is None:
            return False
        best = self._best()
        if best == done:
            self._trainee.objective.train()
            save_tensors(self._folder / _BEST, trained_state(self._trainee.objective), {"step": str(done)})
        later = {one["step"] for one in self.found if one["step"] > best}
        return len(later) >= words.patience

    def take_best(self) -> int | None:
        """With `patience`: give the model the weights of the best look; gives its step."""
        import torch

        if self._recipe.validation is None or self._recipe.validation.patience is None or not self.found:
            return None
        saved, _ = load_tensors(self._folder / _BEST)
        self._trainee.objective.train()
        with torch.no_grad():
            for name, tensor in trained_state(self._trainee.objective).items():
                tensor.copy_(saved[name])
        return self._best()

    def _best(self) -> int:
        """The step of the best look: by the mean over tasks, the first of equals."""
        sign = -1 if self._trainee.measure == "loss" else 1
        means: dict[int, list[float]] = {}
        for one in self.found:
            means.setdefault(one["step"], []).append(sign * one["value"])
        return max(means, key=lambda step: sum(means[step]) / len(means[step]))
