"""A served model as the harness sees it: the few questions that its tasks put to a model, over HTTP.

Texts that are written: a chat that the server writes goes to /v1/chat/completions, all else to /v1/completions, as
tokens where they are known here and as text where not. Both greedily (`temperature: 0`), with the task's own limit of
tokens and at most four of its stops, which is as many as the protocol has; the answer is cut at all of them here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from smelt.caller import Blank, option
from smelt.models.served.capabilities import only_choice
from smelt.models.served.model import ServedModel
from smelt.system.endpoint import EndpointError
from smelt.tasks.language.greedy import StopRule, cut
from smelt.tasks.language.harness import harness
from smelt.tasks.language.harness_model import rolling_windows, stop_rule
from smelt.tasks.language.served.at_once import at_once
from smelt.tasks.language.served.prompts import Prompts
from smelt.tasks.language.served.scoring import score_texts, score_tokens
from smelt.tasks.task import TaskError

__all__ = ["served_harness_model"]

_MOST_STOPS = 4


def served_harness_model(model: ServedModel, *, requests: int, tell: Callable[[int], None] = lambda done: None) -> Any:
    """An `lm_eval.api.model.LM` with so many requests under way; `tell` hears how many were answered."""
    return _kind()(model, requests, tell)


@functools.cache
def _kind() -> Any:
    """The class, which exists only where its base does."""
    template: Any = harness().api.model.TemplateLM

    class ServedLM(template):  # type: ignore[misc]
        """Answers by a server."""

        def __init__(self, model: ServedModel, requests: int, tell: Callable[[int], None]):
            super().__init__()
            self._model, self._requests, self._tell = model, requests, tell
            self._prompts = Prompts(model)
            self.tokenizer = model.tokenizer
            self.max_length = model.max_length
            self._cuts = model.can.tokens and (model.tokenizer is not None or model.can.tokenizer)

        @property
        def scores(self) -> bool:
            """Whether log-likelihoods can be had."""
            return self._model.can.scoring is not None

        @property
        def eot_token_id(self) -> int:
            return self.prefix_token_id

        @property
        def prefix_token_id(self) -> int:
            own = self.tokenizer
            if own is not None:
                return int(own.bos_token_id if own.bos_token_id is not None else own.eos_token_id)
            begun, bare = self._prompts.tokens("a"), self._prompts.tokens("a", begins=False)
            if len(begun) == len(bare):
                raise TaskError(
                    f"a task asks without a context, and {self._model.label} begins no text with a token of its own; "
                    f"name a model with its tokenizer as {option('text_from', Blank('MODEL'))}"
                )
            return begun[0]

        @property
        def tokenizer_name(self) -> str:
            return f"{self._model.label} {self._model.endpoint.model}".replace("/", "__")

        def chat_template(self, chat_template: bool | str = False) -> str:
            return "" if self.tokenizer is None else str(self.tokenizer.chat_template)

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            return self._prompts.chat(chat_history, add_generation_prompt)

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            return self._prompts.tokens(self._prompts.text(string), begins=add_special_tokens is not False)

        def loglikelihood(self, requests: Any, disable_tqdm: bool = True) -> list[tuple[float, bool]]:
            written = at_once(lambda one: self._prompts.text(one.args[0]), requests, self._requests)
            pairs = [(context, str(one.args[1])) for context, one in zip(written, requests, strict=True)]
            if not self._cuts:
                moved = [_without_last_spaces(*pair) for pair in pairs]
                return score_texts(self._model, moved, self._requests, self._tell)
            cut_up = at_once(lambda pair: self._in_tokens(*pair), pairs, self._requests)
            return self._loglikelihood_tokens([(None, *pair) for pair in cut_up])

        def _in_tokens(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
            if context:
                found: tuple[list[int], list[int]] = self._encode_pair(context, continuation)
                return found
            tokens = self.tok_encode(continuation, add_special_tokens=False)
            begin = self.prefix_token_id
            return (tokens[:1], tokens[1:]) if tokens[:1] == [begin] else ([begin], tokens)

        def _loglikelihood_tokens(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
            pairs = []
            for _, context, continuation in requests:
                room = self.max_length - len(continuation)  # one token is always written too
                if room < 1:
                    raise TaskError(
                        f"an answer of {len(continuation)} tokens is too long; {self._model.label} takes at most "
                        f"{self.max_length}"
                    )
                pairs.append((tuple(context[-(room - 1) :] if room > 1 else ()), tuple(continuation)))
            return score_tokens(self._model, pairs, self._requests, self._tell)

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = True) -> list[float]:
            if not self._cuts:
                raise TaskError(
                    f"whole texts are scored in pieces of tokens, and {self._model.label} does not take tokens"
                )
            found = [
                rolling_windows(self.tok_encode(one.args[0]), self.prefix_token_id, self.max_length - 2)
                for one in requests
            ]
            logs = iter(self._loglikelihood_tokens([window for windows in found for window in windows]))
            return [sum(next(logs)[0] for _ in windows) for windows in found]

        def generate_until(self, requests: Any, disable_tqdm: bool = True) -> list[str]:
            asked = [(str(request.args[0]), stop_rule(request.args[1])) for request in requests]
            return at_once(lambda one: self._written(*one), asked, self._requests)

        def _written(self, prompt: str, rule: StopRule) -> str:
            words: dict[str, Any] = {"max_tokens": rule.longest, "temperature": 0}
            words |= {"stop": list(rule.until[:_MOST_STOPS])} if rule.until else {}
            messages, endpoint = self._prompts.messages(prompt), self._model.endpoint
            if messages is not None:
                choice = only_choice(endpoint.post("chat/completions", {"messages": messages, **words}))
                message = choice.get("message")
                text = message.get("content") if isinstance(message, dict) else None
            else:
                text = only_choice(endpoint.post("completions", {"prompt": self._fitting(prompt, rule), **words})).get(
                    "text"
                )
            if not isinstance(text, str):
                raise EndpointError(f"{self._model.label} answered without a text")
            self._tell(1)
            return cut(text, rule.until)

        def _fitting(self, prompt: str, rule: StopRule) -> str | list[int]:
            """Cut from the left to what leaves room for the answer, where the tokens are known here."""
            if self.tokenizer is None or not self._cuts:
                return prompt
            if rule.longest >= self.max_length:
                raise TaskError(
                    f"max_gen_toks: {rule.longest} leaves no room for a prompt; {self._model.label} takes at most "
                    f"{self.max_length} tokens"
                )
            return self._prompts.tokens(prompt)[rule.longest - self.max_length :]

    return ServedLM


def _without_last_spaces(context: str, continuation: str) -> tuple[str, str]:
    """Spaces at a context's end belong to the continuation, whose first token has them: the harness's rule."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation
