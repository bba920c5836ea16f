"""The best single specialist: chosen by validation where it was asked, a reference beside the methods, and told of."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from test_language_tables import TWO, numbers, values

from made_up_language import all_sheets, scored, write_language
from smelt.evaluation.row import Row
from smelt.reporting.tables.as_csv import as_csv
from smelt.suites.language.report.figures import trade_off
from smelt.suites.language.report.headline import language_sentences, language_tiles
from smelt.suites.language.report.single import best_single
from smelt.suites.language.report.standing import standings
from smelt.suites.language.report.tables import GENERAL, language_sheets, sheet_of
from smelt.suites.report import report

ASKED = replace(TWO, validation={"maths": "maths-val", "safety": "safety-val"})
TESTS = ("maths", "maths-stories", "safety", "general-boolq")


def answers(entry: str, *right: int, **words: Any) -> list[Row]:
    return [scored(entry, task, 10 * value, 1000, **words) for task, value in zip(TESTS, right, strict=True)]


@pytest.fixture
def rows() -> list[Row]:
    """Of maths: 60 in it and 25 in safety, (1 + 25/50) / 2 = 75 %. Of safety: 15 and 50, (15/60 + 1) / 2 = 62.5 %."""
    return [
        *answers("pretrained", 20, 10, 20, 50),
        *answers("expert-maths", 80, 40, 25, 40),
        *answers("expert-safety", 20, 10, 50, 45),
        *answers("average", 40, 20, 50, 45),
        *answers("ties", 70, 50, 40, 40),
    ]


@pytest.fixture
def validated(rows: list[Row]) -> list[Row]:
    """On the validation tasks that of safety comes first: (20/40 + 1) / 2 = 75 %, and (1 + 10/50) / 2 = 60 %."""
    at = {"expert-maths": (40, 10), "expert-safety": (20, 50)}
    return rows + [
        scored(entry, task, right, split="val")
        for entry, both in at.items()
        for task, right in zip(("maths-val", "safety-val"), both, strict=True)
    ]


def test_it_is_chosen_by_the_tests_where_nothing_else_was_asked_and_says_so(rows: list[Row]) -> None:
    single = best_single(rows, ASKED, "test")
    assert single is not None
    assert single.label == "Best single specialist (maths)"
    assert single.note == "chosen on the test tasks: an upper bound for any single one"
    sheet = language_sheets(rows, TWO)[0]
    assert "chosen on the test tasks: an upper bound for any single one." in sheet.about
    assert best_single(rows, TWO, "test") == single


def test_it_is_chosen_by_the_validation_tasks_where_they_were_asked(validated: list[Row]) -> None:
    single = best_single(validated, ASKED, "test")
    assert single is not None
    assert (single.label, single.note) == ("Best single specialist (safety)", "chosen on the validation tasks")
    assert values(language_sheets(validated, ASKED)[0], "Avg. Norm")[3] == 0.625


def test_one_missing_validation_score_leaves_the_choice_to_the_tests(validated: list[Row]) -> None:
    single = best_single(validated[:-1], ASKED, "test")
    assert single is not None
    assert single.split == "test"


def test_nobody_is_best_where_specialists_answered_for_their_own_domain_alone(rows: list[Row]) -> None:
    own = [row for row in rows if (row.entry, row.task) != ("expert-safety", "maths")]
    assert best_single(own, TWO, "test") is None
    assert "Best single" not in " ".join(str(line.short) for line in language_sheets(own, TWO)[0].lines)


def test_it_is_a_column_without_a_place(rows: list[Row]) -> None:
    sheets = language_sheets(rows, TWO)
    assert [line.short for line in sheets[0].lines] == ["Base", "Model soup", "TIES", "Best single (maths)", "Experts"]
    # base (15/60 + 20/50) / 2; average (30/60 + 50/50) / 2; ties (60/60 + 40/50) / 2
    assert values(sheets[0], "Avg. Norm") == [0.325, 0.75, 0.9, 0.75, 1.0]
    assert [one.rank for one in numbers(sheets[0], "Math")] == [0, 2, 1, 0, 0]
    assert values(sheet_of(sheets, GENERAL), "Avg. Norm") == [1.0, 0.9, 0.8, 0.8]
    found = [
        one for one in csv.DictReader(io.StringIO(as_csv(all_sheets(rows, TWO)))) if one["entry"] == "expert-maths"
    ]
    assert {one["block"] for one in found} == {"domains", "tasks", "general"}


def test_the_headline_says_whether_merging_is_worth_more(rows: list[Row]) -> None:
    sheets = language_sheets(rows, TWO)
    said = " ".join(language_sentences(rows, [], sheets, TWO))
    assert "The best single specialist (maths) keeps 75.0 % by itself (95 % interval " in said
    assert "; chosen on the test tasks: an upper bound for any single one). TIES is 15.0 points above it" in said
    assert "TIES is 15.0 points above it; the 95 % interval of the difference, " in said
    assert "leaves out zero. Methods above it: 1 of 2, 1 of them surely." in said
    tiles = {tile.title: (tile.text, tile.below) for tile in language_tiles([], sheets, TWO)}
    assert tiles["Without merging"] == ("75.0", "of the experts: best single specialist (maths)")


def test_merges_below_it_are_said_to_be_below(rows: list[Row]) -> None:
    rows = [row for row in rows if row.entry != "ties"]
    said = " ".join(language_sentences(rows, [], language_sheets(rows, TWO), TWO))
    assert "Model Soup is 0.0 points above it" in said
    assert "holds zero. Methods above it: 0 of 1, 0 of them surely." in said


def test_it_stands_among_the_points_of_the_trade_off(rows: list[Row]) -> None:
    found = standings(language_sheets(rows, TWO), [], TWO)
    assert [one.kind for one in found] == ["base", "method", "method", "single"]
    assert str(trade_off(found)).count("dot single") == 1


def test_a_whole_page_has_it(tmp_path: Any) -> None:
    folder = write_language(tmp_path / "llm5")
    text = report(folder).read_text(encoding="utf-8")
    assert "Best single (" in text
    assert "best single specialist (" in text
    assert "Best single (" in (folder / "table.tex").read_text(encoding="utf-8")
