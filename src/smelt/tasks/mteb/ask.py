"""A task of mteb on one model: its main score as the library has it, and how far that may be from the true one.

The library tells no scores of examples. Where it notes what the model said (similarities of pairs, documents of every
query) they are worked out again, and used if they give the library's own number: then the interval is a bootstrap
over pairs or queries. Of every other task it is Wilson's for a share of as many examples. A task of several parts
(languages) has the mean of theirs, and the interval of a mean of independent numbers.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from smelt.errors import RecipeError
from smelt.files.reading import find_json_table
from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.intervals import interval_of, wilson
from smelt.tasks.language.ask import task_faults
from smelt.tasks.mteb.library import quiet_mteb
from smelt.tasks.mteb.task import MtebTask
from smelt.tasks.result import Result
from smelt.tasks.task import PreparedTask, TaskError
from smelt.tasks.texts.correlation import spearman, spearman_interval
from smelt.tasks.texts.ranking import METRICS, query_score

__all__ = ["PreparedMteb"]

_NEAR = 1e-5
"""How near to the library's number ours has to be to stand for it; the library rounds its own to five places."""


@dataclass(frozen=True)
class _Part:
    """The score of one part of a task, its interval, and its number of examples."""

    score: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class PreparedMteb(PreparedTask):
    """A task with the library's own object and its data."""

    task: MtebTask
    split: str
    inner: Any

    counts: ClassVar[Unit] = "requests"

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        splits = list(self.inner.eval_splits)
        watch.begin(self.task.name, len(splits))
        parts: list[_Part] = []
        for split in splits:
            parts += self._split(model, split, batch, threads)
            watch.advance(1)
        score = math.fsum(part.score for part in parts) / len(parts)
        below = math.hypot(*(part.score - part.low for part in parts)) / len(parts)
        above = math.hypot(*(part.high - part.score for part in parts)) / len(parts)
        return Result(
            self.task.name,
            self.task.version,
            self.split,
            [part.score for part in parts for _ in range(part.n)],
            metric=str(self.inner.metadata.main_score),
            whole=(score, score - below, score + above),
        )

    def _split(self, model: Any, split: str, batch: int, threads: int | None) -> list[_Part]:
        who = self.task.reference
        with tempfile.TemporaryDirectory(prefix="smelt-mteb-") as scratch:
            with torch_threads(threads), quiet_mteb(), task_faults(who):
                asked = _wrapped(model)
                words = {"batch_size": batch, "show_progress_bar": False}
                found: Mapping[str, Any] = self.inner.evaluate(
                    asked, split, encode_kwargs=words, prediction_folder=Path(scratch)
                )
            noted = find_json_table(Path(scratch) / self.inner.prediction_file_name) or {}
        return [
            self._part(float(scores["main_score"]), noted.get(subset, {}).get(split), subset, split)
            for subset, scores in found.items()
        ]

    def _part(self, score: float, noted: Any, subset: str, split: str) -> _Part:
        if not -1 <= score <= 1:
            raise TaskError(
                f"{self.task.reference}: its {self.inner.metadata.main_score} is {score}, and scores are from -1 to 1"
            )
        data = self.inner.dataset
        data = data[subset][split] if subset in data else data[split]
        worked_out = _of_pairs(score, noted, data) or _of_queries(score, noted, data, self.inner.metadata.main_score)
        n = _size(data)
        return worked_out or _Part(score, *(wilson(score * n, n) if score >= 0 else (-1.0, 1.0)), n)


def _of_pairs(score: float, noted: Any, data: Any) -> _Part | None:
    """A correlation: of the noted similarities that give it."""
    if not isinstance(noted, Mapping):
        return None
    for word in ("cosine_scores", "similarity_scores"):
        said: Sequence[float] | None = noted.get(word)
        if said and "score" in getattr(data, "column_names", ()):
            gold = [float(one) for one in data["score"]]
            own = spearman(said, gold)
            if own is not None and abs(own - score) < _NEAR:
                return _Part(score, *spearman_interval(said, gold), len(gold))
    return None


def _of_queries(score: float, noted: Any, data: Any, metric: str) -> _Part | None:
    """A mean over queries: of the noted documents."""
    name, _, depth = metric.partition("_at_")
    if name not in METRICS or not isinstance(noted, Mapping) or not isinstance(data, Mapping):
        return None
    judged: Mapping[str, Mapping[str, float]] = data["relevant_docs"]
    relevant = {query: {one: gain for one, gain in known.items() if gain > 0} for query, known in judged.items()}
    scores = [
        query_score(f"{name}@{depth}", sorted(found, key=lambda one: (-found[one], one)), relevant[query])
        for query, found in noted.items()
        if relevant.get(query)
    ]
    if not scores or abs(math.fsum(scores) / len(scores) - score) > _NEAR:
        return None
    return _Part(score, *interval_of(scores), len(scores))


def _size(data: Any) -> int:
    """How many examples there are: rows, or queries."""
    return max(1, len(data["queries"]) if isinstance(data, Mapping) and "queries" in data else len(data))


def _wrapped(model: Any) -> Any:
    """What the library asks: an embedder, or a cross-encoder in the library that its folder is made for."""
    from mteb.models.sentence_transformer_wrapper import (
        CrossEncoderWrapper,
        SentenceTransformerEncoderWrapper,
        SparseEncoderWrapper,
    )
    from sentence_transformers import CrossEncoder, SparseEncoder

    module = getattr(model, "module", None)
    if isinstance(module, SparseEncoder):
        return SparseEncoderWrapper(module)
    if module is not None:
        return SentenceTransformerEncoderWrapper(module)
    if model.folder is None:
        raise RecipeError(f"{model.label}: mteb asks a cross-encoder that lies in a folder; merge it into one first")
    return CrossEncoderWrapper(CrossEncoder(str(model.folder), device=model.device, local_files_only=True))
