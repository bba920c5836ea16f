"""Texts as statistics and learning take them: a prompt and its answer as one run of tokens, of which the answer counts.

In: a language task's pairs of prompt and answer. Out: batches of tokens. With a chat task the pair goes through the
model's own template, and what is judged is the answer and the token that ends the turn. A text that is too long loses
the beginning of its prompt, so that the answer stays whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.causal_lm.batch import token_batch
from smelt.recipe.schema import DataBudget
from smelt.tasks.examples import ExampleBatch, ExampleStream, enough, shuffled
from smelt.tasks.language.chat import chat_text

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.model import CausalLM
    from smelt.tasks.language.task import LanguageTask

__all__ = ["LENGTH", "LanguageExamples", "encoded", "language_examples"]

LENGTH = 512
"""Tokens of one example at most."""


class LanguageExamples(ExampleStream):
    """Texts of one split of a task in a fixed order: for each its token ids, and the place where the answer begins.

    Every answer counts as a label: whatever is computed from a text, the given answer is part of it.
    """

    def __init__(self, name: str, split: str | None, texts: Sequence[tuple[Sequence[int], int]], device: str = "cpu"):
        self.name, self.split, self._device = name, split, device
        self._texts = [(tuple(ids), begin) for ids, begin in texts]
        content = hashlib.sha256(f"{name}\0{split}\0".encode())
        for ids, begin in self._texts:
            content.update(f"{begin} {' '.join(map(str, ids))}\0".encode())
        self.hash = content.hexdigest()
        self.budget = DataBudget(split=split, images=len(self._texts), labels=len(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def longest(self) -> int:
        """The tokens of the longest example."""
        return max(len(ids) for ids, _ in self._texts)

    @property
    def tokens(self) -> int:
        """The tokens of all examples."""
        return sum(len(ids) for ids, _ in self._texts)

    def batch(self, indices: Sequence[int]) -> ExampleBatch:
        some = [self._texts[place] for place in indices]
        inputs = token_batch([ids for ids, _ in some], [begin for _, begin in some], self._device)
        return ExampleBatch(inputs, inputs.ids, None)


def language_examples(
    model: CausalLM, task: LanguageTask, *, split: str, count: int | None = None, length: int = LENGTH
) -> LanguageExamples:
    """The examples of a task for one model, as `Task.examples` says; each of at most `length` tokens."""
    task.check_split(split)
    pairs = task.pairs(split)
    enough(task, split, count, len(pairs))
    order = shuffled(len(pairs), f"{task.name}/{split}")[:count]
    where = f"{task.name}/{split}"
    how: dict[str, Any] = {"chat": task.chat, "between": task.delimiter, "length": length}
    texts = [encoded(model.tokenizer, *pairs[i], **how, where=f"{where} {i}") for i in order]
    return LanguageExamples(task.name, split, texts, model.device)


def encoded(
    tokenizer: Any,
    prompt: str,
    answer: str,
    *,
    chat: bool,
    between: str = " ",
    length: int = LENGTH,
    where: str = "the text",
) -> tuple[list[int], int]:
    """Token ids of a prompt with its answer, and where the answer begins; `between` stands before a plain answer."""
    before, after = _chat(tokenizer, prompt, answer, where) if chat else _plain(tokenizer, prompt, between, answer)
    if not after:
        raise RecipeError(f"{where}: its answer is empty, so that there is nothing to learn from it")
    after = after[: length - 1]
    before = before[-(length - len(after)) :]
    if not before:
        raise RecipeError(f"{where}: its prompt is empty; a language model needs a token to go on from")
    return [*before, *after], len(before)


def _chat(tokenizer: Any, prompt: str, answer: str, where: str) -> tuple[list[int], list[int]]:
    if not tokenizer.chat_template:
        raise RecipeError(
            f"{where}: the task is a chat, but the model's tokenizer has no chat template; "
            "use an instruction-tuned model, or set `chat: false` in the task's metadata"
        )
    asked = [{"role": "user", "content": prompt}]
    begin = chat_text(tokenizer, asked, add_generation_prompt=True)
    whole = chat_text(tokenizer, [*asked, {"role": "assistant", "content": answer}])
    said = whole[len(begin) :] if whole.startswith(begin) else answer
    after = _ids(tokenizer, said)
    ends = [place for place, token in enumerate(after) if token in set(tokenizer.all_special_ids)]
    # What the template writes after the end of the turn belongs to nobody's answer.
    after = after[: ends[0] + 1] if ends else [*after, *_end(tokenizer)]
    return _ids(tokenizer, begin), after


def _plain(tokenizer: Any, prompt: str, between: str, answer: str) -> tuple[list[int], list[int]]:
    """The answer as the harness puts it."""
    before: list[int] = tokenizer(prompt)["input_ids"]
    return before, _ids(tokenizer, between + answer) if answer else []


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _end(tokenizer: Any) -> list[int]:
    return [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
