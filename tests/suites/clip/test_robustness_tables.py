"""Corrupted pictures: means over severities, blocks of the paper, curves, and who was adapted on what."""

import xml.etree.ElementTree as ET

import pytest

from made_up_data_suites import KINDS, robustness_rows
from made_up_suite import row
from reports import build_sheets
from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.budget import data_text
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.reporting.tables.cells import Cell, mean_on_same_examples
from smelt.reporting.tables.grid import build_grid
from smelt.suites.clip.report.corruption import (
    CorruptionReader,
    is_corruption,
    kind_and_severity,
    kind_text,
    severities_text,
)
from smelt.suites.clip.report.headline_robust import robust_sentences
from smelt.suites.clip.report.pages import ClipPages
from smelt.suites.clip.report.robustness import severity_curves, severity_figure


def scored(entry, corruption, photos, digits, **words):
    tasks = (("photos", photos), ("digits", digits))
    return [row(entry, t, c, 100, label=entry, corruption=corruption, **words) for t, c in tasks]


@pytest.fixture
def rows():
    """TIES loses 10 points with every severity of contrast and 20 with its one of JPEG; MagMax is 10 below it."""
    made = []
    for entry, top in (("ties", 90), ("magmax", 80)):
        made += scored(entry, None, top, top - 20)
        made += scored(entry, "contrast@1", top - 10, top - 30)
        made += scored(entry, "contrast@2", top - 20, top - 40)
        made += scored(entry, "jpeg@5", top - 40, top - 60)
    return made


def lines(sheet, block):
    grid = next(one.grid for one in sheet.blocks if one.key == block)
    return {m.name: m.average and round(m.average.accuracy, 6) for m in grid.lines}


def test_a_number_is_the_mean_over_the_severities_that_were_measured(rows):
    (sheet,) = build_sheets(rows)
    assert [block.title for block in sheet.blocks] == ["Clean", "Contrast", "JPEG"]
    ties = sheet.blocks[1].grid.lines[0]
    assert [cell.accuracy for cell in ties.cells] == pytest.approx([0.75, 0.55])  # (80 + 70) / 2, (60 + 50) / 2
    assert lines(sheet, "clean") == {"ties": 0.8, "magmax": 0.7}
    assert lines(sheet, "contrast") == {"ties": 0.65, "magmax": 0.55}
    assert lines(sheet, "jpeg") == {"ties": 0.4, "magmax": 0.3}
    assert sheet.about == "A corruption's number is the mean over severities 1 and 2 of Contrast; severity 5 of JPEG."


def test_the_short_form_has_kinds_across_and_their_mean_without_the_clean_pictures(rows):
    grid = build_sheets(rows)[0].summary.blocks[0].grid
    assert grid.tasks == ("Clean", "Contrast", "JPEG")
    assert [cell.accuracy for cell in grid.lines[0].cells] == pytest.approx([0.8, 0.65, 0.4])
    assert grid.lines[0].average.accuracy == pytest.approx(0.525)
    assert [m.average.rank for m in grid.lines] == [1, 2]


def test_severities_see_the_same_pictures_so_their_interval_does_not_shrink():
    mean = mean_on_same_examples([Cell(0.5, 0.4, 0.6, 100), Cell(0.7, 0.6, 0.8, 100)])
    assert (mean.accuracy, mean.low, mean.high, mean.n) == pytest.approx((0.6, 0.5, 0.7, 100))
    assert mean_on_same_examples([]) is None


def test_a_line_with_fewer_severities_says_so_and_takes_no_place(rows):
    (sheet,) = build_sheets([*rows, *scored("tsv", None, 95, 95), *scored("tsv", "contrast@1", 95, 95)])
    tsv = sheet.blocks[1].grid.lines[2]
    assert (tsv.note, tsv.average.accuracy, tsv.average.rank) == ("severity 1 only", 0.95, 0)
    assert sheet.blocks[0].grid.lines[2].average.rank == 1  # its clean number is whole
    assert sheet.blocks[1].grid.lines[0].average.rank == 1
    assert sheet.summary.lines[2].average is None  # no JPEG


