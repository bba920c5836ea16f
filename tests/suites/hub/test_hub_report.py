"""The report of a hub suite: tables for every k, sweeps with what they cost, growth, choices; who wins, honestly."""

import csv
import io
import json

import pytest

from made_up_hub import (
    ALPHAS,
    COUNTS,
    METHODS,
    MODEL_NAMES,
    TASKS,
    alone,
    chosen,
    cost,
    figures,
    hub_rows,
    swept,
    write_hub,
)
from reports import build_sheets
from smelt.errors import CorruptFile
from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.suites.hub.report.analyses import HubAnalyses, read_hub
from smelt.suites.hub.report.figures import agreements, growth_figure, model_matrix, share_matrix
from smelt.suites.hub.report.headline import hub_sentences, hub_tiles
from smelt.suites.hub.row_parts import ALPHA, COUNT, models_per_class, table_part
from smelt.suites.report import report

TWO = ("photos", "digits")


def method(entry, photos, digits, **words):
    return [chosen(entry, "photos", photos, **words), chosen(entry, "digits", digits, **words)]


@pytest.fixture
def rows():
    """Averages: mll 70, graph-best 60, modelgpt 65, oracle 80."""
    return [
        *(alone(model, task, 50) for model in ("one", "two") for task in TWO),
        *method("mll", 60, 80, used={"one": 4, "two": 6}),
        *method("graph-best", 70, 50),
        *method("modelgpt", 55, 75),
        *method("oracle", 75, 85, variant="reference"),
    ]


def line(sheet, entry):
    return next(one for one in sheet.lines if one.entry == entry)


def test_every_k_has_a_table_of_methods_over_tasks(rows):
    first, second = build_sheets([*rows, *method("mll", 62, 82, k=3)])
    assert (first.title, second.title) == ("1 model per class (k = 1)", "3 models per class (k = 3)")
    assert (first.part, models_per_class(first.part)) == (table_part(1), 1)
    (block,) = first.blocks
    assert block.grid.tasks == TWO
    assert [one.entry for one in first.lines] == ["oracle", "mll", "graph-best", "modelgpt"]
    assert [title for title, _ in first.groups(first.blocks)] == ["Reference", "Selection and reuse"]


def test_models_by_themselves_are_no_lines_of_a_table(rows):
    (sheet,) = build_sheets(rows)
    assert not any(one.entry.startswith("model-") for one in sheet.lines)


def test_average_share_of_the_oracle_and_places(rows):
    (sheet,) = build_sheets(rows)
    mll, graph, oracle = (line(sheet, entry) for entry in ("mll", "graph-best", "oracle"))
    assert (mll.average.accuracy, mll.normalised) == (pytest.approx(0.7), pytest.approx(0.7 / 0.8))
    assert [cell.rank for cell in mll.cells] == [2, 1]
    assert [cell.rank for cell in graph.cells] == [1, 0]
    assert (mll.average.rank, line(sheet, "modelgpt").average.rank, graph.average.rank) == (1, 2, 0)
    assert [cell.rank for cell in oracle.cells] == [0, 0]  # a reference takes no place


def test_the_oracle_says_that_it_saw_the_test_pictures():
    (sheet,) = build_sheets(row for row in hub_rows() if isinstance(row, Row) and row.part == table_part(1))
    assert "TEST PICTURES" in line(sheet, "oracle").loud
    assert "other-task" in line(sheet, "modelgpt").data
    assert not line(sheet, "modelgpt").loud


def test_a_sweep_shows_the_average_at_every_alpha(rows):
    swept_rows = [swept(ALPHA, t, right, {"k": 1, "alpha": a}) for a, right in ((0.5, 60), (0.7, 70)) for t in TWO]
    *_, sheet = build_sheets([*rows, *swept_rows])
    assert (sheet.title, sheet.axis, sheet.blocks[0].grid.tasks) == ("Over alpha", "alpha", ("0.5", "0.7"))
    (one,) = sheet.lines
    assert [cell.accuracy for cell in one.cells] == [pytest.approx(0.6), pytest.approx(0.7)]
    assert [cell.rank for cell in one.cells] == [2, 1]
    assert one.note == "k 1"


def test_a_sweep_that_lacks_a_task_has_no_number_there(rows):
    swept_rows = [swept(ALPHA, t, 60, {"k": 1, "alpha": a}) for a in (0.5, 0.7) for t in TWO]
    *_, sheet = build_sheets([*rows, *swept_rows[:-1]])
    assert [cell and cell.accuracy for cell in sheet.lines[0].cells] == [pytest.approx(0.6), None]


