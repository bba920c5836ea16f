"""What a family of models knows of itself: which tensors are merged, and how one of them becomes a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.preprocess import Preprocess

__all__ = ["Classifier", "Family", "Loaded"]


class Loaded(Protocol):
    """A model in memory, of any family."""

    @property
    def label(self) -> str:
        """How messages and rows call it."""

    @property
    def hash(self) -> str:
        """A hash over its numbers, whatever file or format they came in."""

    @property
    def device(self) -> str:
        """Where it computes."""

    @property
    def dtype(self) -> str:
        """In what format it computes."""


class Classifier(Loaded, Protocol):
    """A loaded model that tells classes apart which are given by their names."""

    @property
    def preprocess(self) -> Preprocess:
        """How pictures have to be prepared for it."""

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """What it knows of these classes: one row for each."""

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes] in fp32 of shaped pictures [n, height, width, 3]."""


class Family(Protocol):
    """Models of one architecture. One file of this folder each."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def model_types(self) -> frozenset[str]:
        """The words under `model_type` in config.json by which its models are known."""

    @property
    def merged(self) -> tuple[str, ...]:
        """Patterns of the tensors that are fine-tuned and merged; all others stay the base's."""

    def load(
        self,
        model: Any,
        *,
        text_from: Any = None,
        device: str = "cpu",
        dtype: str = "float32",
        allow_pickle: bool = False,
    ) -> Loaded:
        """A model from a reference, a Source, a module or a state dict."""
