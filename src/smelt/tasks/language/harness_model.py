"""A Smelt model as the harness sees it: the few questions that its tasks put to a model.

The same numbers as the harness's own class for Hugging Face models gives, quicker: see likelihoods.py and greedy.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smelt.tasks.language.chat import chat_text
from smelt.tasks.language.encoder_decoder import encodes, likelihoods_decoded, written
from smelt.tasks.language.forward import packs
from smelt.tasks.language.greedy import StopRule, cut, end_tokens, generate, greedy_only, reached, together
from smelt.tasks.language.harness import harness
from smelt.tasks.language.likelihoods import BatchBudget, likelihoods
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.model import CausalLM

__all__ = ["harness_model", "longest_input", "rolling_windows", "stop_rule"]

_USUAL_LENGTH = 2048
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length")


def harness_model(model: CausalLM, *, rows: int = 256, tell: Callable[[int], None] = lambda done: None) -> Any:
    """An `lm_eval.api.model.LM`; `tell` hears how many requests were answered."""
    return _kind()(model, rows, tell)


def longest_input(model: CausalLM) -> int:
    """The tokens that a model takes at once, by its config or its tokenizer."""
    config = model.module.config
    known = [getattr(config, word) for word in _LENGTHS if isinstance(getattr(config, word, None), int)]
    by_tokenizer = getattr(model.tokenizer, "model_max_length", None)
    if not known and isinstance(by_tokenizer, int) and by_tokenizer < 10**9:  # else a huge number that means unknown
        known = [by_tokenizer]
    return int(known[0]) if known else _USUAL_LENGTH


@functools.cache
def _kind() -> Any:
    """The class, which exists only where its base does."""
    template: Any = harness().api.model.TemplateLM

    class SmeltLM(template):  # type: ignore[misc]
        """Answers by the model's own module and tokenizer."""

        def __init__(self, model: CausalLM, rows: int, tell: Callable[[int], None]):
            super().__init__()
            self._smelt, self._tell = model, tell
            self.tokenizer = model.tokenizer
            self._device = model.device
            self._budget = BatchBudget.on(model.device, rows)
            self.max_length = longest_input(model)
            self.backend = "seq2seq" if encodes(model.module) else "causal"  # how the harness cuts pairs into tokens

        @property
        def eot_token_id(self) -> int:
            end = self.tokenizer.eos_token_id
            return int(end if end is not None else min(self._ends, default=0))

        @property
        def prefix_token_id(self) -> int:
            begin = self.tokenizer.bos_token_id
            return int(begin) if begin is not None else self.eot_token_id

        @functools.cached_property
        def _begin(self) -> str:
            return str(self.tokenizer.decode([self.prefix_token_id]))

        @functools.cached_property
        def _ends(self) -> frozenset[int]:
            return end_tokens(self._smelt.module, self.tokenizer)

        @property
        def tokenizer_name(self) -> str:
            return str(self.tokenizer.name_or_path).replace("/", "__")

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            if add_special_tokens is None:  # a chat template has written the first token already
                add_special_tokens = not string.startswith(self._begin)
            return list(self.tokenizer.encode(string, add_special_tokens=add_special_tokens))

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            return chat_text(
                self.tokenizer,
                chat_history,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )

        def loglikelihood(self, requests: Any, disable_tqdm: bool = True) -> list[tuple[float, bool]]:
            answers: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
            return answers

        def _loglikelihood_tokens(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
            pairs = [self._fitting(context, continuation) for _, context, continuation in requests]
            if self.backend == "seq2seq":
                return likelihoods_decoded(self._smelt.module, pairs, self._budget, tell=self._tell)
            return likelihoods(
                self._smelt.module, pairs, self._budget, packed=packs(self._smelt.module), tell=self._tell
            )

        def _fitting(self, context: list[int], continuation: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
            """Cut from the left to what the model takes; the last token is only predicted.

            A continuation that is too long by itself is refused, as by the harness's own class.
            """
            if len(continuation) > self.max_length:
                raise TaskError(
                    f"an answer of {len(continuation)} tokens is too long; {self._smelt.label} takes at most "
                    f"{self.max_length}"
                )
            if self.backend == "seq2seq":  # the encoder has all the room for itself
                return tuple(context[-self.max_length :]), tuple(continuation)
            room = self.max_length + 1 - len(continuation)
            return tuple(context[-room:]), tuple(continuation)

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = True) -> list[float]:
            found = [
                rolling_windows(self.tok_encode(one.args[0]), self.prefix_token_id, self.max_length) for one in requests
            ]
            logs = iter(self._loglikelihood_tokens([window for windows in found for window in windows]))
            return [sum(next(logs)[0] for _ in windows) for windows in found]

        def generate_until(self, requests: Any, disable_tqdm: bool = True) -> list[str]:
            asked = [(self.tok_encode(request.args[0]), stop_rule(request.args[1])) for request in requests]
            texts = [""] * len(asked)
            for batch in together(asked, self._budget):
                rule = asked[batch[0]][1]
                longest = rule.longest
                if longest >= self.max_length:
                    raise TaskError(
                        f"max_gen_toks: {longest} leaves no room for a prompt; {self._smelt.label} takes at most "
                        f"{self.max_length} tokens"
                    )
                taken = 0 if self.backend == "seq2seq" else longest
                prompts = [asked[number][0][taken - self.max_length :] for number in batch]
                write = written if self.backend == "seq2seq" else generate
                found = write(self._smelt.module, prompts, longest, self._ends, reached(self.tokenizer, rule.until))
                for number, tokens in zip(batch, found, strict=True):
                    texts[number] = cut(str(self.tokenizer.decode(tokens, skip_special_tokens=True)), rule.until)
                self._tell(len(batch))
            return texts

    return SmeltLM


def stop_rule(words: dict[str, Any]) -> StopRule:
    """When the answer to a request ends."""
    from lm_eval.models.utils import normalize_gen_kwargs

    known = dict(normalize_gen_kwargs(words))
    greedy_only(known, ["max_length"], "language tasks", "max_gen_toks")
    return StopRule.of(int(known["max_gen_toks"]), known.get("until"))


def rolling_windows(tokens: list[int], prefix: int, longest: int) -> list[tuple[None, list[int], list[int]]]:
    """A whole text as (nothing, context, continuation) of at most so many tokens, each token in one continuation."""
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    windows = get_rolling_token_windows(token_list=tokens, prefix_token=prefix, max_seq_len=longest, context_len=1)
    return [(None, *make_disjoint_window(window)) for window in windows]
