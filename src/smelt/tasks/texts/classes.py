"""Texts with classes: a folder with `classes.yaml` and its tables.

    name: reviews
    version: 1                                   # raised when texts or labels change
    title: Good or bad
    splits: {test: test.csv}                     # .jsonl, .csv, .tsv or .parquet
    columns: {text: text, second: null, label: label}     # `second`: a text that is read together with the first
    labels: [negative, positive]                 # what the numbers in the table mean; without it they are the model's
    metric: accuracy                             # or macro_f1

Labels in a table are numbers or names. Names are those of the model (`id2label` in its config.json), whatever their
case; a model that has none (LABEL_0, LABEL_1) counts as the task does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from smelt.errors import shortened
from smelt.files.schema import Strict
from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.result import Result, choice_result
from smelt.tasks.task import PreparedTask, TaskError
from smelt.tasks.texts.macro_f1 import macro_f1, macro_f1_interval
from smelt.tasks.texts.tables import TableRow, as_text, parsed_rows
from smelt.tasks.texts.text_task import TextTask

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["ClassColumns", "ClassTask", "LabelledText", "PreparedClasses"]

_UNNAMED = re.compile(r"^LABEL_\d+$")


@dataclass(frozen=True)
class LabelledText:
    """A text, or two, and its label as the table has it."""

    text: str | tuple[str, str]
    label: int | str
    line: int


class ClassColumns(Strict):
    """What a table calls its columns."""

    text: str = "text"
    second: str | None = None
    label: str = "label"


class ClassTask(TextTask, strict=True):
    """What is asked of a classifier of texts: which class a text is of."""

    kind: ClassVar[str] = "classes"
    called: ClassVar[str] = "a task of classes of texts"
    unit: ClassVar[str] = "text"
    model_kind: ClassVar[str] = "text_classifier"
    FILE: ClassVar[str] = "classes.yaml"
    NOUN: ClassVar[str] = "task of classes"
    NEEDED: ClassVar[str] = "name and splits"

    columns: ClassColumns = Field(default_factory=ClassColumns)
    labels: list[str] = Field(default_factory=list)
    metric: Literal["accuracy", "macro_f1"] = "accuracy"

    def records(self, split: str) -> list[LabelledText]:
        names = self.columns
        columns = [names.text, *([names.second] if names.second else []), names.label]

        def labelled(row: TableRow) -> LabelledText:
            text = as_text(row, names.text)
            both = (text, as_text(row, names.second)) if names.second else text
            return LabelledText(both, self._label(row), row[0])

        return parsed_rows(self.file(split), f"{self.name}/{split}", columns, labelled)

    def _label(self, row: TableRow) -> int | str:
        """A number stays one only where it can be no name: a table of text holds both as text."""
        number, values = row
        value = values[self.columns.label]
        if isinstance(value, str) and value.strip():
            value = value.strip()
            if not value.isdecimal() or value in self.labels:
                return value
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"line {number}: {self.columns.label} has to be a label, got {shortened(repr(value))}")
        if self.labels and value >= len(self.labels):
            raise ValueError(f"line {number}: the label {value} is none of the {len(self.labels)} labels")
        return self.labels[value] if self.labels else value

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedClasses:
        return PreparedClasses(self, split, self.some_records(split, limit))

    def last_lines(self) -> list[str]:
        first = self.records(self.splits[0])[0]
        texts = [first.text] if isinstance(first.text, str) else first.text
        return [f"an example of {self.splits[0]}:", *(f"  {text}" for text in texts), f"  {first.label}"]


@dataclass(frozen=True)
class PreparedClasses(PreparedTask):
    """Texts whose labels are known."""

    task: ClassTask
    split: str
    texts: list[LabelledText]

    counts: ClassVar[Unit] = "examples"

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        import numpy as np
        import torch

        right = np.array(self.places(model.labels, model.label), dtype=np.int64)
        watch.begin(self.task.name, len(self.texts))
        with torch_threads(threads):
            scores = model.classify([one.text for one in self.texts], batch=batch, tell=watch.advance)
        answers = scores.argmax(dim=1).numpy()
        loss = float(torch.nn.functional.cross_entropy(scores.double(), torch.from_numpy(right)))
        more: dict[str, Any] = {}
        if self.task.metric == "macro_f1":
            value, interval = macro_f1(right, answers), macro_f1_interval(right, answers)
            more = {"metric": "macro_f1", "whole": (value, *interval)}
        return choice_result(self.task, self.split, right, answers, model.labels, loss, **more)

    def places(self, labels: Sequence[str], who: str) -> list[int]:
        """The place of every right label among those of a model; names that it does not have are refused."""
        names = self.task.labels
        if all(map(_UNNAMED.match, labels)) and names:
            if len(names) != len(labels):
                raise TaskError(f"{self.task.name}: has {len(names)} labels, but {who} tells {len(labels)} apart")
            labels = names
        known = {name.casefold(): place for place, name in enumerate(labels)}
        found = []
        for one in self.texts:
            place = one.label if isinstance(one.label, int) else known.get(one.label.casefold(), len(labels))
            if place >= len(labels):
                raise TaskError(
                    f"{self.task.name}, line {one.line}: the label {one.label!r} is none of {who}'s: "
                    f"{', '.join(labels)}"
                )
            found.append(place)
        return found


task_kinds["classes"] = TaskKind(ClassTask.load, file=ClassTask.FILE)
