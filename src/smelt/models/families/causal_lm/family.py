"""Causal language models: any architecture that transformers' AutoModelForCausalLM knows.

The module is built without numbers and filled tensor by tensor from any Source (a folder, an adapter over its base, a
GGUF file, a state dict), so that never two copies of a model lie in memory and nothing is written to disk to be
evaluated. Tied weights stay one tensor. Merged by default is everything: fine-tunes of a language model change all
of it. What is measured and learned on leaves embeddings and head alone unless the recipe's `include` names them.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from smelt.models.families.causal_lm.model import CausalLM
from smelt.models.families.causal_lm.tokenizer import (
    check_vocabulary,
    no_tokenizer,
    read_tokenizer,
    tokenizer_place,
    with_generation_config,
)
from smelt.models.families.empty_model import empty_causal_lm
from smelt.models.families.load_weights import load_weights
from smelt.models.families.model_input import ModelInput, check_device, known_config

__all__ = ["CAUSAL_LM", "CausalFamily", "CausalLM", "load_causal_lm"]


class CausalFamily:
    """How language models are known, merged and loaded."""

    name = "causal_lm"
    merged: tuple[str, ...] = ("*",)

    @property
    def model_types(self) -> frozenset[str]:
        """All that transformers knows; it is asked when somebody wants to know."""
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        return frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)

    def load(
        self,
        model: Any,
        *,
        text_from: Any = None,
        device: str = "cpu",
        dtype: str = "float32",
        allow_pickle: bool = False,
    ) -> CausalLM:
        """A language model from a reference, a Source, a module or a state dict; a CausalLM is returned as it is.

        With `text_from` (the same kinds) that model gives the config and the tokenizer where `model` has none.
        """
        if isinstance(model, CausalLM):
            return model
        check_device(device, dtype)
        with (
            closing(_open(model, "model", allow_pickle)) as given,
            closing(_open(text_from, "text_from", allow_pickle)) as text,
        ):
            return _assemble(given, text, model, text_from, device, dtype)


CAUSAL_LM = CausalFamily()


def load_causal_lm(
    model: Any, *, text_from: Any = None, device: str = "cpu", dtype: str = "float32", allow_pickle: bool = False
) -> CausalLM:
    """A language model in memory with its tokenizer, ready to be asked; one that is loaded is returned as it is.

    `model` is a reference (a folder, BASE+ADAPTER, zoo:, hf:, a GGUF file), a Source, a module or a state dict;
    `text_from` gives config and tokenizer where it has none.
    """
    return CAUSAL_LM.load(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)


def _open(model: Any, what: str, allow_pickle: bool) -> ModelInput:
    if isinstance(model, CausalLM):
        return ModelInput(model.label, None, folder=model.folder, config=dict(model.config))
    given = ModelInput.open(model, what, allow_pickle=allow_pickle)
    from_file = getattr(given.source, "config", None)  # a GGUF file holds its own
    if given.config is None and callable(from_file):
        given.config = from_file()
    return given


def _assemble(given: ModelInput, text: ModelInput, model: Any, text_from: Any, device: str, dtype: str) -> CausalLM:
    import torch

    config = known_config(given, text)
    module = empty_causal_lm(config, given.label, given.folder if given.config else text.folder)
    digest = load_weights(module, given, device, getattr(torch, dtype)).hash
    module = module.requires_grad_(False).eval().to(device)
    tokenizer, folder = _tokenizer(given, text, model, text_from)
    with_generation_config(module, folder)
    check_vocabulary(given.label, module, tokenizer)
    return CausalLM(given.label, module, tokenizer, dict(config), device, dtype, digest, folder)


def _tokenizer(given: ModelInput, text: ModelInput, model: Any, text_from: Any) -> tuple[Any, Path | None]:
    """The tokenizer of the model, else that of `text_from`; and the folder it lies in."""
    for one, origin in ((given, model), (text, text_from)):
        if isinstance(origin, CausalLM):
            return origin.tokenizer, origin.folder
        place = tokenizer_place(one, origin)
        if place is not None:
            return read_tokenizer(*place), place[0]
    raise no_tokenizer(given.label)
