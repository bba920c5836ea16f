"""How many threads work at once, and how much memory that takes: the same for a run and for its plan."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.engine.plan.matrices import SUMMARIES
from smelt.engine.plan.plan import Item, Plan
from smelt.engine.run.blocks import Blocking
from smelt.errors import RecipeError
from smelt.recipe.schema import parse_size
from smelt.system.cores import usable_cores

__all__ = ["Limits", "default_threads", "limits", "work_memory"]

_USUAL = 320 << 20


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    threads: int
    memory: int
    largest: int
    """Bytes that work on the largest piece takes."""

    @property
    def peak(self) -> int:
        """Bytes of work memory when every thread has the largest piece, or as many threads as may."""
        return min(self.memory, self.threads * self.largest)


def limits(plan: Plan, threads: int | None, memory: int | str | None, device: str = "cpu") -> Limits:
    """Threads as asked for, but no more than fit: by default within 320 MB, or twice the largest matrix."""
    blocking = Blocking.for_device(device)
    item = max(plan.items, key=lambda one: work_memory(one, blocking))
    largest = max(1, work_memory(item, blocking))
    limit = max(2 * largest, _USUAL) if memory is None else parse_size(memory)
    if largest > limit:
        raise RecipeError(
            f"{item.key!r} alone needs {largest / 1e6:.0f} MB of work memory, "
            f"more than the limit of {limit / 1e6:.0f} MB"
        )
    wanted = threads or default_threads()
    return Limits(wanted if device == "cuda" else max(1, min(wanted, limit // largest)), limit, largest)


def default_threads() -> int:
    """As many as the cores this process may use."""
    return usable_cores()


def work_memory(item: Item, blocking: Blocking) -> int:
    """Bytes that working on this item takes: inputs, float32 stack, and a few temporaries of the stack's size.

    A matrix is decomposed in float64, whose temporaries are larger; statistics of whole matrices are kept in it.
    Of a stack of matrices each is worked on by itself.
    """
    item = item.parts[0]
    rows = len(item.taps) + 2
    if item.unit in ("tensor", "matrix"):
        sizes = [tap.source.tensors[tap.key].count for tap in item.statistics]
        each = 8 if item.statistics_kind in SUMMARIES else 4
        return 4 * item.info.count * rows * 6 + each * sum(sizes) + 8 * 5 * max(sizes, default=0)
    rows += len(item.statistics)
    return 4 * min(blocking.block(item), item.info.count) * rows * 3
