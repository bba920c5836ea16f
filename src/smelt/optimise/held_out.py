"""When to stop learning: the last tenth of every stream is held out, and the loss on it is looked at now and then.

    ends at the check whose mean loss is not a thousandth lower than the lowest of all earlier checks

A check is due before every `patience`-th step. Its loss stands in the trace of the step that follows, so that a run
that was interrupted decides as one that was not. What is learned is what there was at the last check.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError, RecipeError

if TYPE_CHECKING:
    from smelt.optimise.loop import Objective
    from smelt.recipe.schema import DataBudget
    from smelt.tasks.examples import ExampleBatch, ExampleStream

__all__ = ["HeldOut"]

_SHARE = 10
_MOST = 256
"""Examples of a stream that are held out, at most."""
_LEAST_FALL = 1e-3


class HeldOut:
    """What is held out of some streams; `rest` is what is learned from."""

    def __init__(self, streams: Mapping[str, ExampleStream], batch: int, patience: int):
        if patience < 1:
            raise RecipeError(f"patience is a number of steps, at least 1; got {patience}")
        self._batch, self._patience = batch, patience
        sizes = {name: min(_MOST, len(stream) // _SHARE) for name, stream in streams.items()}
        small = [f"{name} has {len(streams[name])}" for name, size in sizes.items() if size < 1]
        if small:
            raise RecipeError(
                f"patience holds a tenth of the examples out, but {', '.join(small)}; give more, or leave patience out"
            )
        self.rest: dict[str, ExampleStream] = {
            name: _Part(stream, range(len(stream) - sizes[name])) for name, stream in streams.items()
        }
        self._held = {name: (stream, range(len(stream) - sizes[name], len(stream))) for name, stream in streams.items()}

    def is_due(self, trace: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the loss is to be looked at before the next step."""
        return len(trace) % self._patience == 0

    def has_stopped(self, trace: Sequence[Mapping[str, Any]], now: float) -> bool:
        """Whether the loss now is no lower than it was at the earlier checks."""
        earlier = [float(line["held_out"]) for line in trace if "held_out" in line]
        lowest = min(earlier, default=math.inf)
        return bool(earlier) and now > lowest - _LEAST_FALL * abs(lowest)

    def loss(self, objective: Objective) -> float:
        """The mean over tasks of the mean loss of their held-out examples, at the objective's present parameters."""
        totals = dict.fromkeys(self._held, 0.0)
        for start in range(0, max(len(places) for _, places in self._held.values()), self._batch):
            some = {name: places[start : start + self._batch] for name, (_, places) in self._held.items()}
            batches = {name: self._held[name][0].batch(part) for name, part in some.items() if part}
            _, losses = objective.gradients(batches)
            for name, loss in losses.items():
                totals[name] += loss * len(some[name])
        found = sum(total / len(self._held[name][1]) for name, total in totals.items()) / len(totals)
        if not math.isfinite(found):
            raise NumericalError(f"the loss on held-out examples is {found}; try a smaller lr")
        return found


class _Part:
    """Some examples of a stream."""

    def __init__(self, stream: ExampleStream, places: range):
        self._stream, self._places = stream, places
        self.name, self.hash = stream.name, f"{stream.hash}[{places.start}:{places.stop}]"
        self.budget: DataBudget = stream.budget

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, indices: Sequence[int]) -> ExampleBatch:
        return self._stream.batch([self._places[index] for index in indices])

    def batches(self, size: int) -> Iterator[ExampleBatch]:
        for start in range(0, len(self), size):
            yield self.batch(range(start, min(start + size, len(self))))
