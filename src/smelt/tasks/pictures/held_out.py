"""A part of the training data held out for validation: drawn by a seed, with every class on both sides.

FusionBench's validation sets are the last tenth of `torch.randperm` with the seed 0 (torch's `random_split`), whatever
the classes; so is this one, but for a few examples that change sides so that no class is missing on either. The order
is computed here, step by step as torch does, so that it stays the same with any version of any library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["held_out", "shuffled_as_torch"]


def held_out(labels: Sequence[int], fraction: float, seed: int) -> list[int]:
    """The places of the examples that are held out, in their own order; a class with one example is not.

    Of n examples int(n · fraction) are held out; more, if that is fewer than there are classes.
    """
    order = shuffled_as_torch(len(labels), seed)
    border = len(order) - int(len(order) * fraction)
    kept, out = order[:border], order[border:]
    several = sorted(label for label, count in Counter(labels).items() if count > 1)
    _exchange(kept, out, labels, several)
    _exchange(out, kept, labels, several)
    alone = {label for label, count in Counter(labels).items() if count == 1}
    return sorted(place for place in out if labels[place] not in alone)


def _exchange(giving: list[int], taking: list[int], labels: Sequence[int], classes: Sequence[int]) -> None:
    """Let `taking` have an example of each class that it lacks, for one of a class that it has the most of."""
    has = Counter(labels[place] for place in taking)
    for label in classes:
        if has[label]:
            continue
        comes = next(place for place in reversed(giving) if labels[place] == label)
        giving.remove(comes)
        taking.append(comes)
        has[label] += 1
        most = max(has, key=lambda one: (has[one], -one))
        if has[most] > 1:
            goes = next(place for place in taking if labels[place] == most)
            taking.remove(goes)
            giving.insert(0, goes)
            has[most] -= 1


def shuffled_as_torch(count: int, seed: int) -> list[int]:
    """The numbers below `count` in the order of `torch.randperm(count, generator=Generator().manual_seed(seed))`.

    Each place from the first on is exchanged with one that is not behind it, by the next 32 bits of a Mersenne Twister;
    numpy promises that those of a RandomState never change.
    """
    import numpy as np

    bits = np.random.RandomState(seed).randint(0, 1 << 32, size=max(count - 1, 0), dtype=np.uint32)
    order = list(range(count))
    for place, drawn in enumerate(bits.tolist()):
        other = place + drawn % (count - place)
        order[place], order[other] = order[other], order[place]
    return order
