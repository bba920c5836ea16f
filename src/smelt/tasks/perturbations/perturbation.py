"""What is perturbed, how often and from which seed: the settings of a measurement of uncertainty."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PROMPTS", "Perturbation"]


_ASSISTANTS = ("helpful", "question-answering", "nice")
_SPELLINGS = ("you are a {} assistant", "You are a {} assistant", "You are a {} assistant.")

PROMPTS = tuple(spelling.format(kind) for spelling in _SPELLINGS for kind in _ASSISTANTS)
"""The nine prompts that perturb a text, as in the list of UQ-Merge's paper: three kinds of assistant, each written in
three ways. They go in front of the whole conversation, without a separator; each is as likely as the others."""


@dataclass(frozen=True)
class Perturbation:
    """Which parts are perturbed in each of the passes. The defaults are those of UQ-Merge's code."""

    image: bool = True
    """AugMix on the picture as it is stored, before the model's own resize."""
    text: bool = True
    """One of nine prompts in front of the conversation."""
    model: bool = True
    """Dropout on the attention probabilities."""
    passes: int = 4
    dropout: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.passes, bool) or not isinstance(self.passes, int) or self.passes < 1:
            raise RecipeError(f"passes: how often each sample is asked, at least 1; got {self.passes!r}")
        if not 0 <= self.dropout < 1:
            raise RecipeError(f"dropout: a share of the attention, from 0 to less than 1; got {self.dropout!r}")

    @property
    def rate(self) -> float:
        """The dropout that is done: 0 where the model is left as it is."""
        return self.dropout if self.model else 0.0

    def seed_of(self, task: str, sample: int, number: int) -> int:
        """The seed of one pass of one sample, in 63 bits; the same for every model. `task` names its split too."""
        name = f"{self.seed}\0{task}\0{sample}\0{number}".encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1

    def picture(self, pixels: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
        """The picture [height, width, 3] of one pass; the picture itself where pictures are left as they are."""
        if not self.image:
            return pixels
        from smelt.tasks.perturbations.augmix import augmix

        return augmix(pixels, seed)

    def prefix(self, seed: int) -> str:
        """What one pass has in front of its conversation, without a separator; nothing where texts are left."""
        if not self.text:
            return ""
        from smelt.tasks.perturbations.augmix import draws

        return PROMPTS[int(draws(seed, "prompt", 1)[0] * len(PROMPTS))]

    def repeated(self, repeat: int) -> Perturbation:
        """The same with other draws; the first repeat (0) is this one."""
        return self if repeat == 0 else dataclasses.replace(self, seed=self.seed_of("repeat", repeat, 0))

    def words(self) -> dict[str, Any]:
        """Plain data that the draws follow from: two perturbations with the same words do the same."""
        return dataclasses.asdict(self) | {"dropout": self.rate, "model": self.rate > 0}
