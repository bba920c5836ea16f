"""The classes of models of pictures and texts that Smelt knows, by the `model_type` of their config.json.

Each is one small file (llava.py). Nothing here needs torch, so that merging may ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from smelt.models.families.image_text.llava import LLAVA

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.formats.views.older_names import OlderNames

__all__ = ["ARCHITECTURES", "Architecture", "architecture_of"]


class Architecture(Protocol):
    """One class: the names of its parts, and how a picture and tokens become scores."""

    @property
    def model_type(self) -> str: ...
    @property
    def tower(self) -> str:
        """What the names of the frozen vision tower begin with."""

    @property
    def merged(self) -> tuple[str, ...]:
        """Patterns of the tensors that are merged."""

    @property
    def names(self) -> OlderNames:
        """How its tensors are called in files and in memory."""

    def seen(self, config: Mapping[str, Any]) -> list[Any]:
        """The words of a config that a picture's features follow from."""

    def features(self, module: Any, pixels: Tensor) -> Tensor:
        """Pictures [n, 3, height, width] -> what the tower sees [n, places, width], before the projector."""

    def scores(self, module: Any, ids: Tensor, features: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the token after `ids` [n, t], which hold a placeholder for every feature."""

    def placeholder(self, module: Any) -> int:
        """The token that stands for a place of the picture."""

    def language(self, module: Any) -> nn.Module:
        """The language model inside."""


ARCHITECTURES: dict[str, Architecture] = {LLAVA.model_type: LLAVA}


def architecture_of(config: Mapping[str, Any] | None, names: Iterable[str] = ()) -> Architecture | None:
    """The class of a model by its config, else by the names of its tensors; None for all other models."""
    known = frozenset(names)
    return next((one for one in ARCHITECTURES.values() if one.names.recognises(config, known)), None)
