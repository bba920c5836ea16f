"""Where a merge runs: what `device` may say, whether it is there, and what `auto` takes.

`auto` weighs the plan (estimate.py) and the GPUs that the driver names, and says why. It loads torch only where it
takes the GPU. Everything after it knows `cpu`, `cuda` or `cuda:1` alone: the fingerprint of a run that can be resumed
holds the kind of device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.caller import option
from smelt.engine.plan.plan import Blocking
from smelt.engine.run.estimate import Estimate, estimate, shown_seconds
from smelt.engine.run.gpu.start import begin, wait
from smelt.errors import RecipeError, did_you_mean
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    import torch

    from smelt.engine.plan.plan import Plan

__all__ = ["AUTO", "DeviceChoice", "check_word", "choose", "data_device", "found_device", "gpus_for", "resolved"]

AUTO = "auto"
_WORTH = 0.8
"""A GPU is taken where the estimate is below so much of the CPU's: estimates are rough, and a CPU's bits are the same
on every machine."""
_ROOM = 0.8
"""The share of a GPU's memory that a merge counts with; the rest is for the context and for others."""


@dataclass(frozen=True)
class DeviceChoice:
    """What `auto` takes."""

    device: str
    reason: str
    seconds: Estimate

    @property
    def note(self) -> str:
        return f"device auto: {self.device}, {self.reason}"


def check_word(name: str) -> str:
    """The device as it was given; refused where no machine could have it. Loads nothing."""
    if isinstance(name, str) and re.fullmatch(r"cpu|auto|cuda(:\d+)?", name):
        return name
    hint = did_you_mean(name, ("cpu", "cuda", AUTO))
    raise RecipeError(f"no device named {name!r}{hint}; write cpu, cuda, cuda:1 or auto")


def choose(plan: Plan, threads: int | None = None) -> DeviceChoice:
    """The device that is estimated to take less time, of those that are here."""
    from smelt.system.hardware import usable_gpus

    cores, gpus = threads or usable_cores(), usable_gpus()
    seconds = estimate(plan, cores, max(1, len(gpus.found)))
    resident = _resident(plan)
    if resident is not None:
        return DeviceChoice(resident, "where the models lie", seconds)
    if not gpus.found:
        return DeviceChoice("cpu", f"no GPU can be used ({gpus.fault})", seconds)
    needed = max(_matrix_memory(plan), default=0)
    smallest = min(one.bytes for one in gpus.found)
    if needed > _ROOM * smallest:
        return DeviceChoice("cpu", f"the largest matrix needs {needed / 1e9:.0f} GB of a GPU's memory", seconds)
    where = gpus.found[0].name if len(gpus.found) == 1 else f"{len(gpus.found)} GPUs"
    both = f"{shown_seconds(seconds.cpu)} on {cores} cores and {shown_seconds(seconds.cuda)} on {where}"
    return DeviceChoice("cuda" if seconds.cuda < _WORTH * seconds.cpu else "cpu", f"estimated {both}", seconds)


def resolved(device: str, plan: Plan, threads: int | None = None) -> tuple[str, tuple[str, ...]]:
    """The device without `auto`, and what there is to say about it."""
    if device != AUTO:
        return device, ()
    choice = choose(plan, threads)
    if choice.device.startswith("cuda"):
        begin(choice.device, solvers=bool(_matrix_memory(plan)))
        import torch

        if not torch.cuda.is_available():  # a driver that is too old for this torch, say
            return "cpu", ("device auto: cpu, since torch cannot use the GPU that the driver names",)
    return choice.device, (choice.note,)


def found_device(name: str) -> str:
    """A device that was checked and resolved, refused if it is not here; loads torch for a GPU."""
    if name == "cpu":
        return name
    wait()  # for what was begun: torch loads its solvers once, and not thread-safely
    import torch

    if not torch.cuda.is_available():
        raise RecipeError(
            f"{option('device', name)}: this torch sees no CUDA device; use cpu, or install a CUDA build of torch"
        )
    count, number = torch.cuda.device_count(), int(name.partition(":")[2] or 0)
    if number >= count:
        raise RecipeError(f"{option('device', name)}: there {_are(count)} here, counted from 0")
    return name


def gpus_for(device: str, plan: Plan) -> list[torch.device]:
    """The devices that whole matrices of a plan are spread over: `cuda` means every GPU, `cuda:1` that one.

    Models that lie on a GPU are merged there.
    """
    import torch

    if device != "cuda":
        return [torch.device(device)]
    current = torch.device("cuda", torch.cuda.current_device())
    count = torch.cuda.device_count()
    if count == 1 or _resident(plan) is not None or not _matrix_memory(plan):
        return [current]
    return [current, *(torch.device("cuda", n) for n in range(count) if n != current.index)]


def data_device(device: str) -> str:
    """Where data is looked at: a network runs on a GPU wherever there is one."""
    from smelt.system.hardware import usable_gpus

    return device if device != AUTO else "cuda" if usable_gpus().found else "cpu"


def _matrix_memory(plan: Plan) -> list[int]:
    """Bytes that the work on each whole matrix takes."""
    from smelt.engine.run.work_memory import eager_thread_memory

    blocking = Blocking.for_device("cuda")
    return [eager_thread_memory(item, blocking) for item in plan.items if item.unit == "matrix" and not item.copied]


def _resident(plan: Plan) -> str | None:
    """The GPU that the first model lies on."""
    first = next((tap for item in plan.items for tap in item.all_taps), None)
    there = first.source.on_device(first.key) if first is not None else None
    return str(there.device) if there is not None and there.device.type == "cuda" else None


def _are(count: int) -> str:
    return "is one GPU" if count == 1 else f"are {count} GPUs"
