"""A model without numbers: its parameters take no memory, its buffers (rotary frequencies, scales) are real.

Buffers that stand in no checkpoint are made by the model's own code, and only there. So parameters alone go to torch's
`meta` device, each in the moment in which it is registered; on the device as a whole, buffers would be lost.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import MissingExtra, RecipeError, shortened
from smelt.formats.architecture.layer_limit import check_layers
from smelt.models.families.guarded_loading import model_with_code, own_code, without_code

if TYPE_CHECKING:
    from torch import nn

__all__ = ["buildable", "empty_causal_lm", "empty_image_text", "empty_seq2seq", "empty_sequence_classifier"]

_ONE_AT_A_TIME = threading.Lock()
_FORMATS = ("dtype", "torch_dtype", "quantization_config")
"""Words about the numbers on disk, which are none of the module's business."""


def empty_causal_lm(config: Mapping[str, Any], label: str, folder: Path | None = None) -> Any:
    """The transformers model that a config describes; refused where that is no causal language model.

    `folder` is where the config lies: a type that transformers does not know may come with code of its own there.
    """
    return _empty(config, label, "AutoModelForCausalLM", "causal language model", folder)


def empty_image_text(config: Mapping[str, Any], label: str) -> Any:
    """The same for models that answer in words about pictures."""
    return _empty(config, label, "AutoModelForImageTextToText", "model of pictures and texts")


def empty_seq2seq(config: Mapping[str, Any], label: str) -> Any:
    """The same for encoder-decoders that read and write texts."""
    return _empty(config, label, "AutoModelForSeq2SeqLM", "encoder-decoder language model")


def empty_sequence_classifier(config: Mapping[str, Any], label: str, folder: Path | None = None) -> Any:
    """The same for models with a head over a whole text: classifiers, reward models, cross-encoders."""
    return _empty(config, label, "AutoModelForSequenceClassification", "classifier of texts", folder)


def _empty(config: Mapping[str, Any], label: str, auto: str, what: str, folder: Path | None = None) -> Any:
    try:
        import transformers as library
    except ImportError:
        raise MissingExtra(f"a {what} needs transformers: pip install 'smelt[llm]'") from None
    kind = str(config.get("model_type"))
    words = {key: value for key, value in without_code(config).items() if key not in _FORMATS}
    if kind not in library.CONFIG_MAPPING:
        if folder is not None and own_code(folder, "config.json"):
            with _without_numbers():
                return model_with_code(folder, auto, without=_FORMATS)
        raise RecipeError(
            f"{label}: its config.json says model_type {kind!r}, which transformers {library.__version__} does not know"
        )
    check_layers(config, label)
    with buildable(label):
        made, classes = library.CONFIG_MAPPING[kind].from_dict(words), getattr(library, auto)
    if type(made) not in classes._model_mapping:
        raise RecipeError(f"{label}: is a model of type {kind!r}, which is no {what} ({auto} has none)")
    with buildable(label), _without_numbers():
        return classes.from_config(made)


@contextlib.contextmanager
def buildable(label: str) -> Iterator[None]:
    """What transformers says of a config that it cannot build a model from, as one sentence."""
    try:
        yield
    except Exception as error:  # whatever its many classes raise at sizes that do not fit together
        reason = shortened(" ".join(str(error).split()))
        raise RecipeError(
            f"{label}: its config.json describes no model that can be built ({type(error).__name__}: {reason})"
        ) from error


@contextlib.contextmanager
def _without_numbers() -> Iterator[None]:
    """Parameters that this thread registers have a shape and no numbers."""
    from torch import nn

    me = threading.get_ident()

    def register(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and threading.get_ident() == me and not parameter.is_meta:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=False)
        before(module, name, parameter)

    with _ONE_AT_A_TIME:
        before = nn.Module.register_parameter
        nn.Module.register_parameter = register  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            nn.Module.register_parameter = before  # type: ignore[method-assign]
