"""Retrieval: which documents of a corpus answer a query. A BEIR folder as it is, or a folder with `retrieval.yaml`:

    name: facts
    version: 1                             # raised when texts or judgements change
    title: Facts about metals
    corpus: corpus.jsonl                   # these tables as beir.py has them; .csv, .tsv and .parquet too
    queries: queries.jsonl
    splits: {test: qrels/test.tsv}
    candidates: {test: bm25.tsv}           # query-id, corpus-id: rank these alone; a cross-encoder needs them
    same_id: rank                          # or leave_out: a document that has the query's id is not ranked
    metric: ndcg@10                        # or mrr@K, recall@K; `FOLDER@recall@100` on a command line asks for another

The score is a mean over the queries that have relevant documents. A `limit` takes some queries, and all documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.task import TaskError
from smelt.tasks.texts import beir
from smelt.tasks.texts.ranking import depth_of
from smelt.tasks.texts.text_task import TextTask

if TYPE_CHECKING:
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.texts.retrieval_run import PreparedRetrieval, Search

__all__ = ["RetrievalTask", "beir_task"]


class RetrievalTask(TextTask, strict=True):
    """What is asked of an embedder, or of a cross-encoder that ranks candidates."""

    kind: ClassVar[str] = "retrieval"
    called: ClassVar[str] = "a retrieval task"
    unit: ClassVar[str] = "query"
    model_kind: ClassVar[str] = "text_matcher"
    FILE: ClassVar[str] = "retrieval.yaml"
    NOUN: ClassVar[str] = "retrieval task"
    NEEDED: ClassVar[str] = "name and splits"

    corpus: str = beir.CORPUS
    queries: str = beir.QUERIES
    candidates: dict[str, str] = Field(default_factory=dict)
    same_id: Literal["rank", "leave_out"] = "rank"
    metric: Annotated[str, Field(min_length=1)] = "ndcg@10"

    @field_validator("metric")
    @classmethod
    def _known(cls, value: str) -> str:
        depth_of(value)
        return value

    @property
    def reference(self) -> str:
        _, at, metric = self.name.partition("@")
        return f"{self.folder}{at}{metric}"

    def variant(self, word: str) -> RetrievalTask:
        """The same task by another metric."""
        try:
            depth_of(word)
        except ValueError as error:
            raise TaskError(f"{self.name}: {error}") from None
        return self.model_copy(update={"name": f"{self.name.partition('@')[0]}@{word}", "metric": word})

    def count(self, split: str) -> int | None:
        there = all((self.folder / name).is_file() for name in (self.corpus, self.queries, self.files[split]))
        return len(self.search(split).relevant) if there else None

    def records(self, split: str) -> list[str]:
        """The ids of the queries that have relevant documents."""
        return [*self.search(split).relevant]

    def search(self, split: str) -> Search:
        """All tables of a split, checked."""
        from smelt.tasks.texts.retrieval_run import Search

        what = f"{self.name}/{split}"
        corpus = beir.read_texts(self.folder / self.corpus, what)
        queries = beir.read_texts(self.folder / self.queries, what)
        relevant = beir.read_judgements(self.file(split), what, queries, corpus)
        some: Mapping[str, list[str]] | None = None
        if split in self.candidates:
            some = beir.read_candidates(self.folder / self.candidates[split], what, queries, corpus)
            alone = next((query for query in relevant if query not in some), None)
            if alone is not None:
                raise TaskError(f"{what}: the query {alone!r} has no candidates in {self.candidates[split]}")
        return Search(corpus, {query: queries[query] for query in relevant}, relevant, some)

    def _files(self) -> list[Path]:
        """Tables may lie in another folder, which several tasks share."""
        named = [self.corpus, self.queries, *self.files.values(), *self.candidates.values()]
        inside = super()._files()
        outside = {(self.folder / name).resolve() for name in named} - {file.resolve() for file in inside}
        return [*inside, *sorted(file for file in outside if file.is_file())]

    def prepare(
        self, split: str, *, limit: int | None, data: DataCache, corruption: Corruption | None = None
    ) -> PreparedRetrieval:
        from smelt.tasks.texts.retrieval_run import PreparedRetrieval, RankingCache

        cache = data.beside(RankingCache)
        return PreparedRetrieval(self, split, cache.search(self, split, limit), cache)

    def words(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.model_dump(mode="json", exclude={"files", "candidates"})}


def beir_task(path: str) -> RetrievalTask:
    """A BEIR folder (or its corpus.jsonl) without a file of ours: it is called as its folder is."""
    folder = Path(path).parent if Path(path).is_file() else Path(path)
    splits = beir.qrels_files(folder)
    if not splits:
        raise TaskError(f"{folder}: has documents ({beir.CORPUS}) but no judgements ({beir.QRELS}/SPLIT.tsv)")
    content = {"name": folder.resolve().name, "splits": splits}
    return RetrievalTask.parse(content, folder=folder, where=str(folder))


task_kinds["retrieval"] = TaskKind(RetrievalTask.load, file=RetrievalTask.FILE)
task_kinds["beir"] = TaskKind(beir_task, file=beir.CORPUS)