def adapted(split, corruption, correct):
    budget = DataBudget(split=split, images=64)
    return scored("adamerging", corruption, correct, correct, data_budget=budget)


def test_a_method_that_adapts_anew_is_another_line_and_shares_the_clean_numbers(rows):
    fixed = [*adapted("val", None, 90), *adapted("val", "jpeg@5", 40)]
    anew = adapted("val, jpeg@5", "jpeg@5", 60)
    (sheet,) = build_sheets([*rows, *fixed, *anew])
    names = ["adamerging", "adamerging, adapted to each corruption"]
    assert [lines(sheet, "jpeg")[name] for name in names] == [0.4, 0.6]
    assert [lines(sheet, "clean")[name] for name in names] == [0.9, 0.9]
    assert [m.data for m in sheet.lines if m.data] == [
        "64 unlabelled val pictures, clean",
        "64 unlabelled val pictures, corrupted as tested",
    ]
    assert sheet.about.endswith(
        "Adapted or measured on clean pictures: adamerging. Adapted on corrupted pictures: adamerging, adapted to each "
        "corruption."
    )


def test_where_only_the_clean_pictures_are_shared_there_is_one_line(rows):
    (sheet,) = build_sheets([*rows, *adapted("val", None, 90), *adapted("val, jpeg@5", "jpeg@5", 60)])
    assert [m.name for m in sheet.lines] == ["ties", "magmax", "adamerging, adapted to each corruption"]
    assert lines(sheet, "clean")["adamerging, adapted to each corruption"] == 0.9


def test_markdown_sets_two_blocks_side_by_side_as_the_paper_does(rows):
    assert as_markdown(build_sheets(rows)).splitlines()[:8] == [
        "| Method | photos | digits | Avg. | photos | digits | Avg. |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "|  | **Clean** |  |  | **Contrast** |  |  |",
        "| ties | **90.0** | **70.0** | **80.0** | **75.0** | **55.0** | **65.0** |",
        "| magmax | <u>80.0</u> | <u>60.0</u> | <u>70.0</u> | <u>65.0</u> | <u>45.0</u> | <u>55.0</u> |",
        "|  | **JPEG** |  |  |  |  |  |",
        "| ties | **50.0** | **30.0** | **40.0** |  |  |  |",
        "| magmax | <u>40.0</u> | <u>20.0</u> | <u>30.0</u> |  |  |  |",
    ]


def test_csv_names_the_corruption_of_every_number(rows):
    text = as_csv(build_sheets(rows))
    assert any(",digits,test,0.3," in line and line.endswith(",,jpeg,,0,0") for line in text.splitlines())


def test_a_curve_goes_from_clean_through_the_severities(rows):
    contrast, jpeg = severity_curves(build_sheets(rows)[0])
    assert contrast.lines[0] == tuple((s, pytest.approx(v)) for s, v in ((0, 0.8), (1, 0.7), (2, 0.6)))
    assert jpeg.lines[1] == ((0, pytest.approx(0.7)), (5, pytest.approx(0.3)))


def test_a_severity_that_lacks_a_task_is_not_on_the_curve(rows):
    (contrast, _) = severity_curves(build_sheets([*rows, row("ties", "photos", 9, 100, corruption="contrast@3")])[0])
    assert [severity for severity, _ in contrast.lines[0]] == [0, 1, 2]