def test_over_k_time_and_computation_are_relative_to_the_first(rows):
    swept_rows = [swept(COUNT, t, 70, {"k": k, "alpha": 0.7}) for k in (1, 2, 3) for t in TWO]
    costs = [cost(1, 2.0, 1000), cost(2, 3.0, 1500), cost(3, 5.0, 4000)]
    *_, sheet = build_sheets([*rows, *swept_rows], costs)
    accuracy, time, computation = sheet.lines
    assert [cell.accuracy for cell in time.cells] == [1.0, 1.5, 2.5]
    assert [cell.accuracy for cell in computation.cells] == [1.0, 1.5, 4.0]
    assert "150.0" in as_markdown([sheet])
    *_, without = build_sheets([*rows, *swept_rows])
    assert [one.label for one in without.lines] == [accuracy.label]


def test_every_rule_of_weights_has_a_line_over_k(rows):
    """Rows that say no rule have the paper's; the first line's twin has an entry of its own."""
    shares = {"entropy": (70, 50), "inverse_entropy": (70, 80)}
    swept_rows = [
        swept(COUNT, t, right, {"k": k, "alpha": 0.7, **({} if rule == "entropy" else {"weights": rule})})
        for rule, found in shares.items()
        for k, right in zip((1, 3), found, strict=True)
        for t in TWO
    ]
    *_, sheet = build_sheets([*rows, *swept_rows], [cost(1, 2.0, 1000), cost(3, 5.0, 4000)])
    first, second, time, _ = sheet.lines
    assert [cell.accuracy for cell in first.cells] == [pytest.approx(0.7), pytest.approx(0.5)]
    assert [cell.accuracy for cell in second.cells] == [pytest.approx(0.7), pytest.approx(0.8)]
    assert (first.note, second.note) == ("alpha 0.7, weights entropy", "alpha 0.7, weights inverse_entropy")
    assert (first.entry, second.entry, time.entry) == ("mll", "mll-inverse_entropy", "mll-time")


def test_markdown_and_latex_have_every_table():
    rows = hub_rows()
    sheets = build_sheets([r for r in rows if isinstance(r, Row)], [r for r in rows if isinstance(r, CostRow)])
    text, tex = as_markdown(sheets), as_latex(sheets)
    for title in ("1 model per class", "3 models per class", "Over alpha", "Over k"):
        assert f"**{title}" in text
        assert title in tex
    assert "Of oracle" in text
    assert "Of experts" not in text
    heads = [found for found in text.splitlines() if found.startswith("| Method")]
    assert heads[0] == "| Method | photos | digits | sketches | flags | Avg. | Of oracle |"
    assert heads[2] == "| Method | 0.5 | 0.6 | 0.7 | 0.8 | 0.9 |"
    assert heads[3] == "| Method | 1 | 2 | 3 | 4 | 5 | 6 |"


def test_csv_has_every_number_with_its_part_and_axis(rows):
    swept_rows = [swept(ALPHA, t, 60, {"k": 1, "alpha": a}) for a in (0.5, 0.7) for t in TWO]
    found = list(csv.DictReader(io.StringIO(as_csv(build_sheets([*rows, *swept_rows])))))
    mll = [one for one in found if one["entry"] == "mll" and one["part"] == table_part(1)]
    assert {one["task"]: float(one["accuracy"]) for one in mll}["average"] == pytest.approx(0.7)
    points = [one for one in found if one["block"] == "alpha"]
    assert [json.loads(one["setting"]) for one in points] == [{"alpha": 0.5}, {"alpha": 0.7}]


def test_models_over_tasks_are_a_matrix(rows):
    matrix = model_matrix([row for row in rows if row.entry.startswith("model-")])
    assert (matrix.rows, matrix.columns, matrix.values) == (("one", "two"), TWO, ((0.5, 0.5), (0.5, 0.5)))


def test_choices_are_shares_of_the_classes(rows):
    matrix = share_matrix([row for row in rows if row.entry == "mll"])
    assert matrix.rows == ("two", "one")  # the one that is chosen most comes first
    assert matrix.values == ((0.6, 0.6), (0.4, 0.4))


