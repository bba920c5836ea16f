import csv
import io
import json
import math

import pytest

from made_up_language import PLAN, all_sheets, language_rows, paid, scored, write_language
from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.layout import transposed_rows
from smelt.suites.language.published import mergebench
from smelt.suites.language.report.analyses import Language, read_language
from smelt.suites.language.report.lines import ratio_cell
from smelt.suites.language.report.tables import GENERAL, language_sheets, paper_sheets, sheet_of

TWO = Language(
    {"maths": ("maths", "maths-stories"), "safety": ("safety",)},
    ("general-boolq",),
    {"maths": "expert-maths", "safety": "expert-safety"},
    "pretrained",
    None,
    ("average", "ties"),
)


@pytest.fixture
def rows():
    """Experts: maths (80 + 40) / 2 = 60, safety 50. Average: maths (40 + 20) / 2 = 30, safety 50. TIES: 60 and 30."""
    scores = {
        "pretrained": (20, 10, 20, 50),
        "average": (40, 20, 50, 45),
        "ties": (70, 50, 30, 60),
    }
    tasks = ("maths", "maths-stories", "safety", "general-boolq")
    found = [
        scored(entry, task, value) for entry, own in scores.items() for task, value in zip(tasks, own, strict=True)
    ]
    found += [scored("expert-maths", "maths", 80), scored("expert-maths", "maths-stories", 40)]
    return [*found, scored("expert-safety", "safety", 50), scored("expert-safety", "maths", 5)]


def numbers(sheet, label):
    return next(row.numbers for _, block in transposed_rows(sheet) for row in block if row.label == label)


def values(sheet, label):
    return [None if one is None else round(one.value, 6) for one in numbers(sheet, label)]


def test_a_domain_is_the_mean_over_its_tasks(rows):
    sheet = language_sheets(rows, TWO)[0]
    assert [line.short for line in sheet.lines] == ["Base", "Model soup", "TIES", "Experts"]
    assert values(sheet, "Math") == [0.15, 0.3, 0.6, 0.6]
    assert values(sheet, "Safety") == [0.2, 0.5, 0.3, 0.5]
    assert values(sheet, "Avg. Acc") == [0.175, 0.4, 0.45, 0.55]


def test_normalised_is_the_mean_over_domains_of_score_over_expert(rows):
    sheet = language_sheets(rows, TWO)[0]
    # base (15/60 + 20/50) / 2; average (30/60 + 50/50) / 2; ties (60/60 + 30/50) / 2
    assert values(sheet, "Avg. Norm") == [0.325, 0.75, 0.8, 1.0]


def test_generalisation_is_divided_by_the_base(rows):
    sheet = sheet_of(language_sheets(rows, TWO), GENERAL)
    assert values(sheet, "Avg. Norm") == [1.0, 0.9, 1.2]
    assert "Experts" not in [line.short for line in sheet.lines]


def test_the_interval_of_a_mean_of_ratios_combines_the_tasks_own():
    cells = [Cell(0.3, 0.27, 0.36, 100), Cell(0.5, 0.46, 0.53, 100)]
    found = ratio_cell(cells, [Cell(0.6, 0.5, 0.7, 100), Cell(0.5, 0.4, 0.6, 100)])
    assert found.accuracy == pytest.approx(0.75)
    assert found.low == pytest.approx(0.75 - math.hypot(0.05, 0.08) / 2)
    assert found.high == pytest.approx(0.75 + math.hypot(0.10, 0.06) / 2)


def test_a_missing_task_or_a_divisor_of_zero_leaves_the_mean_unknown(rows):
    cell = Cell(0.5, 0.4, 0.6, 10)
    assert ratio_cell([cell, None], [cell, cell]) is None
    assert ratio_cell([cell], [Cell(0.0, 0.0, 0.1, 10)]) is None
    short = [row for row in rows if (row.entry, row.task) != ("ties", "maths-stories")]
    sheet = language_sheets(short, TWO)[0]
    assert values(sheet, "Math") == [0.15, 0.3, None, 0.6]
    assert values(sheet, "Avg. Norm") == [0.325, 0.75, None, 1.0]


def test_every_task_says_its_metric_and_how_many_examples(rows):
    _, tasks, _ = language_sheets(rows, TWO)
    assert tasks.blocks[0].grid.notes == ("exact match, n = 100", "accuracy, n = 100", "accuracy, n = 100")
    interval = numbers(tasks, "maths")[1].interval
    assert interval == pytest.approx((0.309, 0.498), abs=0.001)
    assert numbers(tasks, "maths")[1].text == "40.0 % (95 % interval 30.9 to 49.8), 40 of 100 right"


def test_places_are_for_methods_and_not_for_base_or_experts(rows):
    sheet = language_sheets(rows, TWO)[0]
    assert [one.rank for one in numbers(sheet, "Math")] == [0, 2, 1, 0]
    assert [one.rank for one in numbers(sheet, "Safety")] == [0, 1, 2, 0]


