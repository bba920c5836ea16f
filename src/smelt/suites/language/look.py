"""A look at data before a merge, with the peak of memory that it took: of the device, or of this process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.prepare.prepare import PreparedRecipe
    from smelt.recipe.schema import Recipe

__all__ = ["look"]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def look(recipe: Recipe, *, device: str, threads: int | None) -> tuple[PreparedRecipe, int]:
    """What is left to merge, and the peak in bytes; 0 where there was nothing to look at, or it was done before.

    A worker that did other things first has had its own peak, which is forgotten before (Linux alone can do that).
    """
    from smelt.prepare.prepare import prepare

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
    if not _STATUS.exists():
        return 0
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
