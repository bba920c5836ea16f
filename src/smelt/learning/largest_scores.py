"""The largest of all scores of a model, exactly as many as asked for, without the scores ever standing in one row.

float32 numbers sort like their bits (those of negative ones turned over), so the border is found by counting: once by
the upper 16 bits, once by the lower 16 of those that share the border's upper ones. Sorting 100 million numbers would
take five times the memory that they take themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from smelt.ops.order import share

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["each_top", "top"]

_AT_ONCE = 1 << 22
_HALF = 16


def top(keys: Iterable[str], scores: Callable[[str], Tensor], density: float) -> dict[str, Tensor]:
    """True for exactly floor(density · count) of the scores of all keys, the largest; of equal ones the first.

    `scores(key)` is asked for several times.
    """
    return dict(each_top(keys, scores, density))


def each_top(keys: Iterable[str], scores: Callable[[str], Tensor], density: float) -> Iterator[tuple[str, Tensor]]:
    """The same, one tensor after the other."""
    import torch

    keys = list(keys)
    sizes = {key: scores(key).numel() for key in keys}
    total = sum(sizes.values())
    wanted = share(total, density)
    if wanted in (0, total):
        for key in keys:
            yield key, torch.full_like(scores(key), bool(wanted), dtype=torch.bool)
        return
    coarse = sum(_counted((rank >> _HALF) + (1 << 15)) for key in keys for rank in _ranks(scores(key)))
    upper, above = _bin(coarse, wanted)
    upper -= 1 << 15
    fine = sum(_counted(rank[(rank >> _HALF) == upper] & 0xFFFF) for key in keys for rank in _ranks(scores(key)))
    lower, more = _bin(fine, wanted - above)
    border, spare = (upper << _HALF) + lower, wanted - above - more
    for key in keys:
        own = scores(key)
        rank = torch.cat(list(_ranks(own)))
        mask = rank > border
        if spare:
            equal = (rank == border).nonzero()[:spare, 0]
            mask[equal] = True
            spare -= len(equal)
        yield key, mask.view(own.shape)


def _ranks(scores: Tensor) -> Iterator[Tensor]:
    """Whole numbers in the order of the scores, some at a time."""
    import torch

    for some in torch.split(scores.detach().reshape(-1).float(), _AT_ONCE):
        bits = (some + 0.0).view(torch.int32)  # there is one zero, not two
        yield torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _counted(bins: Tensor) -> Tensor:
    import torch

    return torch.bincount(bins, minlength=1 << _HALF).cpu()


def _bin(counts: Tensor | int, rank: int) -> tuple[int, int]:
    """The bin that holds the rank-th largest, and how many lie in the bins above it."""
    import torch

    assert isinstance(counts, torch.Tensor)
    from_top = counts.flip(0).cumsum(0)
    place = int(torch.searchsorted(from_top, rank))
    above = int(from_top[place - 1]) if place else 0
    return len(counts) - 1 - place, above
