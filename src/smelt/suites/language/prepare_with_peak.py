"""Preparing a merge (measuring, learning), with the peak of memory that it took: of the device, or of this process."""

from __future__ import annotations

import contextlib
from pathlib import Path

from smelt.prepare.prepare import PreparedRecipe, prepare
from smelt.recipe.schema import Recipe
from smelt.suites.merge_process import peak_of_process

__all__ = ["prepare_with_peak"]

_RESET = Path("/proc/self/clear_refs")


def prepare_with_peak(recipe: Recipe, *, device: str, threads: int | None) -> tuple[PreparedRecipe, int]:
    """What is left to merge, and the peak in bytes; 0 where there was nothing to look at, or it was done before.

    A worker that did other things first has had its own peak, which is forgotten before (Linux alone can do that).
    """
    _forget_peak(device)
    prepared = prepare(recipe, device=device, threads=threads)
    return prepared, _peak(device) if prepared.seconds > 0 and not prepared.cached else 0


def _forget_peak(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        _RESET.write_text("5")


def _peak(device: str) -> int:
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return peak_of_process() or 0
