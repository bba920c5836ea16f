"""One corruption by name: `motion_blur@3`, as flags, rows and file names write it.

`motion_blur@stored` are the damaged pictures that a data set itself holds: nothing is done to them here, and how strong
the damage is, only their makers know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from smelt.errors import RecipeError, unknown
from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS, SEVERITIES, CorruptionKind, SetName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CLEAN", "STORED", "Corruption", "Corruptions", "read_corruptions"]

CLEAN = "clean"
"""The word for pictures as they are, among corruptions."""
STORED: Literal["stored"] = "stored"
"""The severity of pictures that a data set holds damaged."""
_DEFAULT: SetName = "cifar_c"
_SEVERITY = f"{SEVERITIES[0]} to {SEVERITIES[-1]}"


@dataclass(frozen=True)
class Corruption:
    """A kind of corruption at one severity, by one set of numbers and one seed."""

    kind: CorruptionKind
    severity: int | Literal["stored"]
    parameters: SetName = _DEFAULT
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RecipeError(unknown("corruption", self.kind, KINDS))
        if self.stored and (self.parameters, self.seed) != (_DEFAULT, 0):
            raise RecipeError(
                f"{self.kind}@{STORED}: the pictures are stored as they are; leave the set and the seed out"
            )
        if not self.stored and self.severity not in SEVERITIES:
            raise RecipeError(f"{self.kind}: a severity is {_SEVERITY}; got {self.severity}")
        if self.parameters not in PARAMETER_SETS:
            raise RecipeError(f"{self.kind}: {unknown('parameter set', self.parameters, PARAMETER_SETS)}")

    @classmethod
    def parse(cls, name: str, parameters: SetName = _DEFAULT) -> Corruption:
        """Read `motion_blur@3`, `motion_blur@3:imagenet_c` or `motion_blur@3:imagenet_c:seed=7`.

        `parameters` is the set where the name does not say.
        """
        first, *others = name.strip().split(":")
        kind, at, severity = first.partition("@")
        if kind not in KINDS:
            raise RecipeError(unknown("corruption", kind, KINDS))
        if not at:
            raise RecipeError(f"{kind} is given without a severity ({_SEVERITY}); write for example {kind}@3")
        if severity == STORED and others:
            raise RecipeError(f"{name!r}: stored pictures are as they are; leave the set and the seed out")
        if severity == STORED:
            return cls(kind, STORED)
        if not re.fullmatch(r"\d+", severity):
            raise RecipeError(f"{kind}: a severity is {_SEVERITY}; got {severity!r}")
        seeds = [int(one[5:]) for one in others if re.fullmatch(r"seed=\d+", one)]
        sets = [cast("SetName", one) for one in others if not re.fullmatch(r"seed=\d+", one)]
        if len(seeds) > 1 or len(sets) > 1:
            raise RecipeError(
                f"{name!r}: a corruption is written as {kind}@{severity}, then :SET and :seed=N if wanted"
            )
        return cls(kind, int(severity), sets[0] if sets else parameters, seeds[0] if seeds else 0)

    @property
    def stored(self) -> bool:
        """Whether a data set holds the damaged pictures."""
        return self.severity == STORED

    @property
    def name(self) -> str:
        """`motion_blur@3`, and the set and seed where they are not the usual ones; `parse` reads it."""
        parameters = f":{self.parameters}" if self.parameters != _DEFAULT else ""
        return f"{self.kind}@{self.severity}{parameters}{f':seed={self.seed}' if self.seed else ''}"

    def apply(
        self, pictures: Sequence[NDArray[np.uint8]], indices: Sequence[int] | NDArray[np.int64], place: str
    ) -> Sequence[NDArray[np.uint8]]:
        """Corrupt pictures [height, width, 3], which may differ in size; `indices` are their numbers in the split."""
        import numpy as np

        from smelt.tasks.corruptions.corrupt import corrupt

        severity = self.severity
        if severity == "stored":
            raise ValueError(f"{self.name}: nothing is done to stored pictures")

        def together(some: NDArray[np.uint8], numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
            words = {"indices": numbers, "place": place, "parameters": self.parameters, "seed": self.seed}
            return corrupt(some, self.kind, severity, **words)  # type: ignore[arg-type]

        if len({picture.shape for picture in pictures}) == 1:
            return cast("Sequence[NDArray[np.uint8]]", together(np.asarray(pictures), indices))
        return [together(one[None], [int(number)])[0] for one, number in zip(pictures, indices, strict=True)]


Corruptions: TypeAlias = "str | Corruption | Sequence[str | Corruption | None] | None"


def read_corruptions(given: Corruptions, parameters: SetName = _DEFAULT) -> list[Corruption | None]:
    """Corruptions by name or as they are, one or several; none (also `clean`) is the picture as it is.

    `parameters` is the set of those whose names do not say.
    """
    if parameters not in PARAMETER_SETS:
        raise RecipeError(unknown("parameter set", parameters, PARAMETER_SETS))
    several = [given] if given is None or isinstance(given, str | Corruption) else list(given) or [None]
    return [_read(one, parameters) for one in several]


def _read(one: str | Corruption | None, parameters: SetName) -> Corruption | None:
    if isinstance(one, str):
        return None if one == CLEAN else Corruption.parse(one, parameters)
    return one
