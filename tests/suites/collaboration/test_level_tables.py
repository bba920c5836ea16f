"""Merging beside ensembling: Mer., Ens. and Gap for every task and on average, laid out as the paper's Table s5."""

import csv
import io

import pytest

from made_up_levels import TASKS, both, collaboration_rows, curve, write_collaboration
from made_up_suite import row
from reports import build_opening, build_sheets
from smelt.evaluation.row import Row
from smelt.recipe.schema import DataBudget
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.suites.collaboration.report.gaps import gap_figure, pairs
from smelt.suites.collaboration.report.headline import level_sentences, level_tiles
from smelt.suites.collaboration.report.levels import is_level_sheet, largest
from smelt.suites.report import report

PART = "ViT, 2 experts"


def references(part=PART, experts=(80, 100)):
    words = {"variant": "reference", "part": part}
    rows = [row("pretrained", t, 40, 100, label="Pre-trained", **words) for t in ("photos", "digits")]
    own = zip(("photos", "digits"), experts, strict=True)
    return [*rows, *(row(f"expert-{t}", t, right, 100, **words) for t, right in own)]


def method(entry, photos, digits, **words):
    """(merged, ensembled) on either task."""
    words = {"part": PART, "label": entry, **words}
    return [*both(entry, "photos", *photos, **words), *both(entry, "digits", *digits, **words)]


@pytest.fixture
def rows():
    return [
        *references(),
        *method("average", (50, 70), (70, 60)),
        *method("ties", (60, None), (80, None)),
        *method("neulig-semi", (70, 72), (90, 90), data_budget=DataBudget(split="train", images=500)),
        *method("neulig-supervised", (78, 79), (98, 98), label="NeuLig (supervised)"),
    ]


def line(grid, entry):
    return next(one for one in grid.lines if one.entry == entry)


def test_a_pool_has_a_block_for_every_task_and_one_for_the_average(rows):
    (sheet,) = build_sheets(rows)
    assert (sheet.title, sheet.part, is_level_sheet(sheet)) == (PART, PART, True)
    assert [block.title for block in sheet.blocks] == ["photos", "digits", "Avg."]
    assert {block.grid.tasks for block in sheet.blocks} == {("Mer.", "Ens.")}


def test_lines_stand_under_the_headings_of_the_paper(rows):
    (sheet,) = build_sheets([*rows, *method("wemoe", (1, 1), (1, 1), way="mix")])
    assert [(title, [m[0].entry for m in members]) for title, members in sheet.groups(sheet.blocks)] == [
        ("Reference", ["pretrained", "experts"]),
        ("Multi-task collaboration", ["average", "ties", "wemoe"]),
        ("Neural Ligand", ["neulig-semi", "neulig-supervised"]),
    ]


def test_the_gap_of_the_averages_is_not_the_average_of_the_gaps(rows):
    photos, digits, average = (block.grid for block in build_sheets(rows)[0].blocks)
    assert (line(photos, "average").gap, line(digits, "average").gap) == (pytest.approx(0.2), pytest.approx(0.1))
    assert line(average, "average").gap == pytest.approx(0.05)  # |(50 + 70) / 2 - (70 + 60) / 2|; the mean is 15


def test_the_share_of_the_experts_is_the_ratio_of_the_means(rows):
    photos, _, average = (block.grid for block in build_sheets(rows)[0].blocks)
    assert line(average, "ties").normalised == pytest.approx(70 / 90)
    assert line(average, "experts").normalised == 1.0
    assert line(photos, "ties").normalised is None  # only the average is compared


def test_without_the_experts_there_is_no_share(rows):
    (sheet,) = build_sheets([one for one in rows if one.variant != "reference"])
    assert all(one.normalised is None for one in sheet.blocks[-1].grid.lines)
    assert "Of experts |" not in as_markdown([sheet])


def test_a_method_without_coefficients_has_no_ensemble_and_no_gap(rows):
    average = build_sheets(rows)[0].blocks[-1].grid
    assert (line(average, "ties").cells[1], line(average, "ties").gap) == (None, None)
    assert line(average, "ties").cells[0].accuracy == pytest.approx(0.7)


def test_a_method_that_lacks_a_task_has_no_average_and_no_gap(rows):
    short = both("regmean", "photos", 99, 99, part=PART)
    photos, digits, average = (block.grid for block in build_sheets([*rows, *short])[0].blocks)
    assert line(photos, "regmean").gap == 0
    assert line(digits, "regmean").cells == (None, None)
    assert (line(average, "regmean").cells, line(average, "regmean").gap) == ((None, None), None)


def test_the_highest_accuracy_and_the_smallest_gap_are_best(rows):
    photos = build_sheets(rows)[0].blocks[0].grid
    places = {m.entry: (*(cell.rank if cell else None for cell in m.cells), m.gap_rank) for m in photos.lines}
    assert places == {
        "pretrained": (0, None, 0),
        "experts": (0, None, 0),  # higher than all, and no rival
        "average": (0, 0, 0),
        "ties": (0, None, 0),
        "neulig-semi": (2, 2, 2),
        "neulig-supervised": (1, 1, 1),
    }


