"""What a task asks, as a model takes it: a chat with pictures as tokens, and when an answer ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.tasks.language.greedy import StopRule, greedy_only
from smelt.tasks.questions.prompts import conversation, prompt_tokens
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.models.families.image_text.model import ImageText

__all__ = ["Prompt", "places_of", "prompt_of", "stop_rule_of"]

_USUAL = 1024
"""Tokens of an answer at most, where a task does not say it; lmms-eval's own number."""
_OWN_SHAPE = ("image_aspect_ratio", "image_sizes")
"""Words that mean nothing where the model shapes its pictures itself."""


@dataclass(frozen=True)
class Prompt:
    """Tokens, with a placeholder for every place of every picture, and the pictures as the model's tower takes them."""

    tokens: tuple[int, ...]
    pictures: NDArray[np.uint8] | None


def stop_rule_of(words: Mapping[str, Any]) -> StopRule:
    """The rule in a task's `generation_kwargs`; anything but greedy decoding is refused."""
    greedy_only(words, _OWN_SHAPE, "questions", "max_new_tokens")
    return StopRule.of(int(words.get("max_new_tokens") or _USUAL), words.get("until"))


def places_of(model: ImageText) -> int:
    """The places that the model sees a picture in; all pictures are brought to one size."""
    import numpy as np

    return int(model.features(model.preprocess.shape([np.zeros((2, 2, 3), dtype=np.uint8)])).shape[1])


def prompt_of(model: ImageText, text: str, pictures: Sequence[Any], places: int) -> Prompt:
    """One user's turn: the pictures first and then the text, or the text alone where it has the placeholders itself."""
    import numpy as np

    mark = str(model.tokenizer.convert_ids_to_tokens(model.placeholder))
    before = [] if mark in text else [{"type": "image"}] * len(pictures)
    chat = conversation(model, [*before, {"type": "text", "text": text}])
    (tokens,) = prompt_tokens(model, [chat])
    if tokens.count(model.placeholder) != len(pictures):
        raise TaskError(
            f"a question with {len(pictures)} pictures has {tokens.count(model.placeholder)} placeholders ({mark}) "
            f"for them in the chat template of {model.label}"
        )
    spread = [one for token in tokens for one in [token] * (places if token == model.placeholder else 1)]
    shaped = model.preprocess.shape([np.asarray(_picture(one)) for one in pictures]) if pictures else None
    return Prompt(tuple(spread), shaped)


def _picture(one: Any) -> Any:
    if not hasattr(one, "convert"):
        raise TaskError(
            f"a question comes with {type(one).__name__}, not with pictures; films and sounds cannot be asked"
        )
    return one.convert("RGB")