def test_charts_have_one_line_per_method_and_colours_that_the_key_explains():
    (sheet,) = build_sheets(one for one in robustness_rows() if isinstance(one, Row))
    figure = severity_figure(sheet)
    assert len(figure.charts) == len(KINDS)
    drawn = [line.get("class") for line in ET.fromstring(figure.charts[0].drawing).findall("polyline")]
    assert len(drawn) == len(sheet.lines) == 9
    assert sorted(drawn) == ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "ghost"]
    keys = dict(figure.keys)
    assert (keys["Pre-trained"], keys["Fine-tuned experts"]) == (0, 1)
    assert "Task arithmetic" not in keys  # the worst of seven methods is the grey one
    assert figure.others


def test_the_first_words_name_the_best_and_what_hurts_most(rows):
    said = robust_sentences(build_sheets(rows)[0])
    assert said == [
        "2 methods on the same 200 test pictures of 2 tasks, clean and under 2 kinds of corruption.",
        "On clean pictures the best merge, ties, gets 80.0 %; under corruption the best merge, ties, gets 52.5 % on "
        "average over the tasks.",
        "Merges lose most by JPEG, 40.0 points on average, and least by contrast, 15.0.",
    ]


def test_corruptions_have_names_for_people():
    assert [kind_text(kind) for kind in ("motion_blur", "jpeg", "jpeg:imagenet_c")] == [
        "Motion blur",
        "JPEG",
        "JPEG (imagenet_c)",
    ]
    assert kind_and_severity("motion_blur@3") == ("motion_blur", 3)
    assert kind_and_severity("motion_blur@3:imagenet_c") == ("motion_blur:imagenet_c", 3)
    assert [severities_text(found) for found in ([3], [1, 5], [1, 2, 3], [1, 3, 5])] == [
        "severity 3",
        "severities 1 and 5",
        "severities 1 to 3",
        "severities 1, 3 and 5",
    ]
    with pytest.raises(CorruptFile, match="'blur'"):
        kind_and_severity("blur")


def made(split="val", corruption=None):
    return row("adamerging", "photos", 1, 2, data_budget=DataBudget(split=split, images=10), corruption=corruption)


def test_a_corruption_in_a_budget_is_no_split():
    rows = [made("val, gaussian_noise@3")]
    assert data_text(rows, is_split=lambda word: not is_corruption(word)) == "10 unlabelled val pictures"


def test_under_corruption_a_line_says_which_pictures_it_was_adapted_on():
    data = CorruptionReader().data
    assert data([made(), made(corruption="contrast@2")]) == "10 unlabelled val pictures, clean"
    anew = [made(), made("val, contrast@2", "contrast@2")]
    assert data(anew) == "10 unlabelled val pictures, corrupted as tested"
    assert data([made("val, jpeg@5", "contrast@2")]) == "10 unlabelled val pictures with JPEG 5"


def test_corrupted_pictures_stay_out_of_the_clean_table():
    rows = [row("ties", "photos", 50, 100), row("ties", "photos", 10, 100, corruption="contrast@5")]
    clean = build_grid(ClipPages().plain_rows(rows))
    assert [cell.accuracy for m in clean.lines for cell in m.cells] == [0.5]


def test_stored_pictures_are_a_kind_of_their_own_without_a_severity(rows):
    more = [*rows, *scored("ties", "jpeg@stored", 30, 10), *scored("magmax", "jpeg@stored", 20, 0)]
    (sheet,) = build_sheets(more)
    assert [block.title for block in sheet.blocks] == ["Clean", "Contrast", "JPEG", "JPEG (stored)"]
    assert lines(sheet, "jpeg:stored") == {"ties": 0.2, "magmax": 0.1}
    assert sheet.about.endswith("severity 5 of JPEG. Stored pictures are those that the data sets hold damaged.")
    assert [curves.kind for curves in severity_curves(sheet)] == ["contrast", "jpeg"]


def test_a_model_adapted_to_stored_damage_says_so():
    adapted = DataBudget(split="test, blur@stored", images=10)
    (line,) = CorruptionReader().models(scored("ada", "blur@stored", 30, 10, data_budget=adapted))
    assert CorruptionReader().label(line) == "ada, adapted to each corruption"