def test_equal_differences_of_counts_share_a_place():
    found = [*method("a", (95, 97), (1, 1)), *method("b", (11, 13), (1, 1)), *method("c", (50, 60), (1, 1))]
    assert 0.97 - 0.95 != 0.13 - 0.11  # as floats
    photos = build_sheets([*references(), *found])[0].blocks[0].grid
    assert [line(photos, entry).gap_rank for entry in "abc"] == [1, 1, 2]


def test_numbers_come_from_counts_and_not_from_written_accuracies(rows):
    wrong = [one.model_copy(update={"accuracy": 0.123}) for one in rows]
    assert as_markdown(build_sheets(wrong)) == as_markdown(build_sheets(rows))


def test_what_was_measured_twice_counts_as_measured_last(rows):
    again = method("average", (90, 90), (90, 90))
    average = build_sheets([*rows, *again])[0].blocks[-1].grid
    assert line(average, "average").cells[0].accuracy == pytest.approx(0.9)
    assert len(line(average, "average").rows) == 4  # two tasks at two levels


def test_pools_are_tables_of_their_own(rows):
    other = [one.model_copy(update={"part": "ViT, 1 expert"}) for one in rows if one.task == "photos"]
    first, second = build_sheets([*other, *rows])
    assert [block.title for block in first.blocks] == ["photos", "Avg."]
    assert largest([first, second]) is second


def test_markdown_has_the_layout_of_the_paper(rows):
    assert as_markdown(build_sheets(rows)).splitlines()[:15] == [
        f"**{PART}**",
        "",
        "| Method | Mer. | Ens. | Gap | Mer. | Ens. | Gap | Mer. | Ens. | Gap | Of experts |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "|  | **photos** |  |  | **digits** |  |  | **Avg.** |  |  |  |",
        "| *Reference* |  |  |  |  |  |  |  |  |  |  |",
        "| Pre-trained | 40.0 | – | – | 40.0 | – | – | 40.0 | – | – | 44.4 |",
        "| Fine-tuned experts (each on its own task) | 80.0 | – | – | 100.0 | – | – | 90.0 | – | – | 100.0 |",
        "| *Multi-task collaboration* |  |  |  |  |  |  |  |  |  |  |",
        "| average | 50.0 | 70.0 | 20.0 | 70.0 | 60.0 | <u>10.0</u> | 60.0 | 65.0 | 5.0 | 66.7 |",
        "| ties | 60.0 | – | – | 80.0 | – | – | 70.0 | – | – | 77.8 |",
        "| *Neural Ligand* |  |  |  |  |  |  |  |  |  |  |",
        "| neulig-semi (500 unlabelled train pictures) | <u>70.0</u> | <u>72.0</u> | <u>2.0</u> | <u>90.0</u> | "
        "<u>90.0</u> | **0.0** | <u>80.0</u> | <u>81.0</u> | <u>1.0</u> | <u>88.9</u> |",
        "| NeuLig (supervised) | **78.0** | **79.0** | **1.0** | **98.0** | **98.0** | **0.0** | **88.0** | **88.5** "
        "| **0.5** | **97.8** |",
        "",
    ]


def test_the_caption_says_what_the_columns_are(rows):
    text = as_markdown(build_sheets(rows))
    assert "Gap: how far the two are apart, in points; under Avg. that of the two averages." in text
    assert "Best of a column in bold, second underlined; of Gap the smallest." in text
    assert "Best merge" not in text


def test_latex_spans_the_tasks(rows):
    text = as_latex(build_sheets(rows))
    assert (
        r"\multicolumn{3}{c}{photos} & \multicolumn{3}{c}{digits} & \multicolumn{4}{c}{Avg.} \\ "
        r"\cmidrule(lr){2-4} \cmidrule(lr){5-7} \cmidrule(lr){8-11}"
    ) in text
    assert r"\quad ties & 60.0 & -- & -- & 80.0" in text


def test_csv_says_task_and_level_with_every_digit(rows):
    lines = list(csv.DictReader(io.StringIO(as_csv(build_sheets(rows)))))
    found = {(one["entry"], one["task"], one["level"]): one for one in lines}
    assert (found["average", "photos", "merged"]["correct"], found["average", "photos", "ensembled"]["n"]) == (
        "50",
        "100",
    )
    assert float(found["average", "average", "gap"]["accuracy"]) == pytest.approx(0.05)
    assert float(found["ties", "average", "of experts"]["accuracy"]) == pytest.approx(70 / 90)
    assert ("ties", "photos", "ensembled") not in found
    assert found["experts", "photos", ""]["accuracy"] == "0.8"
    assert found["neulig-semi", "photos", "merged"]["data_images"] == "500"
    assert {one["part"] for one in lines} == {PART}


