"""The language example tells its whole story with few steps, and what it ships is valid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import smelt

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "language"
RECIPES = sorted((EXAMPLES / "recipes").glob("*.yaml"))
DOMAINS = ["prose", "python", "cpp"]
MODELS = ["base", *DOMAINS, "mixture", *(path.stem for path in RECIPES)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that `demo.py --quick` filled, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    done = _run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--quick"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.fixture(scope="module")
def results(demo: tuple[Path, str]) -> dict:
    return json.loads((demo[0] / "language-out" / "results.json").read_text())


def test_every_model_has_a_score_and_an_interval_for_every_kind_of_text(results: dict) -> None:
    rows = {(row["model"], row["task"]): row for row in results["rows"]}
    assert set(rows) == {(model, task) for model in MODELS for task in [*DOMAINS, "mean"]}
    for row in rows.values():
        assert row["interval"][0] <= row["score"] <= row["interval"][1]
        assert row["documents"] > 0
    for model in MODELS:
        assert rows[model, "mean"]["score"] == pytest.approx(sum(rows[model, d]["score"] for d in DOMAINS) / 3)


def test_every_expert_beats_the_base_at_home(results: dict) -> None:
    score = {(row["model"], row["task"]): row["score"] for row in results["rows"]}
    for domain in DOMAINS:
        assert score[domain, domain] < score["base", domain]


def test_the_printed_table_has_a_line_per_model_and_marks_one_merge(demo: tuple[Path, str], results: dict) -> None:
    table = demo[1].split("5. Bits per byte")[1].splitlines()
    lines = {line.split()[0]: line for line in table if line.count("±") == 4}
    assert list(lines) == MODELS
    assert [name for name, line in lines.items() if " * " in line] == [results["best_merge"]]


def test_the_best_merge_and_the_scales_come_from_validation_text(results: dict) -> None:
    validation = results["validation_mean"]
    assert list(validation) == [path.stem for path in RECIPES]
    assert results["best_merge"] == min(validation, key=lambda name: validation[name])
    for choice in results["chosen"].values():
        assert min(choice["tried"].values()) == choice["tried"][str(choice["value"])]


def test_merged_folders_verify_and_read_bytes_as_tokens(demo: tuple[Path, str]) -> None:
    from transformers import AutoTokenizer

    for path in RECIPES:
        assert smelt.verify(demo[0] / "language-out" / "merged" / path.stem).ok
    tokenizer = AutoTokenizer.from_pretrained(demo[0] / "language-out" / "merged" / "ties")
    text = "def f(x):\n\treturn 'é ≤ 2'  \n"
    assert tokenizer.encode(text, add_special_tokens=False) == list(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_plan_from_the_folder_that_holds_demo_out(
    path: Path, demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo[0])
    assert smelt.plan(path).merged == 21
    tuned = yaml.safe_load((demo[0] / "language-out" / "recipes" / path.name).read_text())
    assert tuned.keys() == yaml.safe_load(path.read_text()).keys()


def test_the_page_needs_nothing_from_outside_and_shows_no_machine_path(demo: tuple[Path, str]) -> None:
    page = (demo[0] / "language-out" / "report.html").read_text()
    assert "<svg" in page
    assert not any(word in page for word in ("http://", "https://", "<script", "src=", str(demo[0])))


@pytest.mark.slow
def test_a_second_run_trains_nothing_and_gives_the_same_rows(demo: tuple[Path, str], results: dict) -> None:
    again = _run(demo[0])
    assert "all there from an earlier run" in again.stdout
    assert json.loads((demo[0] / "language-out" / "results.json").read_text())["rows"] == results["rows"]


def test_no_document_is_in_two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from corpus import collect

    small = collect(50_000, 4, 8)
    for domain in small.domains.values():
        documents = [name for names in domain.documents.values() for name in names]
        assert len(documents) == len(set(documents))
        assert len(domain.test) == 8
        assert all(excerpt not in domain.train for excerpt in (*domain.test, *domain.validation))
    assert collect(50_000, 4, 8).digest == small.digest
