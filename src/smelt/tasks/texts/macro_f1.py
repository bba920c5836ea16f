"""Macro F1: the plain mean over classes of the harmonic mean of precision and recall.

    F1 of a class = 2 right / (texts of the class + answers that are the class)

Over the classes that some text or some answer has. The interval is a bootstrap over texts with a fixed seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["macro_f1", "macro_f1_interval"]

_DRAWS = 1000


def macro_f1(labels: NDArray[np.int64], answers: NDArray[np.int64]) -> float:
    """Of right labels [n] and answers [n], 0 to 1."""
    import numpy as np

    size = int(max(labels.max(), answers.max())) + 1
    right = np.bincount(labels[labels == answers], minlength=size)
    there = np.bincount(labels, minlength=size) + np.bincount(answers, minlength=size)
    return float((2 * right[there > 0] / there[there > 0]).mean())


def macro_f1_interval(labels: NDArray[np.int64], answers: NDArray[np.int64], *, seed: int = 0) -> tuple[float, float]:
    """95 %; the same answers give the same interval."""
    import numpy as np

    draw, n = np.random.default_rng(seed), len(labels)
    drawn = (draw.integers(0, n, n) for _ in range(_DRAWS))
    low, high = np.percentile([macro_f1(labels[some], answers[some]) for some in drawn], [2.5, 97.5])
    return float(low), float(high)
