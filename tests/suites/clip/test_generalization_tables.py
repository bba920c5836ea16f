"""Seen and unseen tasks: one table per part, an average on either side, references in every part."""

import csv
import io

import pytest

from made_up_data_suites import generalization_rows
from made_up_suite import row
from reports import build_sheets
from smelt.evaluation.row import Row
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.suites.clip.report.parts import part_sentences, parts_sentence

SEEN = {"photos": True, "digits": True, "emoji": False}


def part(name, entry, *correct, seen=SEEN, **words):
    tasks = zip(seen, correct, strict=True)
    return [row(entry, t, c, 100, label=entry, part=name, seen=seen[t], **words) for t, c in tasks]


def references(*base):
    words = {"variant": "reference"}
    rows = [row("pretrained", t, c, 100, label="Pre-trained", **words) for t, c in zip(SEEN, base, strict=True)]
    return rows + [row(f"expert-{t}", t, 90, 100, **words) for t in SEEN]


@pytest.fixture
def rows():
    return [*references(40, 50, 60), *part("exp1", "ties", 60, 80, 50), *part("exp1", "regmean", 80, 90, 65)]


def test_seen_and_unseen_tasks_have_an_average_each(rows):
    (sheet,) = build_sheets(rows)
    seen, unseen = (block.grid for block in sheet.blocks)
    assert (seen.tasks, unseen.tasks) == (("photos", "digits"), ("emoji",))
    assert (
        [m.entry for m in seen.lines] == [m.entry for m in unseen.lines] == ["pretrained", "experts", "ties", "regmean"]
    )
    assert [m.average.accuracy for m in seen.lines] == pytest.approx([0.45, 0.9, 0.7, 0.85])
    assert [m.average.accuracy for m in unseen.lines] == pytest.approx([0.6, 0.9, 0.5, 0.65])


def test_the_best_is_marked_in_every_column_of_either_side(rows):
    (sheet,) = build_sheets([*rows, *part("exp1", "wemoe", 99, 99, 99, way="mix")])
    for block in sheet.blocks:
        assert [m.average.rank for m in block.grid.lines] == [0, 0, 2, 1, 0]


def test_markdown_has_the_layout_of_the_paper(rows):
    assert as_markdown(build_sheets(rows)).splitlines()[:12] == [
        "**exp1**",
        "",
        "| Method | photos | digits | Avg. | emoji | Avg. |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "|  | **Seen tasks** |  |  | **Unseen tasks** |  |",
        "| *Reference* |  |  |  |  |  |",
        "| Pre-trained | 40.0 | 50.0 | 45.0 | 60.0 | 60.0 |",
        "| Fine-tuned experts (each on its own task, those of unseen tasks too) | 90.0 | 90.0 | 90.0 | 90.0 | 90.0 |",
        "| *Model merging (data-free)* |  |  |  |  |  |",
        "| ties | <u>60.0</u> | <u>80.0</u> | <u>70.0</u> | <u>50.0</u> | <u>50.0</u> |",
        "| regmean | **80.0** | **90.0** | **85.0** | **65.0** | **65.0** |",
        "",
    ]


def test_latex_spans_the_two_sides(rows):
    text = as_latex(build_sheets(rows))
    assert r" & \multicolumn{3}{c}{Seen tasks} & \multicolumn{2}{c}{Unseen tasks} \\" in text
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-6}" in text
    assert r"\begin{tabular}{lrrrrr}" in text


def test_csv_says_part_and_side(rows):
    lines = list(csv.DictReader(io.StringIO(as_csv(build_sheets(rows)))))
    found = {(one["part"], one["block"], one["task"]): one["accuracy"] for one in lines if one["entry"] == "ties"}
    assert found["exp1", "unseen", "emoji"] == "0.5"
    assert float(found["exp1", "seen", "average"]) == pytest.approx(0.7)


def test_parts_are_tables_of_their_own_and_share_the_references(rows):
    other = dict(zip(SEEN, (False, True, True), strict=True))
    first, second = build_sheets([*rows, *part("exp2", "ties", 10, 20, 40, seen=other)])
    assert (first.title, second.title) == ("exp1", "exp2")
    assert [block.grid.tasks for block in second.blocks] == [("digits", "emoji"), ("photos",)]
    assert [m.entry for m in second.lines] == ["pretrained", "experts", "ties"]
    assert second.blocks[0].grid.lines[2].average.accuracy == pytest.approx(0.3)


def test_a_part_that_does_not_say_what_was_seen_is_one_block():
    (sheet,) = build_sheets([row("ties", "photos", 50, 100, part="exp1"), row("ties", "digits", 70, 100, part="exp1")])
    assert [block.title for block in sheet.blocks] == [""]
    assert sheet.lines[0].average.accuracy == pytest.approx(0.6)


def test_a_suite_with_a_table_beside_its_parts_keeps_it(rows):
    plain, sheet = build_sheets([*rows, row("ties", "photos", 99, 100)])
    assert (plain.part, sheet.part) == (None, "exp1")
    assert plain.lines[-1].cells[0].accuracy == 0.99


def test_the_first_words_say_what_happens_on_unseen_tasks(rows):
    (sheet,) = build_sheets(rows)
    assert part_sentences(sheet) == [
        "exp1: merged from the experts of 2 tasks, without those of emoji. "
        "On the seen tasks the best merge, regmean, gets 85.0 % on average (the pre-trained model 45.0 %). "
        "On the unseen tasks the best merge, regmean, gets 65.0 % on average (the pre-trained model 60.0 %).",
        "On the unseen tasks, of 2 merges 0 are above the pre-trained model by more than the 95 % interval of the "
        "difference, and 0 are below it by more.",
    ]
    sure = build_sheets(
        [*rows, *part("exp1", "a", 8, 9, 90), *part("exp1", "b", 8, 9, 90), *part("exp1", "c", 8, 9, 20)]
    )[0]
    assert "of 5 merges 2 are above" in part_sentences(sure)[1]
    assert part_sentences(sure)[1].endswith("and 1 is below it by more.")


def test_the_first_sentence_counts_methods_parts_and_pictures():
    sheets = build_sheets(one for one in generalization_rows() if isinstance(one, Row))
    assert parts_sentence(sheets) == (
        "6 methods made one model from some of the experts, in 2 parts; tasks whose expert was left out are unseen. "
        "Every model was tested on the same 16,000 test pictures of 8 tasks."
    )
