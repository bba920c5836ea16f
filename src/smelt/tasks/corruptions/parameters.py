"""The two published sets of numbers, a value per severity from 1 to 5.

`imagenet_c` is for pictures of 224×224, `cifar_c` for 32×32: Hendrycks & Dietterich 2019, arXiv:1903.12261, and the
code that goes with it. FusionBench's robustness tables were made with the second. Shares, qualities and the spread of
noise mean the same at every size; lengths (of motion blur and spatter) are in pixels of the set's own `side` and
scale with the shorter side of a picture. Pixelate is a share of the picture here too; FusionBench's generator made
every picture 32×32 whatever it was before, which is why its Cars fall to 2 %.

Two steps of `cifar_c` are none: motion blur 3 and 4 are the same (their paths differ only beyond six sigma), and
spatter 4 is less than 3 (little mud after much water).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

__all__ = [
    "KINDS",
    "PARAMETER_SETS",
    "SEVERITIES",
    "CorruptionKind",
    "Five",
    "Mud",
    "ParameterSet",
    "SetName",
    "Trail",
    "Water",
]

CorruptionKind = Literal["motion_blur", "impulse_noise", "gaussian_noise", "pixelate", "spatter", "contrast", "jpeg"]
SetName = Literal["cifar_c", "imagenet_c"]

KINDS: tuple[CorruptionKind, ...] = get_args(CorruptionKind)
"""In the order of FusionBench's table."""
SEVERITIES = (1, 2, 3, 4, 5)

Five: TypeAlias = tuple[float, float, float, float, float]


class Trail(NamedTuple):
    """Motion blur: the path is 2·radius long, the weight along it is half a bell of this sigma."""

    radius: float
    sigma: float


class Water(NamedTuple):
    """Pale drops where normal noise of this level and spread, blurred, exceeds the threshold."""

    level: float
    spread: float
    blur: float
    threshold: float
    strength: float


class Mud(NamedTuple):
    """Brown drops, found in the same way; the drops are blurred once more, and only their cores stay."""

    level: float
    spread: float
    blur: float
    threshold: float
    soften: float


@dataclass(frozen=True)
class ParameterSet:
    """A number, or a few, for each severity of each kind."""

    side: int
    """Of the pictures that its lengths are meant for."""
    motion_blur: tuple[Trail, Trail, Trail, Trail, Trail]
    impulse_noise: Five
    """The share of numbers that become 0 or 255."""
    gaussian_noise: Five
    """The standard deviation, where white is 1."""
    pixelate: Five
    """The side in blocks, as a share of the side in pixels."""
    spatter: tuple[Water, Water, Water, Mud, Mud]
    contrast: Five
    """The share of the distance from the mean that stays."""
    jpeg: tuple[int, int, int, int, int]
    """The quality, as libjpeg counts it."""


PARAMETER_SETS: dict[SetName, ParameterSet] = {
    "cifar_c": ParameterSet(
        side=32,
        motion_blur=(Trail(6, 1), Trail(6, 1.5), Trail(6, 2), Trail(8, 2), Trail(9, 2.5)),
        impulse_noise=(0.01, 0.02, 0.03, 0.05, 0.07),
        gaussian_noise=(0.04, 0.06, 0.08, 0.09, 0.10),
        pixelate=(0.95, 0.9, 0.85, 0.75, 0.65),
        spatter=(
            Water(0.62, 0.1, 0.7, 0.7, 0.5),
            Water(0.65, 0.1, 0.8, 0.7, 0.5),
            Water(0.65, 0.3, 1, 0.69, 0.5),
            Mud(0.65, 0.1, 0.7, 0.69, 0.6),
            Mud(0.65, 0.1, 0.5, 0.68, 0.6),
        ),
        contrast=(0.75, 0.5, 0.4, 0.3, 0.15),
        jpeg=(80, 65, 58, 50, 40),
    ),
    "imagenet_c": ParameterSet(
        side=224,
        motion_blur=(Trail(10, 3), Trail(15, 5), Trail(15, 8), Trail(15, 12), Trail(20, 15)),
        impulse_noise=(0.03, 0.06, 0.09, 0.17, 0.27),
        gaussian_noise=(0.08, 0.12, 0.18, 0.26, 0.38),
        pixelate=(0.6, 0.5, 0.4, 0.3, 0.25),
        spatter=(
            Water(0.65, 0.3, 4, 0.69, 0.6),
            Water(0.65, 0.3, 3, 0.68, 0.6),
            Water(0.65, 0.3, 2, 0.68, 0.5),
            Mud(0.65, 0.3, 1, 0.65, 1.5),
            Mud(0.67, 0.4, 1, 0.65, 1.5),
        ),
        contrast=(0.4, 0.3, 0.2, 0.1, 0.05),
        jpeg=(25, 18, 15, 10, 7),
    ),
}
