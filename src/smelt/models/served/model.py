"""A language model behind a URL, as tasks and rows see it.

It has no weights here and so no hash of them: its rows say the server, the name there, and what the server tells.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

from smelt.models.families.causal_lm.tokenizer import no_tokenizer, read_tokenizer, tokenizer_place
from smelt.models.families.model_input import ModelInput
from smelt.models.served.capabilities import Capabilities, find_capabilities
from smelt.models.served.told import chosen_model, listed_models, told_of
from smelt.system.endpoint import Endpoint

__all__ = ["TIMEOUT", "ServedModel", "is_url", "open_served"]

TIMEOUT = 300.0
"""Seconds for one answer: a busy server lets requests wait."""
_MOST_TOKENS = 2048
"""What a prompt and its answer may have where a server does not tell; the usual length of the harness."""


@dataclass(frozen=True)
class ServedModel:
    """Where it is, what its server can do and tells of it."""

    endpoint: Endpoint
    can: Capabilities
    told: Mapping[str, Any]
    tokenizer: Any = None
    """That of `text_from`, where it was given: prompts are then written and cut into tokens here."""
    text_from: str | None = None

    model_kind: ClassVar[str] = "causal_lm"
    hash: ClassVar[str] = ""
    """Nobody but the server knows its weights."""
    device: ClassVar[str] = "server"
    dtype: ClassVar[str] = "served"
    folder: ClassVar[None] = None

    @property
    def label(self) -> str:
        return self.endpoint.url

    @property
    def max_length(self) -> int:
        """Tokens of a prompt with its answer."""
        told = self.told.get("max_model_len")
        return told if isinstance(told, int) else _MOST_TOKENS

    @property
    def has_chat(self) -> bool:
        """Whether there is a template for chats: that of `text_from`, else the server's."""
        return self.can.chat if self.tokenizer is None else bool(self.tokenizer.chat_template)

    @property
    def about(self) -> dict[str, Any]:
        """What its rows say of it."""
        name = self.endpoint.model
        how = {"scoring": self.can.scoring, "text_from": self.text_from}
        told = {**self.told, **{word: value for word, value in how.items() if value is not None}}
        return {"entry": name, "label": name, "served": {"url": self.endpoint.url, "name": name, **told}}

    @functools.cached_property
    def eval_flags(self) -> list[str]:
        """The flags that name it on a command line."""
        key = self.endpoint.key_env
        return ["--model", self.endpoint.model, *(["--key-env", key] if key else [])]


def is_url(model: Any) -> bool:
    """Whether a model is given by the address of a server."""
    return isinstance(model, str) and model.lower().startswith(("http://", "https://"))


def open_served(
    url: str,
    name: str | None = None,
    *,
    key_env: str | None = None,
    timeout: float = TIMEOUT,
    text_from: Any = None,
    **patience: Any,
) -> ServedModel:
    """A model behind a URL: its name is looked up, and what its server can do is tried."""
    patience = {"key_env": key_env, "timeout": timeout, **patience}
    entries = listed_models(Endpoint(url, name or "?", **patience))
    endpoint = Endpoint(url, chosen_model(url, name, list(entries)), **patience)
    tokenizer = None
    if text_from is not None:
        with closing(ModelInput.open(text_from, "text_from")) as given:
            place = tokenizer_place(given)
        if place is None:
            raise no_tokenizer(given.label)
        tokenizer = read_tokenizer(*place)
    told = told_of(endpoint, entries[endpoint.model])
    return ServedModel(
        endpoint, find_capabilities(endpoint), told, tokenizer, None if text_from is None else str(text_from)
    )