def test_markdown_is_laid_out_as_the_papers_tables(rows):
    assert as_markdown(language_sheets(rows, TWO)).splitlines()[:8] == [
        "**Per domain**",
        "",
        "| Domain | Base | Model soup | TIES | Experts |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| Math | 15.0 | <u>30.0</u> | **60.0** | 60.0 |",
        "| Safety | 20.0 | **50.0** | <u>30.0</u> | 50.0 |",
        "| **Avg. Acc** | 17.5 | <u>40.0</u> | **45.0** | 55.0 |",
        "| **Avg. Norm** | 32.5 | <u>75.0</u> | **80.0** | 100.0 |",
    ]


def test_latex_has_a_rule_above_the_means(rows):
    lines = as_latex(language_sheets(rows, TWO)).splitlines()
    at = lines.index(r"Avg. Acc & 17.5 & \underline{40.0} & \textbf{45.0} & 55.0 \\")
    assert lines[at - 1] == r"\midrule"
    assert r"Domain & Base & Model soup & TIES & Experts \\" in lines


def test_csv_has_every_interval_and_says_what_is_the_papers(rows):
    sheets = all_sheets(rows, TWO)
    found = list(csv.DictReader(io.StringIO(as_csv(sheets))))
    ties = {(one["block"], one["task"]): one for one in found if one["entry"] == "ties"}
    assert float(ties["domains", "normalised average"]["accuracy"]) == pytest.approx(0.8)
    assert float(ties["domains", "normalised average"]["low"]) < 0.8
    assert ties["tasks", "maths"]["metric"] == "exact_match"
    assert ("tasks", "average") not in ties
    theirs = ties["paper table 8", "Gemma-2-9b"]
    assert (float(theirs["accuracy"]), theirs["low"], theirs["n"], theirs["split"]) == (0.921, "", "", "paper")


def test_our_line_stands_above_the_papers_and_is_not_mixed_into_it(rows):
    sheets = language_sheets(rows, TWO)
    eight, nine = paper_sheets(sheets, rows, TWO)
    (ours, mine), (theirs, printed) = transposed_rows(eight)
    assert ours == "This run"
    assert "arXiv:2505.10833" in theirs
    assert [row.label for row in mine] == ["SmolLM2-135M-Instruct"]
    assert len(printed) == 9
    assert printed[-1].label == "Overall, of the paper"
    assert [line.entry for line in eight.lines] == ["average", "ties"]
    assert [one.value for one in printed[-1].numbers] == [0.831, 0.848]
    assert printed[-1].numbers[0].interval is None
    assert [line.entry for line in nine.lines] == ["average", "ties"]
    assert values(nine, "SmolLM2-135M-Instruct") == [0.9, 1.2]


def test_the_papers_overall_is_the_mean_of_its_eight_lines():
    paper = mergebench()
    for table in (paper.multitask, paper.generalisation):
        assert set(table.overall) == set(paper.methods)
        assert list(table.lines) == list(paper.bases)
        for method, overall in table.overall.items():
            mean = sum(line[method] for line in table.lines.values()) / 8
            # two columns of the paper's last lines were rounded from more digits than its tables show
            assert mean == pytest.approx(overall, abs=0.11)


def test_training_data_is_called_examples(rows):
    budget = {"split": "train", "images": 1000, "labels": 1000}
    more = [scored("regmean", "maths", 50, data_budget=budget), scored("regmean", "safety", 50, data_budget=budget)]
    sheet = language_sheets([*rows, *more], TWO)[0]
    line = next(line for line in sheet.lines if line.entry == "regmean")
    assert (line.group, line.data) == ("data-driven", "1,000 labelled train examples")
    assert "RegMean (tuned; 1,000 labelled train examples)" in sheet.made


def test_the_plan_of_a_suite_is_read_and_its_faults_are_named(tmp_path):
    assert read_language(tmp_path) is None
    path = tmp_path / "language.json"
    path.write_text(json.dumps(PLAN))
    found = read_language(tmp_path)
    assert found.tasks[:2] == ("instruction", "instruction-unseen")
    assert found.experts["maths"] == "expert-maths"
    path.write_text(json.dumps({**PLAN, "experts": {"maths": "expert-maths"}}))
    with pytest.raises(CorruptFile, match="same domains; only one of them has coding"):
        read_language(tmp_path)
    path.write_text(json.dumps({**PLAN, "domains": {}}))
    with pytest.raises(CorruptFile, match="`domains` should be a table"):
        read_language(tmp_path)


def test_a_whole_run_has_five_tables(tmp_path):
    folder = write_language(tmp_path / "llm5")
    plan = read_language(folder / "analyses")
    found = language_rows()
    sheets = all_sheets([one for one in found if isinstance(one, Row)], plan)
    assert [sheet.title[:20] for sheet in sheets] == [
        "Per domain",
        "Per task",
        "General tasks",
        "Normalised multi-tas",
        "Normalised generalis",
    ]
    assert paid("ties", 1.0).validate_seconds == 0
