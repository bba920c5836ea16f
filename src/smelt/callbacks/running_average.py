"""The running average of a model while it trains, in any loop.

In: a module, and a call after every step of the optimiser. Out: the average of its parameters, in float32 whatever the
model's own format, which can be put in the model's place for a while, written as a folder, saved and read again.

    uniform    the mean of all that was taken in:    a += (w - a) / n
    ema        w weighs 1 - decay:                   a += (w - a) (1 - decay);  with `warm_up` the decay of the n-th is
               at most n / (n + 9), so that the first ones do not stay for long

Parameters are averaged once, whatever names they have (tied weights). Buffers are those of the model as it stands. Of a
PEFT model only what is trained is averaged. This is what torch.optim.swa_utils.AveragedModel computes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from smelt.callbacks.unwrap import check_whole, unwrapped
from smelt.callbacks.write import write_model
from smelt.caller import option
from smelt.errors import CorruptFile, IncompatibleModels, RecipeError, unknown
from smelt.files.reading import is_there, read_json_table
from smelt.files.writing import write_file
from smelt.optimise.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["AverageKind", "RunningAverage", "running_average"]

AverageKind = Literal["uniform", "ema"]
_NUMBERS, _NOTE = "average.safetensors", "running_average.json"
_DISK = "disk"


class RunningAverage:
    """The running average of `model`.

    `kind` is `uniform` or `ema`, which takes `decay` and `warm_up`. Of the steps, those from `since` on count, and of
    these every `every`-th. The numbers lie in float32 on `device`: a device of torch, or `disk`, then in files of
    `folder` (a temporary one if it is None), which go when the average is closed.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        kind: AverageKind = "uniform",
        decay: float = 0.999,
        warm_up: bool = True,
        since: int = 0,
        every: int = 1,
        device: str = "cpu",
        folder: str | Path | None = None,
    ):
        if kind not in get_args(AverageKind):
            raise RecipeError(unknown("kind of running average", kind, get_args(AverageKind)))
        if not 0 < decay < 1:
            raise RecipeError(f"{option('decay', decay)}: is not between 0 and 1")
        if every < 1 or since < 0:
            raise RecipeError(f"every is {every} and since {since}; whole numbers from 1 and from 0 on are needed")
        self._module = unwrapped(model)
        check_whole(self._module)
        self.kind: AverageKind = kind
        self._decay, self._warm_up, self._since, self._every = decay, warm_up, since, every
        self._device, self._folder = device, Path(folder) if folder is not None else None
        self._own_folder: tempfile.TemporaryDirectory[str] | None = None
        self._average: dict[str, Tensor] = {}
        self._swapped: dict[str, Tensor] | None = None
        self.steps = 0
        """The steps that the loop has made."""
        self.count = 0
        """How many of them were taken in."""

    def update(self, step: int | None = None) -> bool:
        """After a step of the optimiser: take the model in, if this step counts. `step` is its number from 1 on; left
        out, it is one more than the last.
        """
        if self._swapped is not None:
            raise RecipeError("the average stands in the model's place; end `swapped()` before the next update")
        self.steps = self.steps + 1 if step is None else step
        if self.steps < self._since or (self.steps - self._since) % self._every:
            return False
        import torch

        self.count += 1
        with torch.no_grad():
            for name, parameter in self._parameters():
                now = parameter.detach().to(self._device_of_numbers, torch.float32)
                if name not in self._average:
                    self._average[name] = self._place(len(self._average), now)
                elif self.kind == "uniform":
                    self._average[name] += (now - self._average[name]) / self.count
                else:
                    self._average[name].lerp_(now, 1 - self._decay_now)
        return True

    @property
    def _decay_now(self) -> float:
        """What the average weighs against the model that is taken in."""
        return min(self._decay, self.count / (self.count + 9)) if self._warm_up else self._decay

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The average in the model's place, rounded to its format; afterwards the model is what it was."""
        self.swap_in()
        try:
            yield
        finally:
            self.swap_out()

    def swap_in(self) -> None:
        """Put the average in the model's place and keep what was there."""
        if self._swapped is not None:
            raise RecipeError("the average stands in the model's place already")
        average = self._taken()
        kept = {name: parameter.detach().to("cpu", copy=True) for name, parameter in self._parameters()}
        self._write({name: average[name] for name in kept})
        self._swapped = kept

    def swap_out(self) -> None:
        """Put back what was in the model's place; nothing where the average is not there."""
        if self._swapped is not None:
            self._write(self._swapped)
            self._swapped = None

    @property
    def is_swapped(self) -> bool:
        """Whether the average stands in the model's place."""
        return self._swapped is not None

    def apply(self) -> None:
        """Make the model the average, for good."""
        self._write(self._taken())

    def average(self) -> Mapping[str, Tensor]:
        """The averaged parameters, in float32, by name; of tied ones the first name."""
        return dict(self._taken())

    def save(self, out: str | Path, *, tokenizer: Any = None, force: bool = False) -> Path:
        """Write the averaged model as an ordinary folder: config and weights as its library saves them, of a PEFT model
        the adapter. `tokenizer` (or a processor) is saved beside; `force` replaces a folder that is there.
        """
        with self.swapped():
            return write_model(self._module, Path(out), tokenizer=tokenizer, force=force)

    def save_state(self, folder: str | Path) -> None:
        """Write what the average needs to go on, into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        save_tensors(place / _NUMBERS, self._average)
        said = {"kind": self.kind, "steps": self.steps, "count": self.count}
        write_file(place / _NOTE, json.dumps(said).encode() + b"\n")  # the last: without it the state is not whole

    def load_state(self, folder: str | Path) -> None:
        """Go on from what `save_state` wrote."""
        place = Path(folder)
        if not is_there(place / _NOTE):
            raise CorruptFile(f"{place}: holds no running average ({_NOTE})")
        said = read_json_table(place / _NOTE)
        steps, count = said.get("steps"), said.get("count")
        if type(steps) is not int or type(count) is not int or min(steps, count) < 0:
            raise CorruptFile(f"{place / _NOTE}: does not say how many steps were made")
        if said.get("kind") != self.kind:
            raise RecipeError(f"{place}: is an average of kind {said.get('kind')!r}, and {self.kind!r} is asked for")
        numbers, _ = load_tensors(place / _NUMBERS)
        own = {name: tuple(parameter.shape) for name, parameter in self._parameters()} if count else {}
        if {name: tuple(tensor.shape) for name, tensor in numbers.items()} != own:
            raise IncompatibleModels([f"{place}: is the average of another model"], "go on")
        self.steps, self.count = steps, count
        self._average = {name: self._place(number, numbers[name]) for number, name in enumerate(own)}

    def close(self) -> None:
        """Put the model back and let the numbers go."""
        self.swap_out()
        self._average = {}
        if self._own_folder is not None:
            self._own_folder.cleanup()
            self._own_folder = None

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        """What is averaged: every parameter once; of a PEFT model those that are trained."""
        some = hasattr(self._module, "peft_config")
        for name, parameter in self._module.named_parameters():
            if parameter.is_floating_point() and (parameter.requires_grad or not some):
                yield name, parameter

    def _taken(self) -> Mapping[str, Tensor]:
        if not self._average:
            raise RecipeError(
                f"the average is empty: {self.steps} steps were made, and it begins at step {self._since}"
                if self._since > self.steps
                else "the average is empty: call update() after the optimiser's step"
            )
        return self._average

    def _write(self, numbers: Mapping[str, Tensor]) -> None:
        import torch

        with torch.no_grad():
            for name, parameter in self._parameters():
                if name in numbers:
                    parameter.copy_(numbers[name])

    @property
    def _device_of_numbers(self) -> str:
        return "cpu" if self._device == _DISK else self._device

    def _place(self, number: int, numbers: Tensor) -> Tensor:
        """Room of its own for numbers, in memory or in a file."""
        import torch

        if self._device != _DISK:
            return numbers.to(self._device, torch.float32, copy=True)
        if not numbers.numel():
            return numbers.clone()
        if self._folder is None:
            self._own_folder = self._own_folder or tempfile.TemporaryDirectory(prefix="smelt-average-")
        folder = self._folder or Path(self._own_folder.name if self._own_folder else ".")
        folder.mkdir(parents=True, exist_ok=True)
        file = str(folder / f"{number}.f32")
        stored = torch.from_file(file, shared=True, size=numbers.numel(), dtype=torch.float32).view(numbers.shape)
        return stored.copy_(numbers)


@contextmanager
def running_average(model: torch.nn.Module, **words: Any) -> Iterator[RunningAverage]:
    """The running average of `model` for a plain loop; other words are those of RunningAverage.

    Afterwards the model is what training made of it, and the average can still be applied or saved.
    """
    average = RunningAverage(model, **words)
    try:
        yield average
    finally:
        average.swap_out()
