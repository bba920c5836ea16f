"""What a family of models knows of itself: which models are its own, which tensors are merged, how one is loaded.

A family is registered by its name (`families["mine"] = MyFamily()`), Smelt's own in a folder of this room each, others
by plug-ins: an entry point of the group `smelt.families` names a module that does so. `load.py` chooses by what is
registered; nothing else asks which family a model is of.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from smelt.models.families.model_input import ModelInput, check_device
from smelt.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.preprocess import Preprocess

__all__ = ["Classifier", "Family", "LoadedModel", "families"]


class LoadedModel(Protocol):
    """A model in memory, of any family.

    One that statistics are measured on and coefficients learned has a method `network(include)` too (`network.py`).
    """

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


class Classifier(LoadedModel, Protocol):
    """A loaded model that tells classes apart which are given by their names."""

    @property
    def preprocess(self) -> Preprocess:
        """How pictures have to be prepared for it."""

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """What it knows of these classes: [classes, width], one row for each."""

    def logits(self, pictures: NDArray[np.uint8], head: Tensor) -> Tensor:
        """Scores [n, classes] in fp32 of shaped pictures [n, height, width, 3]."""


class Family:
    """Models of one architecture. It says how one is put together (`assemble`) or, all by itself, loaded (`load`)."""

    name: ClassVar[str]
    model_kinds: ClassVar[frozenset[str]]
    """What its loaded models can be, as tasks ask for them: `classifier`, `causal_lm`, `image_text`, `text_matcher`,
    `text_classifier`."""
    merged: tuple[str, ...] = ("*",)
    """Patterns of the tensors that are fine-tuned and merged; all others stay the base's."""
    marker: ClassVar[str | None] = None
    """The file by which a folder is one of its models, where such a folder is more than one set of weights."""
    loaded_type: ClassVar[type[Any] | None] = None
    """The class of its loaded models; an instance is taken as it is."""

    @property
    def model_types(self) -> Set[str]:
        """The words under `model_type` in config.json by which its models are known."""
        return frozenset()

    def recognises(self, model: ModelInput) -> bool:
        """Whether an open model is one of the family's, by its config or the names of its tensors."""
        return model.config is not None and model.config.get("model_type") in self.model_types

    def load(
        self,
        model: Any,
        *,
        text_from: Any = None,
        device: str = "cpu",
        dtype: str = "float32",
        allow_pickle: bool = False,
    ) -> Any:
        """A model from a reference, a Source, a module or a state dict; one that is loaded is returned as it is.

        `text_from` (the same kinds) gives what `model` lacks: config, tokenizer, processor, for a CLIP the text tower.
        """
        if self.loaded_type is not None and isinstance(model, self.loaded_type):
            return model
        check_device(device, dtype)
        with (
            closing(self._open(model, "model", allow_pickle)) as given,
            closing(self._open(text_from, "text_from", allow_pickle)) as text,
        ):
            return self.assemble(given, text, device, dtype)

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> Any:
        """The loaded model of open inputs; `text.present` says whether a `text_from` was given."""
        raise NotImplementedError(f"the family {self.name} has neither `assemble` nor a `load` of its own")

    def reopen(self, loaded: Any) -> ModelInput:
        """What a loaded model of the family gives to another one as its `text_from`."""
        return ModelInput(loaded.label, None, loaded.folder, dict(loaded.config), origin=loaded)

    def _open(self, model: Any, what: str, allow_pickle: bool) -> ModelInput:
        if self.loaded_type is not None and isinstance(model, self.loaded_type):
            return self.reopen(model)
        return ModelInput.open(model, what, allow_pickle=allow_pickle)


_FOLDERS = ("causal_lm", "seq2seq", "clip", "image_text", "open_clip", "embedder", "sequence_classifier")

families: Registry[Family] = Registry(
    "smelt.families",
    own=lambda: {
        **{name: f"smelt.models.families.{name}.family" for name in _FOLDERS},
        "cross_encoder": "smelt.models.families.sequence_classifier.family",
    },
    home=lambda family: type(family).__module__,
)
"""Every registered family by name, the most general first."""
