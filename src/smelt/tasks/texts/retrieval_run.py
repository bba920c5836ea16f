"""Retrieval on one model: documents ranked for every query, and the score of each ranking.

A ranking is kept for as long as its data are, so that a second metric of the same task ranks nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.result import Result
from smelt.tasks.task import PreparedTask
from smelt.tasks.texts.ranking import depth_of, query_score

if TYPE_CHECKING:
    from smelt.tasks.texts.retrieval import RetrievalTask

__all__ = ["PreparedRetrieval", "RankingCache", "Search"]

_DEPTH = 100
"""Documents that are ranked at least: deep enough for what most metrics ask."""


@dataclass(frozen=True)
class Search:
    """Texts by id, the relevance of documents by query, and the documents a query chooses among if not all."""

    corpus: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, float]]
    candidates: Mapping[str, list[str]] | None


class RankingCache:
    """What models and metrics share: tables that were read, and the rankings of the last model."""

    def __init__(self) -> None:
        self._searches: dict[tuple[str, str], Search] = {}
        self._model, self._rankings = "", dict[tuple[str, str, int | None, int], dict[str, list[str]]]()

    def search(self, task: RetrievalTask, split: str, limit: int | None) -> Search:
        """The tables of a split with at most `limit` queries, always the same; read once."""
        key = (_place(task), split)
        if key not in self._searches:
            self._searches[key] = task.search(split)
        whole = self._searches[key]
        if limit is None or limit >= len(whole.queries):
            return whole
        some = task.some_records(split, limit)
        return replace(whole, queries={query: whole.queries[query] for query in some})

    def ranked(
        self, one: PreparedRetrieval, model: Any, depth: int, batch: int, watch: Progress
    ) -> dict[str, list[str]]:
        """The documents of every query, the best first; of another model they take the place of the last one's."""
        if model.hash != self._model:
            self._model, self._rankings = model.hash, {}
        key = (_place(one.task), one.split, len(one.search.queries), depth)
        if key not in self._rankings:
            left_out = one.task.same_id == "leave_out"
            self._rankings[key] = model.rank(
                one.search.queries,
                one.search.corpus,
                candidates=one.search.candidates,
                depth=depth,
                leave_out_same=left_out,
                batch=batch,
                tell=watch.advance,
            )
        return self._rankings[key]


@dataclass(frozen=True)
class PreparedRetrieval(PreparedTask):
    """Queries with the documents they are asked about."""

    task: RetrievalTask
    split: str
    search: Search
    cache: RankingCache

    counts: ClassVar[Unit] = "requests"

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        watch.begin(
            self.task.name, model.texts_to_rank(self.search.queries, self.search.corpus, self.search.candidates)
        )
        depth = max(_DEPTH, depth_of(self.task.metric))
        with torch_threads(threads):
            found = self.cache.ranked(self, model, depth, batch, watch)
        scores = [
            query_score(self.task.metric, found[query], self.search.relevant[query]) for query in self.search.queries
        ]
        return Result(
            self.task.name, self.task.version, self.split, scores, metric=self.task.metric, unit=self.task.unit
        )


def _place(task: RetrievalTask) -> str:
    return f"{task.folder}\0{task.model_dump_json(exclude={'name', 'metric'})}"
