"""Corruptions: pictures in, worse pictures out. Seven kinds, five severities, two published sets of numbers.

Bytes [n, height, width, 3] come in and go out, of any size. The randomness of a picture belongs to its place (task,
split, index), so a part of a split, another batch size or more threads give the same pixels. Knows nothing of models.

    corrupt(pictures, "motion_blur", 3, indices=range(len(pictures)), place="photos/test")
    Corruption.parse("motion_blur@3").apply(pictures, indices, "photos/test")
"""

from __future__ import annotations

from smelt.tasks.corruptions.corruption import CLEAN, Corruption, Corruptions, read_corruptions
from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS, SEVERITIES, Kind, SetName

__all__ = [
    "CLEAN",
    "KINDS",
    "PARAMETER_SETS",
    "SEVERITIES",
    "Corruption",
    "Corruptions",
    "Kind",
    "SetName",
    "corrupt",
    "read_corruptions",
]


def __getattr__(name: str) -> object:
    if name != "corrupt":  # the one that loads numpy
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from smelt.tasks.corruptions.corrupt import corrupt

    return corrupt
