"""Preferences: a folder with `preferences.yaml` and its tables, for reward models.

    name: helpful
    version: 1                                   # raised when prompts or replies change
    title: Which reply people like better
    splits: {test: test.jsonl}                   # .jsonl, .csv, .tsv or .parquet, as RewardBench has them
    columns: {prompt: prompt, chosen: chosen, rejected: rejected}

A reply is a text, or a list of messages ({"role", "content"}) that goes on after the prompt or holds all of a chat. The
score is the share of pairs whose chosen reply gets the higher reward; equal rewards are wrong. A model with a chat
template reads prompt and reply as a chat in it, another reads the two texts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from smelt.errors import shortened
from smelt.files.schema import Strict
from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.language.chat import chat_text
from smelt.tasks.result import Result
from smelt.tasks.task import PreparedTask, TaskError
from smelt.tasks.texts.tables import TableRow, parsed_rows
from smelt.tasks.texts.text_task import TextTask

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["Preference", "PreferenceColumns", "PreferenceTask", "PreparedPreferences"]

Chat = list[dict[str, str]]


@dataclass(frozen=True)
class Preference:
    """Two chats that differ in their replies."""

    chosen: Chat
    rejected: Chat


class PreferenceColumns(Strict):
    """What a table calls its columns."""

    prompt: str | None = "prompt"
    """Nothing where the replies hold all of a chat."""
    chosen: str = "chosen"
    rejected: str = "rejected"


class PreferenceTask(TextTask, strict=True):
    """What is asked of a reward model: which of two replies is better."""

    kind: ClassVar[str] = "preference"
    called: ClassVar[str] = "a task of preferences"
    unit: ClassVar[str] = "pair"
    model_kind: ClassVar[str] = "text_classifier"
    FILE: ClassVar[str] = "preferences.yaml"
    NOUN: ClassVar[str] = "task of preferences"
    NEEDED: ClassVar[str] = "name and splits"

    columns: PreferenceColumns = Field(default_factory=PreferenceColumns)

    def records(self, split: str) -> list[Preference]:
        names = self.columns
        columns = [*([names.prompt] if names.prompt else []), names.chosen, names.rejected]

        def preference(row: TableRow) -> Preference:
            before = _messages(row, names.prompt, "user") if names.prompt else []
            chosen, rejected = ([*before, *_messages(row, one, "assistant")] for one in columns[-2:])
            return Preference(chosen, rejected)

        return parsed_rows(self.file(split), f"{self.name}/{split}", columns, preference)

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedPreferences:
        return PreparedPreferences(self, split, self.some_records(split, limit))


@dataclass(frozen=True)
class PreparedPreferences(PreparedTask):
    """Pairs of replies."""

    task: PreferenceTask
    split: str
    pairs: list[Preference]

    counts: ClassVar[Unit] = "examples"

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        import torch

        if len(model.labels) != 1:
            raise TaskError(
                f"{self.task.name}: {model.label} gives a text {len(model.labels)} scores, one for each of its labels "
                f"({', '.join(model.labels[:8])}); a reward model has one"
            )
        chats = [chat for pair in self.pairs for chat in (pair.chosen, pair.rejected)]
        with torch_threads(threads):
            has_template = bool(getattr(model.tokenizer, "chat_template", None))
            texts = [chat_text(model.tokenizer, chat) if has_template else _as_pair(chat) for chat in chats]
            watch.begin(self.task.name, len(texts))
            found = model.classify(texts, batch=batch, tell=watch.advance, special_tokens=not has_template)[:, 0]
        chosen, rejected = found[0::2].double(), found[1::2].double()
        loss = float(torch.nn.functional.softplus(rejected - chosen).mean())
        scores = (chosen > rejected).double().tolist()
        return Result(self.task.name, self.task.version, self.split, scores, loss=loss, unit=self.task.unit)


def _messages(row: TableRow, column: str, role: str) -> Chat:
    """One message of a text, or those of a list."""
    number, values = row
    value = values[column]
    if isinstance(value, str) and value.strip():
        return [{"role": role, "content": value}]
    if isinstance(value, Sequence) and not isinstance(value, str) and value and all(map(_is_message, value)):
        return [{"role": one["role"], "content": one["content"]} for one in value]
    raise ValueError(
        f"line {number}: {column} has to be a text or a list of messages (role, content), got {shortened(repr(value))}"
    )


def _is_message(one: Any) -> bool:
    return isinstance(one, Mapping) and all(isinstance(one.get(word), str) for word in ("role", "content"))


def _as_pair(chat: Chat) -> tuple[str, str] | str:
    """What comes before the reply, and the reply; without a template nothing says who spoke."""
    before = "\n".join(message["content"] for message in chat[:-1])
    return (before, chat[-1]["content"]) if before else chat[-1]["content"]


task_kinds["preferences"] = TaskKind(PreferenceTask.load, file=PreferenceTask.FILE)
