"""Answers in words about pictures: the likeliest next token again and again, and how likely a given answer is.

Generation is the one of language models (greedy.py of `language`); the tower looks at the pictures in the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError
from smelt.tasks.language.greedy import StopRule, cut, end_tokens, generate, reached, together
from smelt.tasks.language.likelihoods import BatchBudget
from smelt.tasks.lmms.prompts import Prompt
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.models.families.image_text.model import ImageText

__all__ = ["likelihood", "written"]

_UNKNOWN = 2048
"""The tokens that a model takes, where its config does not say it."""


def written(
    model: ImageText,
    asked: Sequence[tuple[Prompt, StopRule]],
    *,
    rows: int = 256,
    tell: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """The answer to every prompt; at most `rows` at once, and no more than memory takes."""
    texts = [""] * len(asked)
    most, ends = _longest(model), end_tokens(model.module, model.tokenizer)
    prompts_and_rules = [(prompt.tokens, rule) for prompt, rule in asked]
    for batch in together(prompts_and_rules, BatchBudget.on(model.device, rows)):
        prompts, rule = [asked[number][0] for number in batch], asked[batch[0]][1]
        room = most - max(len(prompt.tokens) for prompt in prompts)
        if room < 1:
            raise TaskError(
                f"a question of {most - room} tokens, with its pictures, is too long; "
                f"{model.label} takes at most {most}"
            )
        found = generate(
            _Seeing(model, prompts),
            [prompt.tokens for prompt in prompts],
            min(rule.longest, room),
            ends,
            reached(model.tokenizer, rule.until),
        )
        for number, tokens in zip(batch, found, strict=True):
            texts[number] = cut(str(model.tokenizer.decode(tokens, skip_special_tokens=True)), rule.until)
        tell(len(batch))
    return texts


def likelihood(model: ImageText, prompt: Prompt, answer: Sequence[int]) -> tuple[float, bool]:
    """The log-likelihood of the tokens of an answer after a prompt, and whether greedy generation would give them."""
    import torch

    ids = torch.tensor([[*prompt.tokens, *answer]], device=model.device)
    with torch.inference_mode():
        out = _Seeing(model, [prompt], len(answer))(input_ids=ids, use_cache=False, logits_to_keep=len(answer) + 1)
        logs = torch.log_softmax(out.logits[0, :-1].float(), dim=-1)
    wanted = ids[0, -len(answer) :]
    total = float(logs.gather(1, wanted[:, None]).double().sum())
    if total != total or total == float("-inf"):
        raise NumericalError(f"{model.label} gives NaN or infinite scores; its weights are not sound")
    return total, bool((logs.argmax(dim=-1) == wanted).all())


class _Seeing:
    """The model's module, which is shown the pictures of a batch when a text begins."""

    def __init__(self, model: ImageText, prompts: Sequence[Prompt], answer: int = 0):
        """`answer` tokens at the end of each text are the model's own."""
        self._module, self.device = model.module, model.module.device
        self._kind, self._pixels, self._answer = model.kind, _pixels(model, prompts), answer

    def forward(self, input_ids: Tensor, past_key_values: Any = None, **words: Any) -> Any:
        if past_key_values is None and self._pixels is not None:
            words |= self._kind.shown(self._module, input_ids, self._pixels, self._answer)
        return self._module(input_ids=input_ids, past_key_values=past_key_values, **words)

    __call__ = forward


def _pixels(model: ImageText, prompts: Sequence[Prompt]) -> Tensor | None:
    """The pictures of all prompts, one after the other."""
    import numpy as np
    import torch

    some = [prompt.pictures for prompt in prompts if prompt.pictures is not None]
    if not some:
        return None
    whole = torch.from_numpy(np.concatenate(some)).to(model.device)
    return model.preprocess.normalise(whole, getattr(torch, model.dtype))


def _longest(model: ImageText) -> int:
    """The tokens that the language model takes at once."""
    config = getattr(model.module.config, "text_config", model.module.config)
    known = getattr(config, "max_position_embeddings", None)
    return int(known) if isinstance(known, int) else _UNKNOWN
