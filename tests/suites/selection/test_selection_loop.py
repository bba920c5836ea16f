"""A selection suite of pico models from end to end: rows, the choice, what is kept, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
from typer.testing import CliRunner

import smelt
from selection_suite import CHANGES, write_selection_suite
from smelt.cli.app import app
from smelt.errors import RecipeError
from smelt.evaluation.row import Row
from smelt.select.uq import uq_merge
from smelt.suites.run import BenchResult


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BenchResult, list[str]]:
    root, told = tmp_path_factory.mktemp("selection"), list[str]()
    suite = write_selection_suite(root)
    return root, smelt.bench(suite, out=root / "out", executor="inline", tell=told.append), told


def _found(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "analyses" / "selection.json").read_text())
    return content


def test_every_model_has_a_row_on_every_set_that_it_is_asked_by(run: tuple[Path, BenchResult, list[str]]):
    rows = [row for row in run[1].rows if isinstance(row, Row)]
    asked = {(row.entry, row.part) for row in rows}
    assert {("pretrained", None), ("joint", None), ("average", "all"), ("ties-standard", "all")} <= asked
    assert set(CHANGES) == {entry.removeprefix("expert-") for entry, _ in asked if "expert" in entry}
    for who in asked:
        sets = {row.task for row in rows if (row.entry, row.part) == who}
        assert sets in ({"in-a", "in-b", "out"}, {"in-a", "in-b", "out", "val"})
    assert len(rows) == len({(row.entry, row.part, row.task) for row in rows})


def test_the_trace_and_the_choice_are_those_of_smelt_select(run: tuple[Path, BenchResult, list[str]], tmp_path: Path):
    folder = run[1].folder
    found = uq_merge(folder / "recipes" / "uq.yaml", out=tmp_path / "uq")
    own = _found(folder)["courses"][0]
    assert tuple(step["added"] for step in own["steps"]) == found.trace.order
    assert own["values"] == pytest.approx([step.value for step in found.trace.steps], abs=1e-5)
    assert own["chosen"]["global_min"] == found.trace.chosen
    assert sorted(found.models) == sorted(_found(folder)["chosen"]["models"])


def test_a_row_is_what_its_command_gives(run: tuple[Path, BenchResult, list[str]], tmp_path: Path):
    row = next(r for r in run[1].rows if isinstance(r, Row) and (r.entry, r.part, r.task) == ("average", "all", "out"))
    assert row.command.startswith("smelt merge recipes/average-all.yaml -o average-all && smelt eval average-all ")
    smelt.merge(run[1].folder / "recipes" / "average-all.yaml", out=tmp_path / "average-all")
    again = smelt.evaluate(str(tmp_path / "average-all"), run[0] / "sets" / "out")[0]
    assert (again.correct, again.n, again.recipe_hash) == (row.correct, row.n, row.recipe_hash)
    assert again.loss == pytest.approx(row.loss, abs=1e-6)


def test_harm_is_the_paired_difference_to_all_but_one(run: tuple[Path, BenchResult, list[str]]):
    accuracy = {(r.entry, r.part, r.task): r.accuracy for r in run[1].rows if isinstance(r, Row)}
    harm = [one for one in _found(run[1].folder)["compared"] if one["about"] == "harm"]
    assert {one["name"] for one in harm} == set(CHANGES)
    for one in harm:
        parts = (f"all-but-{one['name']}", "all")
        means = [sum(accuracy["average", part, task] for task in ("in-a", "in-b", "out")) / 3 for part in parts]
        assert one["difference"] == pytest.approx(means[0] - means[1])


def test_the_average_without_who_was_made_to_harm_stands_beside_the_chosen_merge(
    run: tuple[Path, BenchResult, list[str]],
):
    found = _found(run[1].folder)
    assert found["harmful"] == {"kind": "wild", "models": ["wild"]}
    good = [one for one in found["compared"] if one["name"] == "good" and one["about"] == "reference"]
    assert [(one["theirs"], one["sets"]) for one in good] == [
        (["average@all-but-wild"], "held_in"),
        (["average@all-but-wild"], "held_out"),
    ]


def test_both_orders_are_tried_under_every_perturbation(run: tuple[Path, BenchResult, list[str]]):
    names = [course["name"] for course in _found(run[1].folder)["courses"]]
    assert names[4:] == ["uncertainty-descending-image", "uncertainty-ascending-image"]
    down, up = (_found(run[1].folder)["courses"][number]["steps"] for number in (4, 5))
    assert [step["added"] for step in up] == [step["added"] for step in reversed(down)]


def test_what_every_choice_looked_at_is_written_down(run: tuple[Path, BenchResult, list[str]]):
    same = {"group": "data-driven", "split": "test", "sets": "held_in", "examples": 11}  # 6 + 5 questions
    assert _found(run[1].folder)["budgets"] == {
        "uncertainty": {**same, "labels": 0},
        "accuracy": {**same, "labels": 11},
        "soup": {**same, "split": "val", "sets": "validation", "examples": 4, "labels": 4},
    }


def test_a_finished_run_computes_nothing_again(run: tuple[Path, BenchResult, list[str]], tmp_path: Path):
    root, before, _ = run
    told: list[str] = []
    again = smelt.bench(root / "pico-selection.yaml", out=before.folder, executor="inline", tell=told.append)
    assert again.computed == 0
    assert all("there already" in line for line in told)


def test_a_run_that_was_stopped_goes_on(run: tuple[Path, BenchResult, list[str]], tmp_path: Path):
    root, before, _ = run
    folder = Path(shutil.copytree(before.folder, tmp_path / "half"))
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join(lines[: len(lines) // 2]))
    shutil.rmtree(folder / "analyses")
    for file in sorted((folder / "logits").iterdir())[::9]:
        file.unlink()
    again = smelt.bench(root / "pico-selection.yaml", out=folder, executor="inline")
    assert 0 < again.computed < before.computed
    assert _near(_found(folder)["courses"], _found(before.folder)["courses"])
    assert _near(_found(folder)["compared"], _found(before.folder)["compared"])


def _near(one: Any, other: Any) -> bool:
    """Equal but for the rounding of a network: what is asked again is asked in other batches, which some processors sum
    in another order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_near(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-7)
    return bool(one == other)


def test_the_report_answers_the_four_questions_and_marks_the_papers_numbers(run: tuple[Path, BenchResult, list[str]]):
    page, table = run[1].report.read_text(), (run[1].folder / "table.md").read_text()
    assert all(f"RQ{number}:" in page for number in (1, 2, 3, 4))
    for text in ("The paper's own", "Table 6", "hurts"):
        assert text in table


def test_the_command_prints_what_was_chosen(run: tuple[Path, BenchResult, list[str]]):
    words = ["bench", str(run[0] / "pico-selection.yaml"), "-o", str(run[1].folder), "--executor", "inline"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "UQ-Merge takes" in done.output
    assert "0 numbers computed" in done.output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"tasks": ["in-a"]}, "chooses by all of its sets"),
        ({"methods": ["tise"]}, "no method of the suite named 'tise'"),
        ({"keep_models": True}, "keep_models"),
        ({"trial_workers": 2}, "trial_workers"),
        ({"preset": "slow"}, "no preset named 'slow'"),
        ({"limit": 2}, "was begun with limit"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(
    run: tuple[Path, BenchResult, list[str]], words: dict[str, Any], fault: str
):
    with pytest.raises(RecipeError, match=fault):
        smelt.bench(run[0] / "pico-selection.yaml", out=run[1].folder, **words)
