"""Encoder-decoder language models: T5, BART, Pegasus, whatever AutoModelForSeq2SeqLM knows.

To language tasks they are language models like any other (`causal_lm` is the kind that tasks ask for): the encoder is
given the context, the decoder writes or judges what follows (tasks/language/encoder_decoder.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.causal_lm.family import CausalFamily
from smelt.models.families.causal_lm.model import CausalLM
from smelt.models.families.empty_model import empty_seq2seq
from smelt.models.families.family import families
from smelt.models.families.model_input import ModelInput

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.network import CausalNetwork

__all__ = ["SEQ2SEQ", "EncoderDecoder", "Seq2seqFamily"]


class EncoderDecoder(CausalLM):
    """A loaded encoder-decoder. Nothing is measured or learned on these models yet."""

    def network(self, include: Sequence[str] = ()) -> CausalNetwork:
        raise RecipeError(
            f"{self.label}: is an encoder-decoder; methods that look at data (statistics, learned coefficients) do not "
            "work on those, the others do"
        )


class Seq2seqFamily(CausalFamily):
    """How encoder-decoders are known and loaded; all else is as of other language models."""

    name = "seq2seq"
    loaded_type = EncoderDecoder

    @property
    def model_types(self) -> frozenset[str]:
        """All that transformers knows; it is asked when somebody wants to know."""
        from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

        return frozenset(MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)

    def recognises(self, model: ModelInput) -> bool:
        """By its config. Half of such a model, a decoder alone, is none."""
        config = model.config or {}
        return bool(config.get("is_encoder_decoder")) and config.get("model_type") in self.model_types

    def empty(self, config: Mapping[str, Any], label: str, folder: Path | None) -> Any:
        """Without numbers. A T5 whose config unties its head gets one: transformers 5 ties it until it finds two."""
        from torch import nn

        module = empty_seq2seq(config, label)
        head, table = module.get_output_embeddings(), module.get_input_embeddings()
        if config.get("tie_word_embeddings") is False and head is not None and head.weight is table.weight:
            head.weight = nn.Parameter(table.weight.detach().clone(), requires_grad=False)
        return module


SEQ2SEQ = Seq2seqFamily()
families[SEQ2SEQ.name] = SEQ2SEQ
