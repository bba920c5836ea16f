"""Merges that differ in their scale alone: the merged change is made once, and a scale is one pass over it.

    merged(s) = base + s * change         change: as the method gives it at scale 1, in float32

In: plans of recipes in which all that follows the steps `stretches`. Out: state dicts. A pass multiplies, adds and
rounds in the order in which the method does, so the result is to the bit that of a whole merge. Where a wrapper or a
basis follows the multiplication, it is so up to the rounding of the change.

The change is in memory, or in a file without a name where it is too large for that. What is only copied is kept too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smelt.engine.merge import Options, plan_to_memory
from smelt.engine.plan.plan import Item, Plan, RunStage, Tap
from smelt.formats import dtype as dtypes
from smelt.formats.safetensors.header import TensorInfo
from smelt.formats.source import MemorySource, Source
from smelt.methods import stages

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Change", "change_plan", "stretched_plan"]

_FLOAT32 = "F32"
_ALIGNED = 64


@dataclass(frozen=True)
class Change:
    """How far a merge goes from the base at scale 1, and what it copies."""

    source: Source
    copied: dict[str, Tensor]
    nbytes: int
    """Bytes of all of it, wherever it lies."""

    @classmethod
    def of(cls, plan: Plan, options: Options, *, memory: int) -> Change:
        """The change of a plan, whatever its scale; what is larger than `memory` bytes lies in a file."""
        wanted = change_plan(plan)
        fits = wanted.bytes_out <= memory
        state = plan_to_memory(wanted, options, new=None if fits else _File(wanted.items).empty)
        copies = _only(plan, lambda item: item.copied)
        copied = plan_to_memory(copies, options) if copies.items else {}
        return cls(MemorySource("the merged change", state), copied, wanted.bytes_out + copies.bytes_out)

    def at(self, plan: Plan, options: Options) -> dict[str, Tensor]:
        """The merged model of a plan that differs in its scale alone; what is copied is shared by all of them."""
        state = {**self.copied, **plan_to_memory(stretched_plan(plan, self.source), options)}
        state = {item.key: state[item.key] for item in plan.items}
        return state | {name: state[twin] for name, twin in plan.tied.items() if twin in state}


def change_plan(plan: Plan) -> Plan:
    """What makes the change: everything that is merged, at scale 1, in float32, without the base."""
    known: dict[int, tuple[RunStage, ...]] = {}

    def changed(item: Item) -> Item:
        run = known.setdefault(id(item.stages), tuple(map(_at_one, item.stages)))
        return replace(item, info=TensorInfo(_FLOAT32, item.info.shape), stages=run, gives="delta")

    merged = _only(plan, lambda item: not item.copied)
    return replace(merged, items=tuple(changed(item) for item in merged.items))


def stretched_plan(plan: Plan, change: Source) -> Plan:
    """What makes the model of a plan from its change: task arithmetic of one model whose change is known."""
    known: dict[tuple[int, int, float], tuple[RunStage, ...]] = {}

    def stretched(item: Item) -> Item:
        method = next(run for run in item.stages if run.stage.kind == "method")
        scale = method.parameters["scale"]
        place = (method.pipeline, method.position, scale)
        if place not in known:
            words = {"scale": scale, "weights": [1.0], "normalize": False}
            known[place] = (RunStage(stages["task_arithmetic"], method.pipeline, method.position, words),)
        taps = (Tap("change", change, item.key),)
        return replace(item, taps=taps, stages=known[place], unit="element", statistics=(), takes="delta")

    merged = _only(plan, lambda item: not item.copied)
    return replace(merged, items=tuple(stretched(item) for item in merged.items))


def _only(plan: Plan, which: Callable[[Item], bool]) -> Plan:
    return replace(plan, items=tuple(item for item in plan.items if which(item)), tied={})


def _at_one(run: RunStage) -> RunStage:
    return replace(run, parameters={**run.parameters, "scale": 1.0}) if run.stage.kind == "method" else run


class _File:
    """Room for tensors in a temporary file that has lost its name: it is gone when the last of them is.

    Its blocks are claimed at once, so that a full disk is an error here and not a signal later.
    """

    def __init__(self, items: Iterable[Item]):
        import torch

        size = sum(_room(item.info) for item in items)
        descriptor, path = tempfile.mkstemp(prefix="smelt-change-")
        try:
            if hasattr(os, "posix_fallocate"):  # not on a Mac
                os.posix_fallocate(descriptor, 0, size)
            os.truncate(descriptor, size)
            self._bytes: torch.Tensor = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
        finally:
            os.close(descriptor)
            os.unlink(path)
        self._used = 0

    def empty(self, info: TensorInfo) -> Tensor:
        start, self._used = self._used, self._used + _room(info)
        raw = self._bytes[start : start + info.nbytes]
        return raw.view(dtypes.torch_dtype(info.dtype)).view(info.shape)


def _room(info: TensorInfo) -> int:
    return -(-info.nbytes // _ALIGNED) * _ALIGNED
