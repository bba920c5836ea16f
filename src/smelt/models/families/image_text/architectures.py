"""The classes of models of pictures and texts that Smelt knows, by the `model_type` of their config.json.

Each is a small file (llava.py), or one of those that a file describes together (one_view.py). Nothing here needs torch,
so that merging may ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from smelt.models.families.image_text.llava import LLAVA
from smelt.models.families.image_text.one_view import ONE_VIEW

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
    def written(self) -> Mapping[str, str]:
        """What its chat template writes for a picture -> what its processor makes of that, the placeholder in it."""

    @property
    def names(self) -> OlderNames:
        """How its tensors are called in files and in memory."""

    def seen(self, config: Mapping[str, Any]) -> list[Any]:
        """The words of a config that a picture's features follow from."""

    def features(self, module: Any, pixels: Tensor) -> Tensor:
        """Pictures [n, 3, height, width] -> what the tower sees [n, places, width], before the projector."""

    def scores(self, module: Any, ids: Tensor, features: Tensor) -> Tensor:
        """Scores [n, vocabulary] of the token after `ids` [n, t], which hold a placeholder for every feature."""

    def shown(self, module: Any, ids: Tensor, pixels: Tensor, answer: int) -> dict[str, Tensor]:
        """What the module is given beside tokens `ids` [n, t], of which the last `answer` are the model's own."""

    def placeholder(self, module: Any) -> int:
        """The token that stands for a place of the picture."""

    def language(self, module: Any) -> nn.Module:
        """The language model inside."""


ARCHITECTURES: dict[str, Architecture] = {LLAVA.model_type: LLAVA, **ONE_VIEW}


def architecture_of(config: Mapping[str, Any] | None, names: Iterable[str] = ()) -> Architecture | None:
    """The class of a model by its config, else by the names of its tensors; None for all other models."""
    known = frozenset(names)
    kind = (config or {}).get("model_type")
    if config is not None:
        return ARCHITECTURES.get(str(kind))
    return LLAVA if LLAVA.names.recognises(None, known) else None
