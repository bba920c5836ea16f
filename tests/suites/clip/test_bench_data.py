"""Entries that look at data, mixtures, ensembles, parts and damaged pictures, on the suite that is checked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smelt
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import DataBudget

DATA = {"split": "val", "examples": 24}
ENTRIES: dict[str, Any] = {
    "regmean": {"label": "RegMean", "merge": "regmean", "data": DATA},
    "adamerging": {"label": "AdaMerging", "merge": {"adamerging": {"steps": 2, "batch": 4}}, "data": DATA},
    "wemoe": {"label": "WEMoE", "merge": {"wemoe": {"steps": 1, "batch": 4}}, "data": DATA},
    "ensemble": {"label": "Ensemble", "ensemble": "mean"},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))


def rows_of(done: Any, **words: Any) -> list[Row]:
    rows = [row for row in done.rows if isinstance(row, Row)]
    return [row for row in rows if all(getattr(row, word) == value for word, value in words.items())]


def test_entries_with_data_say_what_they_used_and_how_they_were_made(own: Any, merges: Any, tmp_path: Path) -> None:
    done = smelt.bench(own(entries=ENTRIES, paths=[], scales=[]), out=tmp_path / "out")
    used = {row.entry: row.data_budget for row in rows_of(done) if row.entry in ENTRIES}
    assert used["regmean"] == used["adamerging"] == used["wemoe"] == DataBudget(split="val", images=48, labels=0)
    assert used["ensemble"] == DataBudget()
    assert {row.entry: row.way for row in rows_of(done) if row.entry in ENTRIES} == {
        "regmean": "merge",
        "adamerging": "merge",
        "wemoe": "mix",
        "ensemble": "ensemble",
    }
    assert merges.names == ["regmean.prepared", "adamerging.prepared"]  # a mixture is made where it is learned
    costs = {row.entry: row for row in done.rows if isinstance(row, CostRow)}
    assert costs["adamerging"].prepare_seconds > 0
    assert not list((done.folder / "models").iterdir())


def test_what_was_learned_is_there_for_the_report_to_draw(own: Any, merges: Any, tmp_path: Path) -> None:
    done = smelt.bench(own(entries=ENTRIES, paths=[], scales=[]), out=tmp_path / "out")
    learned = json.loads((done.folder / "analyses" / "heat-adamerging.json").read_text())
    assert learned["columns"] == ["plain", "turned"]
    assert len(learned["matrix"]) == len(learned["rows"])
    routing = json.loads((done.folder / "analyses" / "heat-wemoe.json").read_text())
    assert (routing["rows"], routing["columns"]) == (["plain", "turned"], ["plain", "turned"])
    page = (done.folder / "report.html").read_text()
    assert "Learned coefficients: AdaMerging" in page
    assert "Routing: WEMoE" in page


def test_the_ensemble_asks_both_experts(own: Any, merges: Any, tmp_path: Path) -> None:
    """One expert calls a colour by its name and the other by the next but one: each is as sure as the other."""
    done = smelt.bench(own(entries={"e": {"label": "E", "ensemble": "max"}}, paths=[], scales=[]), out=tmp_path / "o")
    (row,) = rows_of(done, entry="e", task="plain")
    assert (row.variant, row.way, row.recipe) == ("reference", "ensemble", None)


def test_a_part_is_made_from_its_models_alone_and_says_which_tasks_it_has_seen(
    own: Any, merges: Any, tmp_path: Path
) -> None:
    entries = {"ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 1.0}}}}
    suite = own(entries=entries, paths=[], scales=[], parts={"one": ["plain"], "two": ["turned"]})
    done = smelt.bench(suite, out=tmp_path / "out")
    found = {(row.part, row.task): (row.accuracy, row.seen) for row in rows_of(done, entry="ta")}
    assert found == {
        ("one", "plain"): (1.0, True),
        ("one", "turned"): (0.0, False),
        ("two", "plain"): (0.0, False),
        ("two", "turned"): (1.0, True),
    }
    assert {row.part for row in rows_of(done, variant="reference")} == {None}
    assert smelt.bench(suite, out=tmp_path / "out").computed == 0


def test_a_part_with_a_model_that_is_not_in_the_pool_is_refused(own: Any, tmp_path: Path) -> None:
    with pytest.raises(smelt.RecipeError, match=r"parts.one: no model of the pool named 'plian' .did you mean 'plain'"):
        smelt.bench(own(parts={"one": ["plian"]}), out=tmp_path / "out")


def test_damaged_pictures_are_cells_of_their_own_and_clean_ones_stay(own: Any, merges: Any, tmp_path: Path) -> None:
    entries = {"ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 1.0}}}}
    damage = {"kinds": ["contrast", "gaussian_noise"], "severities": [1, 5]}
    suite = own(entries=entries, paths=[], scales=[], corruptions=damage)
    done = smelt.bench(suite, out=tmp_path / "out")
    names = {None, "contrast@1", "contrast@5", "gaussian_noise@1", "gaussian_noise@5"}
    assert {row.corruption for row in rows_of(done, entry="ta", task="plain")} == names
    assert len(rows_of(done)) == 4 * 2 * len(names)  # three references and one merge on two tasks
    assert smelt.bench(suite, out=tmp_path / "out").computed == 0


def test_an_entry_that_is_nothing_or_two_things_is_refused(own: Any, tmp_path: Path) -> None:
    for entry in ({"label": "X"}, {"label": "X", "merge": "average", "ensemble": "mean"}):
        with pytest.raises(smelt.RecipeError, match="either `merge` or `ensemble`"):
            smelt.bench(own(entries={"x": entry}), out=tmp_path / "out")


def test_data_for_a_model_without_a_task_is_refused_before_anything_is_computed(own: Any, tmp_path: Path) -> None:
    suite = own(entries={"r": {"label": "R", "merge": "regmean", "data": {**DATA, "tasks": {"plane": "plain"}}}})
    with pytest.raises(smelt.RecipeError, match=r"r: data.tasks: no model named 'plane' .did you mean 'plain'"):
        smelt.bench(suite, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_in_worker_processes_the_rows_are_the_same(made: Any, tmp_path: Path) -> None:
    """Two real processes; tasks are given by their folders, since nothing is patched there."""
    import yaml

    root = made[0]
    suite = yaml.safe_load((root / "pico.yaml").read_text())
    suite["tasks"] = [str(root / "tasks" / name) for name in suite["tasks"]]
    del suite["entries"]["emr_masks"]
    suite |= {"paths": [], "scales": []}
    path = tmp_path / "pico.yaml"
    path.write_text(yaml.safe_dump(suite))
    alone, apart = (
        smelt.bench(path, out=tmp_path / name, executor=name, workers=workers)
        for name, workers in (("inline", 1), ("local", 2))
    )
    drop = {"when", "command"}
    assert sorted(row.model_dump_json(exclude=drop) for row in rows_of(alone)) == sorted(
        row.model_dump_json(exclude=drop) for row in rows_of(apart)
    )


def test_an_entry_that_fails_costs_its_own_line_and_not_the_run(own: Any, merges: Any, tmp_path: Path) -> None:
    bad = {"adamerging": {"steps": 1, "batch": 1000}}
    entries = {
        "bad": {"label": "Bad", "merge": bad, "data": {"split": "nowhere"}},
        "average": {"label": "Average", "merge": "average"},
    }
    lines: list[str] = []
    suite = own(entries=entries, paths=[], scales=[])
    with pytest.raises(smelt.SmeltError, match="nowhere"):
        smelt.bench(suite, out=tmp_path / "out", tell=lines.append)
    assert any("Bad: FAILED" in line for line in lines)
    assert (tmp_path / "out" / "report.html").exists()
    assert [line for line in lines if "Average" in line]
    with pytest.raises(smelt.SmeltError, match="nowhere"):
        smelt.bench(suite, out=tmp_path / "out")
