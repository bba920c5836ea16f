"""A Smelt model as lmms-eval sees it: the few questions that its tasks put to a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smelt.tasks.lmms.generate import likelihood, written
from smelt.tasks.lmms.prompts import Prompt, places_of, prompt_of, stop_rule_of
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["lmms_model"]

_WINDOW = 512
"""Requests whose pictures are in memory at once; among these those of like length are answered together."""


def lmms_model(model: ImageText, *, rows: int = 256, tell: Callable[[int], None] = lambda done: None) -> Any:
    """An `lmms_eval.api.model.lmms`; `tell` hears how many requests were answered.

    Whoever runs tasks puts their data into `task_dict`, as lmms-eval's own evaluator does.
    """
    return _kind()(model, rows, tell)


@functools.cache
def _kind() -> Any:
    """The class, which exists only where its base does."""
    from lmms_eval.api.model import lmms
    from lmms_eval.api.registry import register_model

    base: Any = lmms

    class SmeltLmms(base):  # type: ignore[misc]
        """Answers by the model's own module, tokenizer and chat template."""

        def __init__(self, model: ImageText, rows: int, tell: Callable[[int], None]):
            super().__init__()
            self._smelt, self._rows, self._tell = model, rows, tell
            self.device = model.device

        @functools.cached_property
        def _places(self) -> int:
            return places_of(self._smelt)

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            texts = []
            for start in range(0, len(requests), _WINDOW):
                some = [one.args for one in requests[start : start + _WINDOW]]
                asked = [(self._prompt(text, *place), stop_rule_of(words)) for text, words, *place in some]
                texts += written(self._smelt, asked, rows=self._rows, tell=self._tell)
            return texts

        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            found = []
            for text, answer, *place in (one.args for one in requests):
                said = answer if isinstance(answer, str) else str(answer(self._doc(*place[1:])))
                tokens = self._smelt.tokenizer.encode(said, add_special_tokens=False)
                if not tokens:
                    raise TaskError("an answer whose likelihood is asked for is empty")
                found.append(likelihood(self._smelt, self._prompt(text, *place), tokens))
                self._tell(1)
            return found

        def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
            raise TaskError("questions in several rounds cannot be asked of Smelt's models")

        def _doc(self, number: int, task: str, split: str) -> Any:
            return self.task_dict[task][split][number]

        def _prompt(self, text: str, visual: Callable[[Any], Any], number: int, task: str, split: str) -> Prompt:
            return prompt_of(self._smelt, text, visual(self._doc(number, task, split)) or [], self._places)

    return register_model("smelt")(SmeltLmms)
