"""Tasks of mteb on local data give the scores that mteb itself gives, as rows with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smelt
from pico_texts import TEXTS, quiet, write_classifier, write_embedder
from smelt.errors import RecipeError
from smelt.tasks.mteb.library import loaded_task, quiet_mteb
from smelt.tasks.registry import find_task
from smelt.tasks.task import TaskError

pytest.importorskip("mteb")

SCORES = [0, 4, 1, 5, 2, 3]
CARD = """---
configs:
- config_name: default
  data_files: [{split: test, path: data/test.jsonl}]
- config_name: corpus
  data_files: [{split: corpus, path: data/corpus.jsonl}]
- config_name: queries
  data_files: [{split: queries, path: data/queries.jsonl}]
---
"""


def _lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(map(json.dumps, rows)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data in the layouts that the hub has them in, and models."""
    place = tmp_path_factory.mktemp("mteb")
    pairs = zip(TEXTS, [*TEXTS[1:], TEXTS[0]], SCORES, strict=True)
    _lines(place / "sts/test.jsonl", [{"sentence1": a, "sentence2": b, "score": score} for a, b, score in pairs])
    facts = place / "facts"
    _lines(facts / "data/corpus.jsonl", [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(TEXTS)])
    _lines(facts / "data/queries.jsonl", [{"_id": f"q{i}", "text": text[:5]} for i, text in enumerate(TEXTS)])
    judged = [{"query-id": f"q{i}", "corpus-id": f"d{(i + j) % 6}", "score": 1} for i in range(6) for j in (1, 2)]
    _lines(facts / "data/test.jsonl", judged)
    (facts / "README.md").write_text(CARD)
    for split in ("train", "test"):
        rows = [{"text": f"{text} {i}", "label": i % 2, "label_text": str(i % 2)} for i in range(9) for text in TEXTS]
        _lines(place / f"bank/{split}.jsonl", rows)
    write_embedder(place / "model", 3, prompts={"query": "q: ", "document": "d: "})
    write_classifier(place / "cross", 6, labels=("score",))
    return place


def _by_the_library(name: str, data: Path, model: Path) -> float:
    import mteb
    from sentence_transformers import SentenceTransformer

    task = loaded_task(name, data)
    told = {**task.metadata.dataset, "revision": "local"}  # its results have to name one
    task.metadata = task.metadata.model_copy(update={"dataset": told})
    with quiet(), quiet_mteb():
        done = mteb.evaluate(
            SentenceTransformer(str(model), device="cpu"),
            task,
            cache=None,
            encode_kwargs={"batch_size": 8},
            show_progress_bar=False,
        )
    ((scores,),) = done.task_results[0].scores.values()
    return float(scores["main_score"])


@pytest.mark.parametrize(
    ("name", "data", "metric", "n"),
    [
        ("STSBenchmark", "sts", "cosine_spearman", 6),
        ("NFCorpus", "facts", "ndcg_at_10", 6),
        ("Banking77Classification", "bank", "accuracy", 54),
    ],
)
def test_scores_are_the_librarys_own(place: Path, name: str, data: str, metric: str, n: int) -> None:
    (row,) = smelt.evaluate(place / "model", f"mteb:{name}@{place / data}")
    assert row.accuracy == pytest.approx(_by_the_library(name, place / data, place / "model"), abs=1e-6)
    assert (row.task, row.metric, row.n) == (f"mteb:{name}", metric, n)
    assert row.low <= row.accuracy <= row.high
    assert row.low < row.high
    assert f"mteb:{name}@{place / data}" in row.command


def test_pairs_and_queries_are_those_of_smelts_own_tasks(place: Path, tmp_path: Path) -> None:
    """The same data as a task of pairs and as a BEIR folder: the same numbers, the same intervals."""
    pairs, beir = tmp_path / "pairs", tmp_path / "beir"
    pairs.mkdir()
    (pairs / "pairs.yaml").write_text("name: sts\nsplits: {test: test.jsonl}\n")
    (pairs / "test.jsonl").write_text((place / "sts/test.jsonl").read_text())
    (beir / "qrels").mkdir(parents=True)
    for name in ("corpus", "queries"):
        (beir / f"{name}.jsonl").write_text((place / f"facts/data/{name}.jsonl").read_text())
    judged = [json.loads(line) for line in (place / "facts/data/test.jsonl").read_text().splitlines()]
    rows = [f"{one['query-id']}\t{one['corpus-id']}\t{one['score']}" for one in judged]
    (beir / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    theirs = smelt.evaluate(place / "model", f"mteb:STSBenchmark@{place / 'sts'},mteb:NFCorpus@{place / 'facts'}")
    ours = smelt.evaluate(place / "model", f"{pairs},{beir}")
    for one, other in zip(theirs, ours, strict=True):
        assert one.accuracy == pytest.approx(other.accuracy, abs=1e-5)
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-5)


def test_a_cross_encoder_is_refused_where_the_library_asks_for_vectors(place: Path) -> None:
    with pytest.raises(TaskError, match="CrossEncoder"):
        smelt.evaluate(place / "cross", f"mteb:STSBenchmark@{place / 'sts'}")


def test_an_unknown_task_is_named_with_the_nearest(place: Path) -> None:
    with pytest.raises(TaskError, match="did you mean 'STSBenchmark'"):
        smelt.evaluate(place / "model", "mteb:STSBenchmak")


def test_a_folder_that_is_not_there_and_a_limit_are_refused(place: Path) -> None:
    with pytest.raises(TaskError, match="is no folder"):
        find_task("mteb:STSBenchmark@no/such/folder")
    with pytest.raises(TaskError, match="names no task of mteb"):
        find_task("mteb:")
    with pytest.raises(RecipeError, match="is asked whole"):
        smelt.evaluate(place / "model", f"mteb:STSBenchmark@{place / 'sts'}", limit=3)


def test_data_that_are_others_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="could not be loaded"):
        smelt.evaluate(place / "model", f"mteb:STSBenchmark@{tmp_path}")
    with pytest.raises(TaskError, match="cannot be asked"):
        smelt.evaluate(place / "model", f"mteb:STSBenchmark@{place / 'bank'}")


def test_other_data_are_another_task(place: Path) -> None:
    prints = {find_task(f"mteb:STSBenchmark@{place / name}").fingerprint() for name in ("sts", "bank")}
    assert len(prints) == 2