def test_regret_is_how_far_the_oracle_is_above(rows, tmp_path):
    ranks = read_hub(write_hub(tmp_path) / "analyses").ranks
    found = {one.label: one for one in agreements(build_sheets(rows), ranks)}
    assert found["MLL"].regret == pytest.approx(0.1)
    assert (found["MLL"].spearman, found["MLL"].kendall) == (pytest.approx(0.8), pytest.approx(0.6))
    assert found["ModelGPT"].spearman is None  # not measured here
    assert "Oracle" not in found


def test_growth_is_drawn_with_its_bands(tmp_path):
    growth = read_hub(write_hub(tmp_path) / "analyses").growth
    assert (growth.sizes, growth.orders) == (len(MODEL_NAMES), 30)
    (chart,) = growth_figure(growth).charts
    assert chart.drawing.count("<polyline") == 2
    assert chart.drawing.count('class="band c') == 2


def test_the_opening_says_who_wins_and_by_how_much(rows):
    said = " ".join(hub_sentences(rows, build_sheets(rows), HubAnalyses()))
    assert "2 models of a hub" in said
    assert (
        "MLL gets 70.0 % on average, 5.0 points above ModelGPT (65.0 %, within the 95 % interval of the difference)"
        in said
    )
    assert "10.0 points above Best on the graph (60.0 %" in said
    assert "oracle 80.0 %" in said
    assert "the best is" not in said


def test_the_opening_says_when_labels_lose(rows):
    lost = [*(row for row in rows if row.entry != "graph-best"), *method("graph-best", 90, 90)]
    said = " ".join(hub_sentences(lost, build_sheets(lost), HubAnalyses()))
    assert "20.0 points below Best on the graph (90.0 %)" in said
    assert "the best is Best on the graph with 90.0 %" in said
    tiles = {tile.title: tile for tile in hub_tiles(build_sheets(lost))}
    assert tiles["Chosen otherwise"].best
    assert not tiles["Chosen by labels"].best


def test_the_opening_tells_the_growth(rows, tmp_path):
    analyses = read_hub(write_hub(tmp_path) / "analyses")
    said = hub_sentences(rows, build_sheets(rows), analyses)[-1]
    assert said.startswith("A larger hub: MLL goes from 45.0 % with one model over 65.0 % with 3 to 70.0 % with all 6")


def test_the_page_has_every_section_and_only_those_of_a_hub(tmp_path):
    page = report(write_hub(tmp_path)).read_text()
    for section in ("results", "growth", "agreement", "hub-models", "choices", "reproduce"):
        assert f'id="{section}"' in page
    for section in ("methods", "experts", "gaps", "curves", "costs"):
        assert f'<section id="{section}"' not in page
    assert page.count('class="radar"') == 2
    for label, *_ in METHODS.values():
        assert label in page
    assert "Bold</b>: the best method of a column" in page
    assert "of the oracle&#39;s average" in page
    assert "experts&#39;" not in page


def test_a_run_that_was_stopped_early_has_a_page(tmp_path):
    folder = write_hub(tmp_path, [alone(model, task, 40) for model in MODEL_NAMES for task in TASKS], {})
    page = report(folder).read_text()
    assert "6 models of a hub were tested so far" in page
    assert 'id="hub-models"' in page


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("hub-growth", {"methods": {}}, "methods"),
        ("hub-growth", {"methods": {"mll": {"mean": [1, 2], "low": [1], "high": [1, 2]}}}, "as many numbers"),
        ("hub-ranks", {"methods": {"mll": {"spearman": 3}}}, "spearman"),
        ("hub-classes", {"classes": ["a"], "models": {"one": []}}, "a number for each"),
        ("hub-classes", [], "an object"),
    ],
)
def test_figures_that_are_wrong_are_refused(tmp_path, name, content, said):
    folder = write_hub(tmp_path, drawn={**figures(), name: content})
    with pytest.raises(CorruptFile, match=said):
        report(folder)


def test_the_terminal_shows_the_tables_without_a_share_of_experts(capsys, monkeypatch):
    from reports import show_rows as show

    monkeypatch.setenv("COLUMNS", "200")
    show(hub_rows())
    out = capsys.readouterr().out
    assert "of experts" not in out
    assert "MLL, k 1" in out
    assert "Time" in out


def test_the_made_up_rows_are_what_they_say():
    rows = [row for row in hub_rows() if isinstance(row, Row)]
    assert len(rows) == len(TASKS) * (len(MODEL_NAMES) + 2 * len(METHODS) + len(ALPHAS) + len(COUNTS))
