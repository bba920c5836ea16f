"""Which examples a step looks at: a function of (seed, task, step) alone, so that a resumed run sees the same ones.

Steps go through a task's examples epoch after epoch, each in an order of its own. An order is the sorting of random
64-bit numbers that a counter-based generator gives for (seed, task, epoch); it is the same on every machine.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["batch_indices"]


def batch_indices(seed: int, task: str, step: int, *, size: int, batch: int) -> list[int]:
    """The places of the `batch` examples of one step among the `size` examples of a task."""
    chosen: list[int] = []
    position = step * batch
    while len(chosen) < batch:
        epoch, start = divmod(position + len(chosen), size)
        chosen += _order(seed, task, epoch, size)[start : start + batch - len(chosen)].tolist()
    return chosen


@lru_cache(maxsize=256)
def _order(seed: int, task: str, epoch: int, size: int) -> NDArray[np.int64]:
    import numpy as np

    key = hashlib.blake2b(f"{seed}\0{task}\0epoch {epoch}".encode(), digest_size=16).digest()
    draws = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(size)
    return np.argsort(draws, kind="stable")
