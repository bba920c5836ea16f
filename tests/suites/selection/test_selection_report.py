"""What a report says about a selection, with numbers that can be checked by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from made_up_selection import content, rows
from smelt.errors import CorruptFile
from smelt.evaluation.row import append_rows
from smelt.reporting.tables.sheet import Sheet
from smelt.select.step_choice import chosen_step
from smelt.suites.report import report
from smelt.suites.selection.paper import uqmerge
from smelt.suites.selection.report.analyses import SelectionAnalysis, read_selection
from smelt.suites.selection.report.figures import random_figure, trace_figure
from smelt.suites.selection.report.headline import selection_sentences, selection_tiles
from smelt.suites.selection.report.questions import correlations, research_questions
from smelt.suites.selection.report.table_shapes import Scores
from smelt.suites.selection.report.tables import selection_sheets


@pytest.fixture
def selection(tmp_path: Path) -> SelectionAnalysis:
    (tmp_path / "selection.json").write_text(json.dumps(content()))
    found = read_selection(tmp_path)
    assert found is not None
    return found


def _sheet(selection: SelectionAnalysis, part: str) -> Sheet:
    return next(sheet for sheet in selection_sheets(rows(), selection) if sheet.part == part)


def _printed(selection: SelectionAnalysis, part: str, block: int) -> dict[str, list[float | None]]:
    grid = _sheet(selection, part).blocks[block].grid
    return {m.label: [round(100 * c.accuracy, 2) if c else None for c in m.cells] for m in grid.lines}


def test_random_groups_are_averaged_with_their_standard_error(selection: SelectionAnalysis):
    lines = _sheet(selection, "random").blocks[0].grid.lines
    linear = next(line for line in lines if line.label == "Linear")
    assert linear.average is not None
    assert linear.average.accuracy == pytest.approx(0.55)  # (45 + 65) / 2
    assert linear.note.startswith("SE 10.00, SD 14.14 held-in; SE 15.00, SD 21.21 held-out")


def test_the_papers_numbers_stand_in_blocks_of_their_own_and_have_no_rows(selection: SelectionAnalysis):
    assert _printed(selection, "random", 2)["Linear"] == [55.43, 54.13]
    assert _printed(selection, "all", 2)["UQ-Merge (2 models)"] == [58.05, 56.01]
    assert _printed(selection, "methods", 1) == {"Linear": [56.86, 55.62], "TIES, default": [56.26, 55.87]}
    assert _printed(selection, "guidance", 1)["Uncertainty, ascending"] == [54.3]
    for sheet in selection_sheets(rows(), selection):
        for block in sheet.blocks:
            if block.key.startswith("paper"):
                assert not any(line.rows for line in block.grid.lines)


def test_methods_are_compared_over_all_sets(selection: SelectionAnalysis):
    assert _printed(selection, "methods", 0) == {"Linear": [67.5, 52.5], "TIES, default": [61.0, 54.0]}


def test_steps_name_both_choices_and_one_without_perturbations_has_no_such_table(selection: SelectionAnalysis):
    notes = [line.note for line in _sheet(selection, "steps").lines]
    assert notes[1] == "uncertainty 0.2000 (0.1900–0.2100); the first local minimum"
    assert notes[2] == "uncertainty 0.1000 (0.0900–0.1100); the lowest uncertainty"
    assert "perturbations" not in {sheet.part for sheet in selection_sheets(rows(), selection)}


def test_harm_is_said_only_beyond_the_interval(selection: SelectionAnalysis):
    notes = {line.label: line.note.rpartition(": ")[2] for line in _sheet(selection, "harm").lines}
    assert notes == {"All": "", "Without c": "hurts", "Without a": "not shown", "Without b": "helps"}
    said = selection_sentences(rows(), selection)[-1]
    assert said.startswith("1 expert harms the average of all beyond the 95 % interval: c (+15.00 points without it).")


def test_the_first_words_say_what_was_chosen_and_what_the_other_rule_would_take(selection: SelectionAnalysis):
    said = selection_sentences(rows(), selection)
    assert said[1].startswith(
        "UQ-Merge takes 2 of 3: b, a (the first local minimum; the lowest of all would take 3). "
        "Its uncertainty is 0.2000"
    )
    assert "20.00 points above the average of all (95 % interval +10.00 to +30.00)" in said[2]
    assert "the same as the greedy soup" in said[2]
    assert [(tile.title, tile.text) for tile in selection_tiles(rows(), selection)][:3] == [
        ("UQ-Merge", "70.0"),
        ("Average of all", "50.0"),
        ("Random groups", "55.0"),
    ]


def test_answers_follow_the_intervals(selection: SelectionAnalysis):
    first, second, third, fourth = (answer.ours for answer in research_questions(rows(), selection))
    assert first[-1].endswith("surely better than 1 and surely worse than 0; for 0 no difference is shown.")
    assert any("in hindsight, is 2; the least uncertain one, 3, differs from it by -20.00 points" in s for s in second)
    assert third == ("Only one perturbation was measured.",)
    assert "On the chosen models, Linear is surely above none, surely below none" in fourth[0]
    assert "On all models, Linear is surely above none, surely below TIES, default (-20.00)" in fourth[1]


def test_a_rise_whose_interval_holds_zero_is_not_shown(selection: SelectionAnalysis):
    assert research_questions(rows(), selection)[1].ours[1] == (
        "From step 2, the chosen one, to 3, the uncertainty changes by +0.0100 nats (95 % interval, paired over "
        "questions, -0.0300 to +0.0500): the rise is not shown."
    )
    sure = replace(selection.uncertainty_compared[0], low=0.001)
    found = research_questions(rows(), replace(selection, uncertainty_compared=(sure,)))
    assert found[1].ours[1].endswith("the rise is shown.")


def test_both_rules_are_compared_with_each_other_and_with_the_references(selection: SelectionAnalysis):
    said = research_questions(rows(), selection)[1].ours
    assert any(
        s.startswith("The first local minimum against the lowest of all: +20.00 points on held-out") for s in said
    )
    assert any(s.startswith("UQ-Merge by the lowest uncertainty against the greedy soup: -10.00 points") for s in said)


def test_nothing_compared_is_not_measured(selection: SelectionAnalysis):
    found = research_questions(rows(), replace(selection, compared=()))
    assert found[0].ours[-1] == "Answer: not measured."


def test_what_looked_at_data_says_so_and_is_not_marked_against_what_did_not(selection: SelectionAnalysis):
    lines = {line.label: line for line in _sheet(selection, "models").lines}
    groups = {name: lines[name].group for name in ("UQ-Merge (2 models)", "Greedy soup", "Average of all")}
    assert list(groups.values()) == ["data-driven", "data-driven", "data-free"]
    assert "chosen by 100 unlabelled test questions of the held-in sets" in lines["UQ-Merge (2 models)"].note
    assert lines["Greedy soup"].note == "1 model; chosen by 100 labelled val questions of the validation sets"
    assert all(line.group == "data-driven" for line in _sheet(selection, "guidance").lines)
    every = _sheet(selection, "all")
    ranks = {line.label: line.average.rank for line in every.lines if line.average}
    assert ranks == {"UQ-Merge (2 models)": 0, "Trained on everything": 0, "Linear": 2, "TIES, default": 1}
    assert "marked apart" in every.about


def test_uncertainty_and_accuracy_are_correlated_over_the_steps(selection: SelectionAnalysis):
    found = {one.kind: one for one in correlations(Scores(rows(), selection), selection)}
    assert found["held_out"].rho == pytest.approx(0.5)  # uncertainty 3 2 1, accuracy 60 70 50: ranks 2 3 1
    assert found["held_out"].chance == 1.0  # every order of three is at least so far from 0


def test_figures_have_a_point_for_every_step_and_size(selection: SelectionAnalysis):
    scores = Scores(rows(), selection)
    assert [chart.title for chart in trace_figure(scores, selection).charts] == [
        "Uncertainty, in nats",
        "Accuracy, in %",
    ]
    drawn = random_figure(scores, selection)
    assert drawn is not None
    assert "up to 2 random groups" in drawn.note


def test_a_folder_becomes_a_page_and_tables(tmp_path: Path):
    append_rows(tmp_path / "rows.jsonl", rows())
    (tmp_path / "analyses").mkdir()
    (tmp_path / "analyses" / "selection.json").write_text(json.dumps(content()))
    page = report(tmp_path).read_text()
    places = [page.index(f'<section id="{name}"') for name in ("questions", "trace", "random", "results")]
    assert places == sorted(places)
    assert "paper: random" in (tmp_path / "table.csv").read_text()


def test_a_file_that_is_something_else_is_refused(tmp_path: Path):
    (tmp_path / "selection.json").write_text('{"title": "x"}')
    with pytest.raises(CorruptFile, match="not what a selection suite writes"):
        read_selection(tmp_path)


def test_the_papers_trace_chooses_ten_by_the_lowest_and_seven_by_the_first_local_minimum():
    values = uqmerge().steps["uncertainty"]
    assert (chosen_step(values, "global_min"), chosen_step(values, "first_local_min")) == (10, 7)
