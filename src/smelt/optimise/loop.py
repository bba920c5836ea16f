"""The optimiser loop that everything learned shares: an objective and streams of examples in, a trace out.

Knows nothing of merging or mixing. With a folder, parameters, moments and step are saved now and then and when the
run is interrupted; the same call goes on from there and ends with the same bytes as a run that was never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from smelt.errors import NumericalError, OutputError, RecipeError
from smelt.optimise.adam import MOMENTS, Adam
from smelt.optimise.batch_indices import batch_indices
from smelt.optimise.interrupt import patient_interrupt

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.tasks.examples import ExampleBatch, ExampleStream

__all__ = ["GroupedObjective", "Objective", "Stop", "Tell", "optimise"]

Tell = Callable[[dict[str, Any]], None]
"""Receives the line of the trace that each step adds."""
Stop = Callable[[], bool]
"""Asked before each step whether to end the run there, its state saved."""


class Objective(Protocol):
    """What is made smaller."""

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """The leaf tensors that are optimised, in float32; the loop changes them in place."""

    def gradients(self, batches: Mapping[str, ExampleBatch]) -> tuple[Mapping[str, Tensor], Mapping[str, float]]:
        """At the present parameters: the gradient of the summed losses by parameter, and the loss by task."""


@runtime_checkable
class GroupedObjective(Protocol):
    """An objective whose gradients come some at a time, so that they never exist all at once."""

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """As an Objective's."""

    def grouped_gradients(
        self, batches: Mapping[str, ExampleBatch]
    ) -> tuple[Iterator[Mapping[str, Tensor]], Mapping[str, float]]:
        """The gradients, each parameter's once, and the loss by task; parameters that were given may change at once."""


def optimise(
    objective: Objective | GroupedObjective,
    streams: Mapping[str, ExampleStream],
    *,
    steps: int,
    lr: float,
    batch: int,
    seed: int = 0,
    folder: Path | None = None,
    save_every: int = 50,
    save_last: bool = True,
    stop: Stop | None = None,
    tell: Tell | None = None,
) -> list[dict[str, Any]]:
    """Take `steps` steps of Adam; each looks at `batch` examples of every stream.

    Gives the trace: for each step its number, the loss by task and the seconds it took. With `folder` a run that was
    interrupted goes on; one that asks for more steps than were taken continues; other words are refused. Where the
    objective has an `after_step`, it is called after each step (to keep parameters in their range). Without `save_last`
    the end of a whole run is not saved: its caller takes what it needs there and then.
    """
    _check(streams, steps, batch)
    run = _Optimisation(objective, streams, lr, batch, seed, folder, steps)
    try:
        with patient_interrupt() as interrupted:
            while run.step < steps:
                if interrupted() or (stop is not None and stop()):
                    break
                line = run.advance()
                if tell is not None:
                    tell(line)
                if run.step % save_every == 0 and run.step < steps:
                    run.save()
            run.save() if save_last or run.step < steps else run.save_trace()
            if interrupted():
                raise _interruption(run, folder)
    finally:
        run.close()
    return run.trace


