"""A language model in memory, with the tokenizer that it was trained with."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.network import CausalNetwork

__all__ = ["CausalLM"]

_SAYS_NOTHING = (
    "_name_or_path",
    "_model_name_or_path",
    "architectures",
    "dtype",
    "torch_dtype",
    "transformers_version",
)
"""Words of a config that do not change what a model answers."""


@dataclass
class CausalLM:
    """A loaded language model. It computes in `dtype`; what is measured or learned needs float32."""

    label: str
    module: Any
    """A transformers model of AutoModelForCausalLM, in evaluation mode and without gradients."""
    tokenizer: Any
    config: Mapping[str, Any]
    device: str
    dtype: str
    hash: str
    folder: Path | None = None
    """The folder with its config and tokenizer."""

    def network(self, include: Sequence[str] = ()) -> CausalNetwork:
        """The model as a function of its weights: of all but embeddings and head, or of those that `include` means."""
        from smelt.models.families.causal_lm.network import CausalNetwork

        return CausalNetwork(self.module, self.device, include)

    @functools.cached_property
    def identity(self) -> str:
        """A hash over all that answers follow from: its numbers, and the config and tokenizer that they go with."""
        config = {key: value for key, value in self.config.items() if key not in _SAYS_NOTHING}
        content = [self.hash, config, self.tokenizer_hash]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    @functools.cached_property
    def tokenizer_hash(self) -> str:
        """Over the vocabulary, the way it is applied, and the chat template."""
        own = self.tokenizer
        backend = getattr(own, "backend_tokenizer", None)
        words = backend.to_str() if backend is not None else json.dumps(own.get_vocab(), sort_keys=True)
        special = json.dumps({name: str(word) for name, word in own.special_tokens_map.items()}, sort_keys=True)
        return hashlib.sha256("\0".join([words, special, str(own.chat_template)]).encode()).hexdigest()
