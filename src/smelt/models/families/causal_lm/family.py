"""Causal language models: any architecture that transformers' AutoModelForCausalLM knows.

The module is built without numbers and filled tensor by tensor from any Source (a folder, an adapter over its base, a
GGUF file, a state dict), so that never two copies of a model lie in memory and nothing is written to disk to be
evaluated. Tied weights stay one tensor. Merged by default is everything: fine-tunes of a language model change all
of it. What is measured and learned on leaves embeddings and head alone unless the recipe's `include` names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from smelt.models.families.causal_lm.model import CausalLM
from smelt.models.families.causal_lm.tokenizer import (
    check_vocabulary,
    no_tokenizer,
    read_tokenizer,
    tokenizer_place,
    with_generation_config,
)
from smelt.models.families.empty_model import empty_causal_lm
from smelt.models.families.family import Family, families
from smelt.models.families.load_weights import load_weights
from smelt.models.families.model_input import ModelInput, known_config

__all__ = ["CAUSAL_LM", "CausalFamily"]


class CausalFamily(Family):
    """How language models are known, merged and loaded. The most general family: others are asked before it."""

    name = "causal_lm"
    model_kinds = frozenset({"causal_lm"})
    loaded_type: ClassVar[type[CausalLM]] = CausalLM

    @property
    def model_types(self) -> frozenset[str]:
        """All that transformers knows; it is asked when somebody wants to know."""
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        return frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> CausalLM:
        """A language model; `text` gives the config and the tokenizer where `given` has none."""
        import torch

        for one in (given, text):
            one.config = one.config or one.config_in_file
        config = known_config(given, text)
        module = self.empty(config, given.label, given.folder if given.config else text.folder)
        digest = load_weights(module, given, device, getattr(torch, dtype)).hash
        module = module.requires_grad_(False).eval().to(device)
        tokenizer, folder = _tokenizer(given, text)
        with_generation_config(module, folder)
        check_vocabulary(given.label, module, tokenizer)
        return self.loaded_type(given.label, module, tokenizer, dict(config), device, dtype, digest, folder)

    def empty(self, config: Mapping[str, Any], label: str, folder: Path | None) -> Any:
        """The module of a config without numbers; `folder` is where the config lies."""
        return empty_causal_lm(config, label, folder)


def _tokenizer(given: ModelInput, text: ModelInput) -> tuple[Any, Path | None]:
    """The tokenizer of the model, else that of `text_from`; and the folder it lies in."""
    for one in (given, text):
        if isinstance(one.origin, CausalLM):
            return one.origin.tokenizer, one.origin.folder
        place = tokenizer_place(one)
        if place is not None:
            return read_tokenizer(*place), place[0]
    raise no_tokenizer(given.label)


CAUSAL_LM = CausalFamily()
families[CAUSAL_LM.name] = CAUSAL_LM
