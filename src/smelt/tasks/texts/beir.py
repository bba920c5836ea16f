"""What a BEIR folder holds: documents, queries, judgements of which documents answer which query.

    corpus.jsonl      {"_id": "d1", "title": "Iron", "text": "A metal."}     a document per line; a title may be missing
    queries.jsonl     {"_id": "q1", "text": "What is iron?"}
    qrels/test.tsv    query-id  corpus-id  score                            a score above 0 is relevant

The same tables may be .csv, .tsv or .parquet; ids may be called `id`. What a model reads of a document is its title and
its text, with a space between.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from smelt.errors import shortened
from smelt.tasks.task import TaskError
from smelt.tasks.texts.tables import TableRow, as_name, as_number, as_text, parsed_rows

__all__ = ["CORPUS", "QRELS", "QUERIES", "qrels_files", "read_candidates", "read_judgements", "read_texts"]

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_IDS = ("_id", "id")
_QUERY, _DOCUMENT, _SCORE = "query-id", "corpus-id", "score"

Judged = dict[str, dict[str, float]]
"""Relevance by document, by query."""


def qrels_files(folder: Path) -> dict[str, str]:
    """The judgements of every split that a BEIR folder has, by the name of their file."""
    return {path.stem: f"{QRELS}/{path.name}" for path in sorted((folder / QRELS).glob("*.tsv"))}


def read_texts(file: Path, what: str) -> dict[str, str]:
    """The texts of a corpus or of queries, by id; a title comes before its text."""
    seen: set[str] = set()

    def named(row: TableRow) -> tuple[str, str]:
        name = as_name(row, _id_column(row))
        if name in seen:
            raise ValueError(f"line {row[0]}: the id {shortened(name)!r} stands twice")
        seen.add(name)
        return name, _with_title(row)

    return dict(parsed_rows(file, what, ["text"], named))


def read_judgements(file: Path, what: str, queries: Mapping[str, str], corpus: Mapping[str, str]) -> Judged:
    """The relevant documents of every query that has some; a name that stands nowhere is refused."""
    found: Judged = {}
    for query, document, score in _named(file, what, queries, corpus, scored=True):
        if score > 0:
            found.setdefault(query, {})[document] = score
    if not found:
        raise TaskError(f"{file}: no query has a relevant document (a score above 0)")
    return found


def read_candidates(
    file: Path, what: str, queries: Mapping[str, str], corpus: Mapping[str, str]
) -> dict[str, list[str]]:
    """The documents among which every query chooses, where a first search has found them."""
    found: dict[str, dict[str, None]] = {}
    for query, document, _ in _named(file, what, queries, corpus, scored=False):
        found.setdefault(query, {})[document] = None
    return {query: [*documents] for query, documents in found.items()}


def _named(
    file: Path, what: str, queries: Mapping[str, str], corpus: Mapping[str, str], *, scored: bool
) -> list[tuple[str, str, float]]:
    """Query, document and score of every row, whose ids are all there."""

    def judged(row: TableRow) -> tuple[str, str, float]:
        query, document = as_name(row, _QUERY), as_name(row, _DOCUMENT)
        for name, there, kind in ((query, queries, "query"), (document, corpus, "document")):
            if name not in there:
                raise ValueError(f"line {row[0]}: there is no {kind} with the id {shortened(name)!r}")
        return query, document, as_number(row, _SCORE) if scored else 0.0

    return parsed_rows(file, what, [_QUERY, _DOCUMENT, *([_SCORE] if scored else [])], judged)


def _id_column(row: TableRow) -> str:
    return next((word for word in _IDS if word in row[1]), _IDS[0])


def _with_title(row: TableRow) -> str:
    """A document may have a title alone: some corpora are made of names."""
    title = row[1].get("title")
    if not isinstance(title, str) or not title.strip():
        return as_text(row, "text")
    text = row[1].get("text")
    return f"{title} {text}".strip() if isinstance(text, str) else title.strip()
