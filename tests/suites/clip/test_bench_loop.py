"""The loop on a suite that is small enough to check by hand (pico_suite.py says what every model must answer)."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import smelt
from pico_clip import random_clip, save_clip
from pico_suite import relabel
from smelt.engine.scales import at_scale
from smelt.errors import RecipeError, SmeltError
from smelt.evaluation.row import CostRow, Row
from smelt.recipe.schema import Recipe
from smelt.suites.find import find_suite
from smelt.suites.run import BenchResult

ROWS = {"reference": 6 + 2, "published": 4, "curve": 6, "tuned": 2, "path": 3}
"""Three references on two tasks and two models per task; two merges; three scales; one tuned merge; three points."""


def accuracy_rows(done: BenchResult, **words: Any) -> list[Row]:
    rows = [row for row in done.rows if isinstance(row, Row)]
    return [row for row in rows if all(getattr(row, word) == value for word, value in words.items())]


def scores(done: BenchResult, entry: str, variant: str) -> dict[str, float]:
    return {row.task: row.accuracy for row in accuracy_rows(done, entry=entry, variant=variant)}


def essence(rows: list[Row | CostRow]) -> list[str]:
    """Rows without what time and chance put into them, in one order."""
    passing = {"when", "merge_seconds", "evaluate_seconds", "peak_bytes"}
    return sorted(row.model_dump_json(exclude=passing) for row in rows)


def test_every_cell_of_the_suite_has_one_row(whole: BenchResult) -> None:
    rows = accuracy_rows(whole)
    assert Counter(row.variant for row in rows) == ROWS
    assert whole.computed == len(rows) == 23
    cells = [(row.entry, row.variant, row.task, row.recipe_hash, str(row.setting)) for row in rows]
    assert len(set(cells)) == len(cells)


def test_references_answer_as_they_were_made(whole: BenchResult) -> None:
    assert scores(whole, "pretrained", "reference") == {"plain": 0.0, "turned": 0.0}
    assert scores(whole, "expert-plain", "reference") == {"plain": 1.0, "turned": 0.0}
    assert scores(whole, "expert-turned", "reference") == {"plain": 0.0, "turned": 1.0}


def test_where_the_task_is_known_each_has_its_own_model(whole: BenchResult) -> None:
    rows = accuracy_rows(whole, entry="emr_masks")
    assert {row.task: row.accuracy for row in rows} == {"plain": 1.0, "turned": 1.0}
    assert {row.variant for row in rows} == {"reference"}
    assert {row.task: row.recipe["merge"] for row in rows} == {
        task: [{"emr": {"task": task}}] for task in ("plain", "turned")
    }
    assert len({row.model_hash for row in rows}) == 2
    assert [row.setting for row in rows] == [{}, {}]  # one line of the table, so one setting


def test_curves_are_measured_on_val_and_everything_else_on_test(whole: BenchResult) -> None:
    for row in accuracy_rows(whole):
        assert (row.split, row.n) == (("val", 12) if row.variant == "curve" else ("test", 30))


def test_a_row_carries_the_recipe_that_made_it_and_its_hash(root: Path, whole: BenchResult) -> None:
    suite = find_suite(root / "pico.yaml")
    for row in accuracy_rows(whole):
        assert (row.suite, row.seed, row.model == "merged") == ("pico", 0, row.recipe is not None)
        if row.recipe is not None:
            assert Recipe.parse(row.recipe).hash == row.recipe_hash
    for name in ("average", "task_arithmetic"):
        recipe = suite.recipe(suite.entries[name])
        (one,) = {row.recipe_hash for row in accuracy_rows(whole, entry=name, variant="published")}
        assert one == recipe.hash
    scales = {row.setting["scale"]: row.recipe_hash for row in accuracy_rows(whole, variant="curve")}
    assert scales == {scale: at_scale(recipe, scale).hash for scale in (0.25, 0.5, 0.75)}


def test_only_tuned_rows_have_used_data(whole: BenchResult) -> None:
    for row in accuracy_rows(whole):
        used = row.data_budget.model_dump()
        assert used == (
            {"split": "val", "images": 24, "labels": 24}  # twelve pictures of each task
            if row.variant == "tuned"
            else {"split": None, "images": 0, "labels": 0}
        )


def test_every_merge_has_its_cost(whole: BenchResult) -> None:
    costs = [row for row in whole.rows if isinstance(row, CostRow)]
    assert Counter((cost.entry, cost.variant) for cost in costs) == {
        ("average", "published"): 1,
        ("task_arithmetic", "published"): 1,
        ("task_arithmetic", "tuned"): 1,
        ("emr_masks", "reference"): 2,
    }
    assert all(cost.evaluate_seconds > 0 and cost.threads >= 1 for cost in costs)
    assert {(cost.merge_seconds, cost.peak_bytes) for cost in costs} == {(0.5, 1_000_000)}  # as the merge told


def test_the_folder_holds_recipes_analyses_report_and_tables_but_no_models(whole: BenchResult) -> None:
    names = {path.relative_to(whole.folder).as_posix() for path in whole.folder.rglob("*") if path.is_file()}
    recipes = "average task_arithmetic task_arithmetic-at-0.5 emr_masks-plain emr_masks-turned".split()
    assert names == {
        *(f"recipes/{name}.yaml" for name in recipes),
        *(f"analyses/{name}.json" for name in ("cosine", "norms", "signs")),
        *(f"table.{end}" for end in ("md", "csv", "tex")),
        *("rows.jsonl", "run.json", "report.html"),
    }
    assert whole.report == whole.folder / "report.html"
    assert "Task arithmetic" in whole.report.read_text()
    tuned = yaml.safe_load((whole.folder / "recipes" / "task_arithmetic-at-0.5.yaml").read_text())
    assert tuned["merge"] == [{"task_arithmetic": {"scale": 0.5}}]
    assert {row.setting["scale"] for row in accuracy_rows(whole, variant="tuned")} == {0.5}


def test_merged_models_are_kept_if_that_is_asked(root: Path, merges: Any, tmp_path: Path) -> None:
    done = smelt.bench(root / "pico.yaml", out=tmp_path / "o", methods=["average"], tune=False, keep_models=True)
    assert smelt.verify(done.folder / "models" / "average").ok
    (row,) = smelt.evaluate(str(done.folder / "models" / "average"), tasks="plain")
    assert row.model_hash == accuracy_rows(done, entry="average")[0].model_hash


def test_a_finished_suite_computes_nothing_again(root: Path, half_done: Path, merges: Any) -> None:
    before = (half_done / "rows.jsonl").read_bytes()
    lines: list[str] = []
    done = smelt.bench(root / "pico.yaml", out=half_done, tell=lines.append)
    assert (done.computed, merges.names) == (0, [])
    assert (half_done / "rows.jsonl").read_bytes() == before
    assert sum("there already" in line for line in lines) == len(lines) == 9


def test_a_finished_suite_does_not_analyse_its_models_again(root: Path, half_done: Path, merges: Any) -> None:
    files = {name: half_done / "analyses" / f"{name}.json" for name in ("cosine", "norms", "signs")}
    before = {name: (file.stat().st_ino, file.read_bytes()) for name, file in files.items()}
    smelt.bench(root / "pico.yaml", out=half_done)
    assert {name: (file.stat().st_ino, file.read_bytes()) for name, file in files.items()} == before
    files["cosine"].unlink()
    smelt.bench(root / "pico.yaml", out=half_done)
    assert {name: file.read_bytes() for name, file in files.items()} == {name: old for name, (_, old) in before.items()}


def test_experts_can_be_asked_their_own_task_alone(own: Any, merges: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    done = smelt.bench(
        own(experts="own_task"), out=tmp_path / "out", methods=["average"], tune=False, tell=lines.append
    )
    assert scores(done, "pretrained", "reference") == {"plain": 0.0, "turned": 0.0}
    assert scores(done, "expert-plain", "reference") == {"plain": 1.0}
    assert scores(done, "expert-turned", "reference") == {"turned": 1.0}
    told = [line.partition(":")[0] for line in lines]  # the first merge does not wait for the experts
    assert told[0] == "[ 1/4] Pre-trained"
    assert told[1].startswith("[ 2/4] ")
    assert told[2:] == ["[ 3/4] Expert", "[ 4/4] Expert"]
    assert '<section id="experts">' not in done.report.read_text()


def test_an_expert_whose_task_is_not_asked_is_not_asked_either(own: Any, merges: Any, tmp_path: Path) -> None:
    words: dict[str, Any] = {"methods": ["average"], "tasks": ["turned"], "tune": False}
    done = smelt.bench(own(experts="own_task"), out=tmp_path / "out", **words)
    assert {row.entry for row in accuracy_rows(done)} == {"pretrained", "expert-turned", "average"}


@pytest.mark.parametrize(
    ("entry", "variant"),
    [
        ("expert-plain", "reference"),
        ("average", "published"),
        ("emr_masks", "reference"),
        ("task_arithmetic", "curve"),
        ("task_arithmetic", "tuned"),
        ("plain..turned", "path"),
    ],
)
def test_a_row_that_is_missing_is_the_only_one_computed(
    root: Path, whole: BenchResult, half_done: Path, merges: Any, entry: str, variant: str
) -> None:
    gone = accuracy_rows(whole, entry=entry, variant=variant)[1]
    kept = [row for row in whole.rows if row != gone]
    (half_done / "rows.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in kept))
    done = smelt.bench(root / "pico.yaml", out=half_done)
    assert done.computed == 1
    assert len(merges.names) == (gone.recipe is not None and gone.variant != "curve")
    again = [row for row in done.rows[len(kept) :] if isinstance(row, Row)]
    volatile = {"when", "command"}  # the command asks for this one task
    assert [row.model_dump(exclude=volatile) for row in again] == [gone.model_dump(exclude=volatile)]


@pytest.mark.parametrize("stop", [1, 4, 6, 7, 8, 9])
def test_a_run_that_ends_at_any_write_goes_on_where_it_was(
    root: Path, whole: BenchResult, merges: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """There are nine writes: three references, two merges, the models per task, the scales, the path, tuned."""
    from smelt.evaluation.row import append_rows

    writes = 0

    def dying(path: Path, rows: list[Row | CostRow]) -> None:
        nonlocal writes
        writes += 1
        append_rows(path, rows)
        if writes == stop:
            path.write_bytes(path.read_bytes()[:-25])  # the end of the last line never came to the disk
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("smelt.runs.run_folder.append_rows", dying)
        with pytest.raises(KeyboardInterrupt):
            smelt.bench(root / "pico.yaml", out=tmp_path / "out")
    done = smelt.bench(root / "pico.yaml", out=tmp_path / "out")
    rows, complete = accuracy_rows(done), accuracy_rows(whole)
    assert [(r.entry, r.variant, r.task, r.setting) for r in rows] == [
        (r.entry, r.variant, r.task, r.setting) for r in complete
    ]
    volatile = {"when", "command"}
    assert [r.model_dump(exclude=volatile) for r in rows] == [r.model_dump(exclude=volatile) for r in complete]


def test_a_merge_that_is_stopped_leaves_no_model_behind_when_it_is_run_again(
    root: Path, whole: BenchResult, merges: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(recipe: Path, out: Path, **words: Any) -> Any:
        merges(recipe, out, **words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("smelt.suites.clip.units.merge_in_process", stopped)
        with pytest.raises(KeyboardInterrupt):
            smelt.bench(root / "pico.yaml", out=tmp_path / "out")
    done = smelt.bench(root / "pico.yaml", out=tmp_path / "out")
    assert essence(done.rows) == essence(whole.rows)
    assert not list((tmp_path / "out" / "models").iterdir())


def test_the_tuned_scale_is_the_best_on_val(own: Any, merges: Any, tmp_path: Path) -> None:
    """One expert: at 0.25 the base's answers (all wrong), at 0.75 and 1 the expert's (all right)."""
    suite = own(
        pool={"base": str(tmp_path / "models/base"), "models": {"plain": str(tmp_path / "models/plain")}},
        tasks=["plain"],
        scales=[0.25, 1.0, 0.75],
        entries={"ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 0.25}}}},
        paths=[],
    )
    done = smelt.bench(suite, out=tmp_path / "out")
    curve = {row.setting["scale"]: row.accuracy for row in accuracy_rows(done, variant="curve")}
    assert curve == {0.25: 0.0, 1.0: 1.0, 0.75: 1.0}
    (tuned,) = accuracy_rows(done, variant="tuned")
    assert (tuned.setting["scale"], tuned.accuracy) == (0.75, 1.0)  # of equals the smallest, whatever the order


def test_the_tuned_scale_does_not_look_at_test(own: Any, merges: Any, tmp_path: Path) -> None:
    """On `test` the base's answers are right and the expert's wrong: whoever looked there would take 0.25."""
    suite = own(
        pool={"base": str(tmp_path / "models/base"), "models": {"plain": str(tmp_path / "models/plain")}},
        tasks=["plain"],
        scales=[0.25, 0.75],
        entries={"ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 0.25}}}},
        paths=[],
    )
    relabel(tmp_path, "plain", "test", turn=1)
    done = smelt.bench(suite, out=tmp_path / "out")
    assert scores(done, "ta", "published") == {"plain": 1.0}
    (tuned,) = accuracy_rows(done, variant="tuned")
    assert (tuned.setting["scale"], tuned.accuracy) == (0.75, 0.0)


def test_a_tuned_scale_that_is_the_published_one_is_not_merged_again(own: Any, merges: Any, tmp_path: Path) -> None:
    suite = own(
        pool={"base": str(tmp_path / "models/base"), "models": {"plain": str(tmp_path / "models/plain")}},
        tasks=["plain"],
        scales=[0.25, 0.75],
        entries={"ta": {"label": "TA", "merge": {"task_arithmetic": {"scale": 0.75}}}},
        paths=[],
    )
    done = smelt.bench(suite, out=tmp_path / "out")
    assert merges.names == ["ta"]
    assert not accuracy_rows(done, variant="tuned")  # one line in the table, not two
    assert smelt.bench(suite, out=tmp_path / "out").computed == 0


def test_an_entry_without_a_scale_or_that_says_so_is_not_tuned(
    root: Path, merges: Any, own: Any, tmp_path: Path
) -> None:
    entries = {
        "ta": {"label": "TA", "merge": "task_arithmetic", "tune": False},
        "mean": {"label": "M", "merge": "average"},
    }
    done = smelt.bench(own(entries=entries, paths=[]), out=tmp_path / "out")
    assert not accuracy_rows(done, variant="curve") + accuracy_rows(done, variant="tuned")


def test_without_tuning_there_are_only_references_and_published_merges(root: Path, merges: Any, tmp_path: Path) -> None:
    done = smelt.bench(root / "pico.yaml", out=tmp_path / "out", tune=False)
    assert Counter(row.variant for row in accuracy_rows(done)) == {"reference": 8, "published": 4}


def test_a_part_of_the_methods_and_tasks_can_be_run_and_completed_later(
    root: Path, whole: BenchResult, merges: Any, tmp_path: Path
) -> None:
    part = smelt.bench(root / "pico.yaml", out=tmp_path / "out", methods=["average"], tasks=["turned"])
    rows = accuracy_rows(part)
    assert {row.task for row in rows} == {"turned"}
    assert {row.entry for row in rows} == {"pretrained", "expert-plain", "expert-turned", "average"}
    rest = smelt.bench(root / "pico.yaml", out=tmp_path / "out")
    assert rest.computed == whole.computed - len(rows)
    assert {(r.entry, r.variant, r.task, str(r.setting), r.accuracy) for r in accuracy_rows(rest)} == {
        (r.entry, r.variant, r.task, str(r.setting), r.accuracy) for r in accuracy_rows(whole)
    }


def test_a_limit_shortens_test_and_leaves_the_curve_alone(root: Path, merges: Any, tmp_path: Path) -> None:
    done = smelt.bench(root / "pico.yaml", out=tmp_path / "out", methods=["task_arithmetic"], limit=6)
    assert {(row.split, row.n) for row in accuracy_rows(done)} == {("test", 6), ("val", 12)}
    assert all("--limit 6" in row.command for row in accuracy_rows(done) if row.variant != "curve")
    with pytest.raises(RecipeError, match="was begun with limit 6 instead of 7"):
        smelt.bench(root / "pico.yaml", out=tmp_path / "out", limit=7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"methods": ["averge"]}, r"no method of the suite named 'averge' \(did you mean 'average'\?\)"),
        ({"tasks": ["plane"]}, r"no task of the suite named 'plane' \(did you mean 'plain'\?\)"),
        ({"limits": 3}, r"no word of a suite named 'limits' \(did you mean 'limit'\?\)"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_written(
    root: Path, merges: Any, tmp_path: Path, words: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        smelt.bench(root / "pico.yaml", out=tmp_path / "out", **words)
    assert not (tmp_path / "out").exists()


def test_a_method_with_a_wrong_parameter_is_refused_before_anything_is_merged(
    own: Any, merges: Any, tmp_path: Path
) -> None:
    entries = {"ties": {"label": "TIES", "merge": {"ties": {"densty": 0.2}}}}
    with pytest.raises(SmeltError, match=r"densty"):
        smelt.bench(own(entries=entries), out=tmp_path / "out")
    assert merges.names == []


def test_every_line_of_the_run_tells_a_step_its_mean_and_its_place(root: Path, merges: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    smelt.bench(root / "pico.yaml", out=tmp_path / "out", methods=["emr_masks"], tune=False, tell=lines.append)
    assert [line.split(" (")[0] for line in lines[:3]] == [
        "[ 1/4] Pre-trained:   0.0 %",
        "[ 2/4] Expert: plain:  50.0 %",
        "[ 3/4] Expert: turned:  50.0 %",
    ]
    assert lines[3].startswith("[ 4/4] EMR (masks): 100.0 % (")


def test_a_folder_begun_with_another_model_under_the_same_name_is_refused(
    root: Path, half_done: Path, merges: Any, tmp_path: Path
) -> None:
    suite = yaml.safe_load((root / "pico.yaml").read_text())
    suite["pool"]["models"]["plain"] = str(save_clip(random_clip(5), tmp_path / "other"))
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(suite))
    with pytest.raises(RecipeError, match="was begun with another plain among the models"):
        smelt.bench(other, out=half_done)


def test_a_folder_begun_with_other_pictures_of_a_task_is_refused(own: Any, merges: Any, tmp_path: Path) -> None:
    suite = own(entries={"mean": {"label": "Mean", "merge": "average"}}, paths=[])
    smelt.bench(suite, out=tmp_path / "out")
    relabel(tmp_path, "turned", "test", turn=1)
    with pytest.raises(RecipeError, match="was begun with another turned among the tasks"):
        smelt.bench(suite, out=tmp_path / "out")


def test_a_suite_with_relative_paths_runs(root: Path, merges: Any, tmp_path: Path, monkeypatch: Any) -> None:
    suite = yaml.safe_load((root / "pico.yaml").read_text())
    shutil.copytree(root / "models", tmp_path / "models")
    suite["pool"] = {"base": "models/base", "models": {name: f"models/{name}" for name in ("plain", "turned")}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(suite))
    monkeypatch.chdir(tmp_path)
    assert smelt.bench("mine.yaml", out="out", methods=["average"], tune=False).computed == 8


def test_a_row_of_the_file_is_a_row_of_the_answer(whole: BenchResult) -> None:
    lines = (whole.folder / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [row.model_dump(mode="json") for row in whole.rows]
