"""A whole hub suite of pico models: every number by hand, stopped and gone on with, refused where it has to be."""

import json
import re
import shutil

import pytest

import smelt
from hub_suite import METHODS, TASKS, TURNS, HubRun, write_graph, write_hub_suite
from smelt.errors import RecipeError
from smelt.evaluation.row import CostRow, read_rows
from smelt.suites.hub.row_parts import ALPHA, COUNT, MODELS, table_part

K1, K2 = table_part(1), table_part(2)


def known_tasks(root):
    return {path.name: path for path in sorted((root / "tasks").iterdir())}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root, told = tmp_path_factory.mktemp("pico-hub"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMELT_CACHE", str(root / "cache"))
        suite = write_hub_suite(root)
        patch.setattr("smelt_zoo.tasks", lambda: known_tasks(root))
        return HubRun(root, suite, smelt.bench(suite, out=root / "out", executor="inline", tell=told.append), told)


@pytest.fixture
def run(made, monkeypatch):
    """The suite and its run, with the tasks and the cache of that run; not to be written to."""
    monkeypatch.setattr("smelt_zoo.tasks", lambda: known_tasks(made.root))
    monkeypatch.setenv("SMELT_CACHE", str(made.root / "cache"))
    return made


def test_every_model_is_tested_by_itself(run):
    for name, right in {"plain": (1, 0), "one": (0, 0), "two": (0, 1)}.items():
        assert run.accuracy(part=MODELS, entry=f"model-{name}") == dict(zip(TASKS, right, strict=True))
    (row,) = run.rows(part=MODELS, entry="model-two", task="turned")
    assert (row.n, row.variant, row.model) == (30, "reference", str(run.root / "models" / "two"))
    assert row.command.startswith("smelt eval ")


def test_a_single_models_row_is_what_an_evaluation_gives(run):
    (row,) = run.rows(part=MODELS, entry="model-two", task="plain")
    (own,) = smelt.evaluate(str(run.root / "models" / "two"), ["plain"])
    assert (own.correct, own.n, own.model_hash) == (row.correct, row.n, row.model_hash)


def test_labels_choose_the_model_that_knows_the_words(run):
    for entry in ("mll", "mll-domain", "mll-code", "graph-best"):
        assert run.accuracy(part=K1, entry=entry) == {"plain": 1, "turned": 0}
        for row in run.rows(part=K1, entry=entry):
            assert row.recipe["used"] == {"plain": 3}
            assert (row.recipe["classes"], row.recipe["domain"], row.way) == (3, "photo", "ensemble")


def test_the_oracle_knows_better_and_says_so(run):
    assert run.accuracy(part=K1, entry="oracle") == {"plain": 1, "turned": 1}
    assert {row.variant for row in run.rows(entry="oracle")} == {"reference"}
    assert {row.data_budget.labels for row in run.rows(entry="oracle")} == {30}


def test_any_model_is_the_mean_of_all(run):
    assert run.accuracy(part=K1, entry="random") == {task: pytest.approx(1 / 3) for task in TASKS}
    (row,) = run.rows(part=K1, entry="random", task="plain")
    assert (row.correct, row.n, row.recipe["sets"]) == (10, 30, 3)


def test_text_features_choose_by_what_was_learned_on_the_other_task(run):
    found = run.rows(part=K1, entry="modelgpt")
    assert {row.task for row in found} == set(TASKS)
    assert {row.data_budget.split for row in found} == {"other-task"}
    assert all(sum(row.recipe["used"].values()) == 3 for row in found)


def test_every_method_has_every_task_at_every_k(run):
    for part in (K1, K2):
        assert {(row.entry, row.task) for row in run.rows(part=part)} == {(m, t) for m in METHODS for t in TASKS}


def test_settings_say_where_a_method_differs_from_the_paper(run):
    assert {json.dumps(row.setting) for row in run.rows(part=K1, entry="mll")} == {'{"k": 1, "alpha": 0.7}'}
    (one, *_) = run.rows(part=K2, entry="mll-code")
    words = {"metric": "f1", "overall": "others", "weights": "inverse_entropy"}
    assert one.setting == {"k": 2, "alpha": 0.7, **words}


def test_sweeps_agree_with_the_tables_where_they_meet(run):
    same = {row.task: row.correct for row in run.rows(part=ALPHA, entry="mll") if row.setting["alpha"] == 0.7}
    assert same == {row.task: row.correct for row in run.rows(part=K1, entry="mll")}
    same = {row.task: row.correct for row in run.rows(part=COUNT, entry="mll") if row.setting["k"] == 2}
    assert same == {row.task: row.correct for row in run.rows(part=K2, entry="mll")}


def test_time_is_measured_and_operations_are_counted_for_every_k(run):
    costs = [row for row in run.done.rows if isinstance(row, CostRow) and row.part == COUNT]
    assert [row.setting["k"] for row in costs] == [1, 2, 3]
    assert [row.setting["models"] for row in costs] == [1, 2, 3]
    assert all(row.evaluate_seconds > 0 for row in costs)
    flops = [row.setting["flops"] for row in costs]
    assert flops == [flops[0], 2 * flops[0], 3 * flops[0]]


def test_growth_ends_at_the_whole_hub_for_every_order(run):
    growth = json.loads((run.done.folder / "analyses" / "hub-growth.json").read_text())
    for entry, whole in (("mll", [30, 0]), ("oracle", [30, 30])):
        assert [order[-1] for order in growth["right"][entry]] == [whole] * 4
    assert growth["methods"]["oracle"]["mean"][-1] == 1.0
    assert growth["tasks"] == {"plain": 30, "turned": 30}


def test_rank_correlations_of_the_graph_are_right_on_one_task(run):
    ranks = json.loads((run.done.folder / "analyses" / "hub-ranks.json").read_text())["methods"]
    assert set(ranks) == set(METHODS) - {"oracle", "random"}
    assert ranks["graph-best"]["spearman"]["plain"] == pytest.approx(1.0)
    assert ranks["graph-best"]["spearman"]["turned"] == pytest.approx(-0.5)


def test_the_spider_has_models_over_classes(run):
    classes = json.loads((run.done.folder / "analyses" / "hub-classes.json").read_text())
    assert classes["classes"] == TASKS["plain"]
    assert classes["models"]["plain"] == [1, 1, 1]
    assert len(classes["models"]) == 2


def test_the_report_has_the_suites_sections(run):
    page = run.done.report.read_text()
    for section in ("results", "growth", "agreement", "hub-models"):
        assert f'id="{section}"' in page
    assert (run.done.folder / "table.tex").read_text().count(r"\begin{table}") == 4


def test_every_step_is_told(run):
    assert len(run.told) == len(TURNS) + len(METHODS) + 3
    assert re.fullmatch(r"\[ 2/13\] Model plain: 50.0 % \(\d+\.\d s\)", run.told[1])
    assert run.told[3].startswith("[ 4/13] MLL: k = 1 50.0 %, k = 2 ")


def test_a_second_run_computes_nothing(run, tmp_path):
    out, told = tmp_path / "out", []
    shutil.copytree(run.done.folder, out)
    again = smelt.bench(run.suite, out=out, tell=told.append)
    assert again.computed == 0
    assert all(line.endswith("(there already)") for line in told)


def test_a_run_that_was_stopped_goes_on_where_it_was(run, tmp_path):
    out, told = tmp_path / "out", []
    shutil.copytree(run.done.folder, out)
    lines = (out / "rows.jsonl").read_text().splitlines(keepends=True)
    (out / "rows.jsonl").write_text("".join(lines[:14]) + lines[14][:50])
    (out / "analyses" / "hub-growth.json").unlink()
    done = smelt.bench(run.suite, out=out, tell=told.append)
    assert done.computed > 0

    def cells(rows):
        words = ("part", "entry", "task", "setting", "accuracy", "loss")
        return sorted(json.dumps([row.model_dump()[w] for w in words]) for row in rows if not isinstance(row, CostRow))

    assert cells(read_rows(out / "rows.jsonl")) == cells(run.done.rows)
    assert (out / "analyses" / "hub-growth.json").read_text() == (
        run.done.folder / "analyses" / "hub-growth.json"
    ).read_text()


def test_answers_are_kept_so_that_another_folder_loads_no_model(run, tmp_path, monkeypatch):
    """Growth and tables are arithmetic on what was kept; only the models' own steps look at weights."""
    from smelt.suites.hub.model import HubModel

    def never(self, task, limit):
        raise AssertionError("asked again")

    monkeypatch.setattr(HubModel, "_ask", never)
    done = smelt.bench(run.suite, out=tmp_path / "out", methods=["mll", "growth"])
    assert {row.entry for row in done.rows if getattr(row, "part", "") == K1} == {"mll"}


def test_chosen_methods_and_tasks_only(run, tmp_path):
    done = smelt.bench(run.suite, out=tmp_path / "out", methods=["graph-best"], tasks=["turned", "plain"], limit=6)
    rows = [row for row in done.rows if not isinstance(row, CostRow)]
    assert {row.entry for row in rows} == {"graph-best", *(f"model-{name}" for name in TURNS)}
    assert {row.n for row in rows} == {6}
    assert not (done.folder / "analyses").exists()


def test_a_folder_that_was_begun_otherwise_is_refused(run, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(run.done.folder, out)
    with pytest.raises(RecipeError, match="limit None instead of 5"):
        smelt.bench(run.suite, out=out, limit=5)
    for seed, place in ((5, "same"), (6, "other")):
        own = tmp_path / f"{place}.yaml"
        graph = write_graph(tmp_path / place, seed)
        own.write_text(run.suite.read_text().replace(str(run.root / "graph"), str(graph)))
    smelt.bench(tmp_path / "same.yaml", out=out)  # what counts is the graph, not its place
    with pytest.raises(RecipeError, match="was begun with graph"):
        smelt.bench(tmp_path / "other.yaml", out=out)


def test_numbers_are_those_of_models_that_are_really_asked_together(run):
    from smelt.ensembles.per_class import PerClass
    from smelt.models.families.load import load

    members = {name: load(str(run.root / "models" / name), "classifier") for name in TURNS}
    # `plain` is right on every node; of the others, equally wrong, the first of the hub comes next.
    together = PerClass(members, [["plain", "one"]] * 3, scale=5.0)
    asked = {row.task: (row.correct, pytest.approx(row.loss)) for row in smelt.evaluate(together, list(TASKS))}
    assert asked == {row.task: (row.correct, row.loss) for row in run.rows(part=K2, entry="mll")}


def test_text_predictions_are_those_of_leaving_one_task_out(run):
    import numpy as np

    from smelt.hub.selection.lovm import leave_one_out
    from smelt.suites.find import find_suite
    from smelt.suites.hub.method_scores import work_of
    from smelt.suites.hub.plan import HubPlan
    from smelt.suites.plan import BenchOptions

    suite = find_suite(run.suite)
    work = work_of(HubPlan(suite, BenchOptions(methods=[])).hub)
    features, names = work.text_features("caption"), work.names
    scores = {t: dict(zip(names, features[place], strict=True)) for place, t in enumerate(TASKS)}
    truth = {t: dict(zip(names, work.accuracy(t), strict=True)) for t in TASKS}
    for task, wanted in leave_one_out(scores, truth).items():
        np.testing.assert_allclose(work.predicted(task, np.arange(3), "caption"), list(wanted.values()), atol=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"methods": ["mml"]}, "did you mean 'mll'"),
        ({"tasks": ["plain", "photos"]}, "no task of the suite named 'photos'"),
        ({"tasks": ["plain"]}, "at least two"),
        ({"dtype": "bfloat16"}, "float32"),
        ({"keep_models": True}, "keep_models"),
    ],
)
def test_what_cannot_be_served_is_refused_first(run, tmp_path, words, said):
    with pytest.raises(RecipeError, match=said):
        smelt.bench(run.suite, out=tmp_path / "out", **words)
    assert not (tmp_path / "out").exists()
