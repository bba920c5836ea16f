"""Prompts for a served model: chats as text, and texts as tokens.

With `text_from` both are done here, by that model's tokenizer and template, as for a model in memory. Without it the
server does what it can: /apply-template writes a chat, /tokenize cuts a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from smelt.caller import Blank, option
from smelt.models.served.capabilities import server_tokens
from smelt.models.served.model import ServedModel
from smelt.system.endpoint import EndpointError
from smelt.tasks.language.chat import chat_text
from smelt.tasks.task import TaskError

__all__ = ["Prompts"]

_CHAT = "\x00chat "
"""What a chat begins with that the server is to write, as the harness carries it: no text of a task does."""

T = TypeVar("T")


class Prompts:
    """Of one model; what was asked once is kept, since the choices of a question share their context."""

    def __init__(self, model: ServedModel):
        self._model, self._kept, self._lock = model, dict[tuple[str, str], Any](), Lock()
        own = model.tokenizer
        begin = None if own is None else own.bos_token_id if own.bos_token_id is not None else own.eos_token_id
        self._begin = "" if begin is None else str(own.decode([begin]))

    def chat(self, messages: Sequence[dict[str, str]], add_generation_prompt: bool) -> str:
        """A chat as the harness hands it on: as text, or as messages for the server."""
        if self._model.tokenizer is not None:
            return chat_text(
                self._model.tokenizer,
                messages,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        if not add_generation_prompt:
            raise TaskError(
                f"its prompts begin the answer, which {self._model.label} cannot be given as a chat; name the model "
                f"that has its template with {option('text_from', Blank('MODEL'))}"
            )
        return _CHAT + json.dumps(list(messages))

    def messages(self, prompt: str) -> list[dict[str, str]] | None:
        """The messages of a chat that the server writes; nothing for a text."""
        return json.loads(prompt.removeprefix(_CHAT)) if prompt.startswith(_CHAT) else None

    def text(self, prompt: str) -> str:
        """A prompt as the model is given it."""
        messages = self.messages(prompt)
        return prompt if messages is None else self._once("chat", prompt, lambda: self._written(messages))

    def tokens(self, text: str, *, begins: bool = True) -> list[int]:
        """A text in the model's tokens; with those that begin a text, if it `begins` one and has none of its own."""
        own = self._model.tokenizer
        if own is not None:
            special = begins and not (self._begin and text.startswith(self._begin))
            return list(own.encode(text, add_special_tokens=special))
        return self._once("begun" if begins else "bare", text, lambda: self._cut(text, begins))

    def _cut(self, text: str, begins: bool) -> list[int]:
        found = server_tokens(self._model.endpoint, text, begins=begins, tries=self._model.endpoint.tries)
        if found is None:
            raise EndpointError(f"{self._model.endpoint.address('/tokenize')} did not answer with tokens")
        return found

    def _written(self, messages: list[dict[str, str]]) -> str:
        answer = self._model.endpoint.post("/apply-template", {"messages": messages})
        found = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(found, str):
            raise EndpointError(f"{self._model.endpoint.address('/apply-template')} did not answer with a text")
        return found

    def _once(self, kind: str, text: str, make: Callable[[], T]) -> T:
        with self._lock:
            if (kind, text) in self._kept:
                known: T = self._kept[kind, text]
                return known
        found = make()
        with self._lock:
            self._kept[kind, text] = found
        return found
