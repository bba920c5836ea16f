"""Pairs of texts with scores: a folder with `pairs.yaml` and its tables.

    name: sts
    version: 1                                  # raised when the pairs or their scores change
    title: How alike two sentences are
    splits: {test: test.tsv}                    # .jsonl, .csv, .tsv or .parquet
    columns: {one: sentence1, two: sentence2, score: score}

The score of a model is Spearman's correlation between the scores of the pairs and what the model says of them: the
similarity of two embeddings, as the model's own folder says it is measured (mostly the cosine), or a cross-encoder's
score before its last function, which changes no order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from smelt.files.schema import Strict
from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.result import Result
from smelt.tasks.task import PreparedTask, TaskError
from smelt.tasks.texts.correlation import spearman, spearman_interval
from smelt.tasks.texts.tables import TableRow, as_number, as_text, parsed_rows
from smelt.tasks.texts.text_task import TextTask

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["PairColumns", "PairTask", "PreparedPairs", "ScoredPair"]


@dataclass(frozen=True)
class ScoredPair:
    """Two texts, and how alike people found them."""

    one: str
    two: str
    score: float


class PairColumns(Strict):
    """What a table calls its columns."""

    one: str = "sentence1"
    two: str = "sentence2"
    score: str = "score"


class PairTask(TextTask, strict=True):
    """What is asked of an embedder or a cross-encoder: how alike two texts are."""

    kind: ClassVar[str] = "pairs"
    called: ClassVar[str] = "a task of pairs of texts"
    unit: ClassVar[str] = "pair"
    model_kind: ClassVar[str] = "text_matcher"
    FILE: ClassVar[str] = "pairs.yaml"
    NOUN: ClassVar[str] = "task of pairs"
    NEEDED: ClassVar[str] = "name and splits"

    columns: PairColumns = Field(default_factory=PairColumns)

    def records(self, split: str) -> list[ScoredPair]:
        names = self.columns

        def pair(row: TableRow) -> ScoredPair:
            return ScoredPair(as_text(row, names.one), as_text(row, names.two), as_number(row, names.score))

        return parsed_rows(self.file(split), f"{self.name}/{split}", [names.one, names.two, names.score], pair)

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedPairs:
        """Pairs that all have the same score are refused: nothing correlates with them."""
        pairs = self.some_records(split, limit)
        if len({pair.score for pair in pairs}) < 2:
            raise TaskError(
                f"{self.name}/{split}: its {len(pairs)} pairs all have the same score, so nothing correlates with it"
            )
        return PreparedPairs(self, split, pairs)

    def last_lines(self) -> list[str]:
        first = self.records(self.splits[0])[0]
        return [f"an example of {self.splits[0]}:", f"  {first.one}", f"  {first.two}", f"  {first.score}"]


@dataclass(frozen=True)
class PreparedPairs(PreparedTask):
    """Pairs with their scores."""

    task: PairTask
    split: str
    pairs: list[ScoredPair]

    counts: ClassVar[Unit] = "examples"

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        watch.begin(self.task.name, len(self.pairs))
        with torch_threads(threads):
            texts = [(pair.one, pair.two) for pair in self.pairs]
            found: list[float] = model.match(texts, batch=batch, tell=watch.advance)
        gold = [pair.score for pair in self.pairs]
        score = spearman(found, gold)
        if score is None:
            raise TaskError(
                f"{self.task.name}: {model.label} finds all {len(gold)} pairs equally alike, so there is no correlation"
            )
        whole = (score, *spearman_interval(found, gold))
        return Result(
            self.task.name,
            self.task.version,
            self.split,
            found,
            metric="spearman",
            unit=self.task.unit,
            whole=whole,
        )


task_kinds["pairs"] = TaskKind(PairTask.load, file=PairTask.FILE)
