"""Pairs and retrieval give the scores that sentence-transformers' own evaluators give on the same data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from pico_texts import TEXTS, quiet, write_classifier, write_embedder, write_splade
from smelt.errors import NumericalError, RecipeError
from smelt.models.families.load import load
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError

SCORES = [0, 2, 4, 1, 3, 5, 2, 2, 4, 0, 1, 3]
PAIRS = [(TEXTS[i % 6], TEXTS[(i * i + 1) % 6] + " q" * (i // 6)) for i in range(12)]


def write_pairs(folder: Path) -> Path:
    folder.mkdir()
    (folder / "pairs.yaml").write_text("name: alike\nversion: 2\nsplits: {test: test.tsv}\n")
    rows = [f"{one}\t{other}\t{score}" for (one, other), score in zip(PAIRS, SCORES, strict=True)]
    (folder / "test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    return folder


def write_beir(folder: Path) -> Path:
    """24 documents; every query has two that are relevant, one of them more so."""
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": f"d{i:02}", "title": "t" * (i % 2), "text": f"{TEXTS[i % 6]} {'z' * (i // 6)}"} for i in range(24)
    ]
    queries = [{"_id": f"q{i}", "text": text[: 4 + i]} for i, text in enumerate(TEXTS)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = [f"q{i}\td{i + jump:02}\t{gain}" for i in range(5) for jump, gain in ((0, 1), (6, 1), (12, 0))]
    (folder / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("matching")
    write_embedder(place / "prompted", 3, prompts={"query": "q: ", "document": "d d: "})
    write_embedder(place / "dot", 4, dense=False, similarity_fn_name="dot")
    write_splade(place / "sparse", 5)
    write_classifier(place / "cross", 6, labels=("score",))
    write_pairs(place / "pairs")
    write_beir(place / "beir")
    return place


def _library(place: Path, name: str) -> Any:
    import sentence_transformers

    kind = {"sparse": "SparseEncoder", "cross": "CrossEncoder"}.get(name, "SentenceTransformer")
    with quiet():
        return getattr(sentence_transformers, kind)(str(place / name), device="cpu")


@pytest.mark.parametrize("name", ["prompted", "dot", "sparse"])
def test_pairs_score_as_the_librarys_evaluator(place: Path, name: str) -> None:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
    from sentence_transformers.sparse_encoder.evaluation import SparseEmbeddingSimilarityEvaluator

    kind = SparseEmbeddingSimilarityEvaluator if name == "sparse" else EmbeddingSimilarityEvaluator
    evaluator = kind([one for one, _ in PAIRS], [other for _, other in PAIRS], SCORES)
    told = evaluator(_library(place, name))
    (row,) = smelt.evaluate(place / name, place / "pairs")
    assert row.accuracy == pytest.approx(told[evaluator.primary_metric], abs=1e-6)
    assert (row.metric, row.n, row.unit, row.task_version) == ("spearman", 12, "pair", 2)
    assert row.low < row.accuracy < row.high


@pytest.mark.parametrize("name", ["prompted", "dot", "sparse"])
def test_retrieval_scores_as_the_librarys_evaluator(place: Path, name: str) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.sparse_encoder.evaluation import SparseInformationRetrievalEvaluator

    search = find_task(place / "beir").search("test")
    relevant = {query: set(known) for query, known in search.relevant.items()}
    kind = SparseInformationRetrievalEvaluator if name == "sparse" else InformationRetrievalEvaluator
    ours = _library(place, name)
    evaluator = kind(dict(search.queries), dict(search.corpus), relevant)
    told = evaluator(ours)
    metrics = ["ndcg@10", "mrr@10", "recall@1", "recall@10"]
    rows = smelt.evaluate(place / name, ",".join(f"{place / 'beir'}@{metric}" for metric in metrics))
    for row, metric in zip(rows, metrics, strict=True):
        assert row.accuracy == pytest.approx(told[f"{ours.similarity_fn_name}_{metric}"], abs=1e-6)
        assert (row.metric, row.n, row.task) == (metric, 5, f"beir@{metric}")
    assert 0 < rows[0].accuracy < 1


def test_a_query_without_relevant_documents_is_not_asked(place: Path) -> None:
    task = find_task(place / "beir")
    assert task.count("test") == 5  # of six: nobody judged a document for q5
    assert task.splits == ("test",)


def test_documents_are_ranked_piece_by_piece_alike(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = smelt.evaluate(place / "prompted", place / "beir")
    monkeypatch.setattr("smelt.models.families.embedder.model._DOCUMENTS_AT_ONCE", 5)
    (pieces,) = smelt.evaluate(place / "prompted", place / "beir")
    assert pieces.accuracy == whole.accuracy


def test_a_second_metric_ranks_nothing_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(place / "prompted", "text_matcher")
    asked: list[int] = []
    rank = type(model).rank

    def counted(self: Any, *args: Any, **words: Any) -> Any:
        asked.append(1)
        return rank(self, *args, **words)

    monkeypatch.setattr(type(model), "rank", counted)
    smelt.evaluate(model, f"{place / 'beir'},{place / 'beir'}@mrr@10")
    assert len(asked) == 1


def _with_candidates(place: Path, tmp_path: Path) -> Path:
    folder = write_beir(tmp_path / "some")
    rows = [f"q{i}\td{(i * 5 + j) % 24:02}" for i in range(5) for j in range(8)]
    (folder / "first.tsv").write_text("\n".join(["query-id\tcorpus-id", *rows]))
    (folder / "retrieval.yaml").write_text(
        "name: some\nsplits: {test: qrels/test.tsv}\ncandidates: {test: first.tsv}\nmetric: recall@3\n"
    )
    return folder


def test_a_cross_encoder_ranks_candidates_as_the_library_does(place: Path, tmp_path: Path) -> None:
    folder = _with_candidates(place, tmp_path)
    (row,) = smelt.evaluate(place / "cross", folder)
    search, library = find_task(folder).search("test"), _library(place, "cross")
    assert search.candidates is not None
    shares = []
    for query, text in search.queries.items():
        names = search.candidates[query]
        ranked = library.rank(text, [search.corpus[name] for name in names], show_progress_bar=False)
        best = {names[one["corpus_id"]] for one in ranked[:3]}
        shares.append(len(best & set(search.relevant[query])) / 2)
    assert row.accuracy == pytest.approx(np.mean(shares), abs=1e-6)


def test_an_embedder_ranks_candidates_alone(place: Path, tmp_path: Path) -> None:
    folder = _with_candidates(place, tmp_path)
    search, model = find_task(folder).search("test"), load(place / "prompted", "text_matcher")
    words = {"depth": 100, "leave_out_same": False, "batch": 4, "tell": lambda count: None}
    found = model.rank(search.queries, search.corpus, candidates=search.candidates, **words)
    assert search.candidates is not None
    assert {query: set(names) for query, names in found.items()} == {
        query: set(names) for query, names in search.candidates.items()
    }


def test_a_cross_encoder_without_candidates_is_refused(place: Path) -> None:
    with pytest.raises(RecipeError, match="name the candidates of every query"):
        smelt.evaluate(place / "cross", place / "beir")


def test_a_cross_encoder_scores_pairs_as_the_librarys_evaluator(place: Path) -> None:
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderCorrelationEvaluator

    told = CrossEncoderCorrelationEvaluator(PAIRS, SCORES)(_library(place, "cross"))
    (row,) = smelt.evaluate(place / "cross", place / "pairs", batch=5)
    assert row.accuracy == pytest.approx(told["spearman"], abs=1e-6)


def test_the_query_itself_is_left_out_where_ids_are_shared(place: Path) -> None:
    model = load(place / "prompted", "text_matcher")
    words = {"candidates": None, "depth": 9, "batch": 4, "tell": lambda count: None}
    texts = {"a": "a cat", "b": "gold"}
    assert model.rank(texts, texts, leave_out_same=True, **words) == {"a": ["b"], "b": ["a"]}
    assert model.rank(texts, texts, leave_out_same=False, **words)["b"][0] in texts


def test_of_equal_documents_the_first_by_id_come_first(place: Path) -> None:
    model = load(place / "prompted", "text_matcher")
    words = {"candidates": None, "leave_out_same": False, "batch": 4, "tell": lambda count: None}
    corpus = {f"d{number}": "gold" for number in (5, 3, 1, 4, 2)}
    assert model.rank({"q": "iron"}, corpus, depth=2, **words) == {"q": ["d1", "d2"]}


@pytest.mark.parametrize("task", ["pairs", "beir"])
def test_a_model_with_nan_is_refused(place: Path, task: str) -> None:
    model = load(place / "prompted", "text_matcher")
    model.module[2].linear.bias.data.fill_(float("nan"))
    model.hash = "broken"
    with pytest.raises(NumericalError, match="its weights are not sound"):
        smelt.evaluate(model, place / task)


def test_a_limit_takes_some_queries_and_all_documents(place: Path) -> None:
    (row,) = smelt.evaluate(place / "prompted", place / "beir", limit=2)
    assert row.n == 2
    (pairs,) = smelt.evaluate(place / "prompted", place / "pairs", limit=6)
    assert pairs.n == 6


def test_a_negative_correlation_is_a_row(place: Path, tmp_path: Path) -> None:
    (up,) = smelt.evaluate(place / "prompted", place / "pairs")
    folder = write_pairs(tmp_path / "down")
    rows = [f"{one}\t{other}\t{-score}" for (one, other), score in zip(PAIRS, SCORES, strict=True)]
    (folder / "test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    (down,) = smelt.evaluate(place / "prompted", folder, out=tmp_path / "rows.jsonl")
    assert down.accuracy == pytest.approx(-up.accuracy)
    assert math.isfinite(down.low)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda folder: (folder / "test.tsv").write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t1\n"),
            "same score",
        ),
        (lambda folder: (folder / "test.tsv").write_text("sentence1\tsentence2\tscore\na\t\t1\n"), "line 2: sentence2"),
        (lambda folder: (folder / "test.tsv").write_text("sentence1\tsentence2\tscore\na\tb\tnan\n"), "line 2: score"),
        (lambda folder: (folder / "test.tsv").write_text("a\tb\tscore\na\tb\t1\n"), "has no column 'sentence1'"),
        (lambda folder: (folder / "pairs.yaml").write_text("name: x\nsplits: {test: t.tsv}\ncolumn: {}\n"), "column"),
    ],
)
def test_bad_pairs_are_refused_before_a_model_is_loaded(
    tmp_path: Path, change: Callable[[Path], Any], said: str
) -> None:
    change(write_pairs(tmp_path / "pairs"))
    with pytest.raises(TaskError, match=said):
        smelt.evaluate("no-such-model", tmp_path / "pairs")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td99\t1\n", "no document with the id 'd99'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq99\td01\t1\n", "no query with the id 'q99'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td01\t0\n", "no query has a relevant document"),
        ("qrels/test.tsv", "query-id\tcorpus-id\nq0\td01\n", "has no column 'score'"),
        ("corpus.jsonl", '{"_id": "d01", "text": "a"}\n{"_id": "d01", "text": "b"}\n', "stands twice"),
        ("corpus.jsonl", '{"_id": null, "text": "a"}\n', "line 1: _id has to be an id"),
        ("queries.jsonl", '{"_id": "q0", "text": 4}\n', "line 1: text has to be a text"),
    ],
)
def test_bad_retrieval_data_are_refused(tmp_path: Path, file: str, content: str, said: str) -> None:
    folder = write_beir(tmp_path / "beir")
    (folder / file).write_text(content)
    with pytest.raises(TaskError, match=said):
        smelt.evaluate("no-such-model", folder)


def test_another_metric_that_is_none_is_refused(place: Path) -> None:
    with pytest.raises(TaskError, match="'map@5' is no metric of rankings"):
        find_task(f"{place / 'beir'}@map@5")
    with pytest.raises(TaskError, match="leave @mrr@10 out"):
        find_task(f"{place / 'pairs'}@mrr@10")


def test_a_folder_that_is_no_embedder_is_told_so(place: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"has no modules\.json"):
        smelt.evaluate(place / "prompted-bert", place / "pairs")


def test_modules_with_code_of_their_own_are_refused(place: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(place / "dot", tmp_path / "own"))
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "my_pooling.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(RecipeError, match=r"my_pooling\.Pooling"):
        smelt.evaluate(folder, place / "pairs")