def test_a_table_without_levels_has_no_word_for_them():
    assert "level" not in as_csv(build_sheets([row("ties", "photos", 1, 2)]))


def test_a_plain_table_may_stand_beside_pools(rows):
    plain, pool = build_sheets([*rows, row("ties", "photos", 50, 100)])
    assert (is_level_sheet(plain), is_level_sheet(pool)) == (False, True)
    lines = list(csv.DictReader(io.StringIO(as_csv([plain, pool]))))
    assert [one["level"] for one in lines if not one["part"]] == ["", ""]
    said = build_opening([*rows], [plain, pool]).sentences
    assert any("NeuLig (supervised)" in one for one in said)
    assert any("merge method" in one for one in said)


def test_the_first_words_are_about_neulig_beside_the_best_other_merge(rows):
    (sheet,) = build_sheets(rows)
    assert level_sentences(sheet, pools=3) == [
        "The same coefficients merge the weights of several experts, or weigh what the experts answer together; the "
        f"closer the two, the smaller the gap. Of 3 groups, {PART}: 4 methods on the same 200 test pictures "
        "of 2 tasks.",
        "NeuLig (supervised): merged 88.0 %, ensembled 88.5 %, a gap of 0.5 points; merged, that is 97.8 % of the "
        "experts. The experts themselves get 90.0 %, each on its own task.",
        "The best other merge, ties: merged 70.0 %; merged, that is 77.8 % of the experts.",
    ]
    tiles = [(tile.title, tile.text, tile.unit) for tile in level_tiles(sheet)]
    assert tiles == [
        ("Merged", "88.0", "%"),
        ("Ensembled", "88.5", "%"),
        ("Gap", "0.5", "points"),
        ("Of the experts", "97.8", "%"),
        ("Best other merge", "70.0", "%"),
    ]


def test_without_the_supervised_one_another_of_the_method_opens(rows):
    (sheet,) = build_sheets([one for one in rows if one.entry != "neulig-supervised"])
    assert level_sentences(sheet)[1].startswith("neulig-semi: merged 80.0 %")


def test_a_suite_of_references_opens_without_methods():
    found = [*references(), *method("average", (1, 2), (3, 4))]
    opening = build_opening(found, build_sheets(found))
    assert len(opening.sentences) == 2
    assert [tile.title for tile in opening.tiles] == ["Best other merge"]


def test_the_figure_shows_both_levels_relative_to_the_experts(rows):
    (sheet,) = build_sheets(rows)
    found = pairs(sheet)
    assert [one.label for one in found] == ["NeuLig (supervised)", "neulig-semi", "ties", "average"]
    assert (found[3].merged, found[3].ensembled, found[3].gap) == pytest.approx((60 / 90, 65 / 90, 0.05))
    assert (found[2].ensembled, found[2].gap) == (None, None)
    drawings = [drawing for _, drawing in gap_figure(sheet).lines]
    assert [drawing.count("<circle") for drawing in drawings] == [1, 1, 0, 1]
    assert "average: merged 66.7 % of the experts, ensembled 72.2 %; gap 5.0 points of accuracy" in drawings[3]


def test_without_experts_there_is_no_figure(rows):
    assert gap_figure(build_sheets([one for one in rows if one.variant != "reference"])[0]) is None
    assert gap_figure(None) is None


def test_series_are_no_lines_of_the_tables(rows):
    more = curve("neulig-semi", "photos", 1, 1, {"epoch": 1}, part=PART)
    assert as_markdown(build_sheets([*rows, *more])) == as_markdown(build_sheets(rows))


def test_the_page_of_a_whole_suite_has_its_sections(tmp_path):
    text = report(write_collaboration(tmp_path)).read_text(encoding="utf-8")
    assert [
        name for name in ("gaps", "series", "learned", "methods", "curves") if f'<section id="{name}">' in text
    ] == [
        "gaps",
        "series",
        "learned",
    ]
    assert text.count('class="results dense"') == 3
    assert text.count("<p>Mer.: the weights") == 1  # said once, not in every pool
    assert "Normalised" not in text
    assert 'a href="#gaps"' in text


def test_provenance_names_every_model_of_a_pool_once_and_no_point_of_a_series(tmp_path):
    text = report(write_collaboration(tmp_path)).read_text(encoding="utf-8")
    origins = text[text.index('class="origins"') :]
    assert origins.count("NeuLig (supervised), ViT, 7 experts<") == 1
    assert "Original experts" not in origins


def test_the_made_up_suite_has_all_pools():
    sheets = build_sheets(one for one in collaboration_rows() if isinstance(one, Row))
    assert [len(sheet.blocks) - 1 for sheet in sheets if is_level_sheet(sheet)] == [5, 7, 5]
    assert [block.key for block in largest(sheets).blocks] == [*TASKS, "average"]