class _Optimisation:
    """Parameters, moments, trace, and where they are kept."""

    def __init__(
        self,
        objective: Objective | GroupedObjective,
        streams: Mapping[str, ExampleStream],
        lr: float,
        batch: int,
        seed: int,
        folder: Path | None,
        steps: int,
    ):
        self._objective, self._streams = objective, dict(streams)
        self._lr, self._batch, self._seed = lr, batch, seed
        self._parameters = dict(objective.parameters)
        self._adam = Adam(self._parameters, lr)
        self.step, self.trace = 0, list[dict[str, Any]]()
        self._state = None
        if folder is not None:
            from smelt.optimise.state import OptimiserState

            self._state = OptimiserState(folder, self._words())
            try:
                self._resume(steps)
            except BaseException:
                self.close()
                raise

    def advance(self) -> dict[str, Any]:
        """One step."""
        began = time.perf_counter()
        batches = {
            name: stream.batch(batch_indices(self._seed, stream.name, self.step, size=len(stream), batch=self._batch))
            for name, stream in self._streams.items()
        }
        groups, losses = self._gradients(batches)
        self._check_losses(losses)
        for gradients in groups:
            self._check_gradients(gradients, losses)
            self._adam.step(gradients)
        after = getattr(self._objective, "after_step", None)
        if after is not None:
            after()
        line = {"step": self.step, "loss": dict(losses), "seconds": time.perf_counter() - began}
        self.step += 1
        self.trace.append(line)
        return line

    def _gradients(
        self, batches: Mapping[str, ExampleBatch]
    ) -> tuple[Iterator[Mapping[str, Tensor]], Mapping[str, float]]:
        if isinstance(self._objective, GroupedObjective):
            return self._objective.grouped_gradients(batches)
        gradients, losses = self._objective.gradients(batches)
        return iter([gradients]), losses

    def save(self) -> None:
        """Put all that the next step depends on onto the disk."""
        if self._state is None:
            return
        tensors = {f"parameter/{name}": tensor for name, tensor in self._parameters.items()}
        for name in self._parameters:
            tensors |= {f"{word}/{name}": moment for word, moment in self._adam.moments(name).items()}
        self._state.save(self.step, tensors, self.trace)

    def save_trace(self) -> None:
        """Put the trace alone onto the disk."""
        if self._state is not None:
            self._state.save_trace(self.trace)

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _resume(self, steps: int) -> None:
        import torch

        assert self._state is not None
        saved = self._state.load()
        if saved is None:
            return
        self.step, tensors, self.trace = saved
        if self.step > steps:
            raise RecipeError(
                f"{self._state.folder}: {self.step} steps were taken there already, more than the {steps} asked for; "
                "ask for at least as many, or choose another folder"
            )
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(tensors[f"parameter/{name}"])
                moments = {word: tensors[f"{word}/{name}"] for word in MOMENTS if f"{word}/{name}" in tensors}
                self._adam.restore(name, moments)

    def _words(self) -> dict[str, Any]:
        """What the numbers depend on, beside the number of steps."""
        from smelt.optimise.state import digest

        return {
            "lr": self._lr,
            "batch": self._batch,
            "seed": self._seed,
            "streams": {name: stream.hash for name, stream in self._streams.items()},
            "parameters": {name: digest(tensor) for name, tensor in self._parameters.items()},
            **getattr(self._objective, "words", {}),
        }

    @property
    def _remedy(self) -> str:
        return f"try a smaller lr (it is {self._lr:g}), or look for NaN in the models"

    def _check_losses(self, losses: Mapping[str, float]) -> None:
        for task, loss in losses.items():
            if not math.isfinite(loss):
                raise NumericalError(f"step {self.step}: the loss on {task} is {loss}; {self._remedy}")

    def _check_gradients(self, gradients: Mapping[str, Tensor], losses: Mapping[str, float]) -> None:
        for name, gradient in gradients.items():
            if not math.isfinite(float(gradient.sum())) and not gradient.isfinite().all():
                tasks = ", ".join(losses)
                raise NumericalError(
                    f"step {self.step}: the gradient of {name!r} is not finite (tasks: {tasks}); {self._remedy}"
                )


def _check(streams: Mapping[str, ExampleStream], steps: int, batch: int) -> None:
    if not streams:
        raise RecipeError("there is nothing to learn from: no streams of examples were given")
    if steps < 1 or batch < 1:
        raise RecipeError(f"steps and batch are at least 1; got {steps} and {batch}")
    small = [f"{name} has {len(stream)}" for name, stream in streams.items() if len(stream) < batch]
    if small:
        raise RecipeError(
            f"a step takes {batch} examples of each task, but {', '.join(small)}; give more examples or a smaller batch"
        )


def _interruption(run: _Optimisation, folder: Path | None) -> BaseException:
    if folder is None:
        return KeyboardInterrupt()
    return OutputError(f"interrupted after {run.step} steps, which are kept in {folder}; run the same again to go on")
