"""Printed tables beside ours."""

import json

import pytest

import smelt
from made_up_suite import row, suite_rows, write_suite
from smelt.errors import CorruptFile
from smelt.reporting.published import PublishedTable, compared

TABLE = {
    "source": "A paper",
    "table": "Table 3",
    "title": "Two tasks",
    "columns": ["photos", "digits"],
    "lines": {
        "ties": {"label": "TIES-Merging", "values": [40.0, 61.5, 50.8]},
        "experts": {"label": "Individual", "values": [90.0, 80.0, 85.0]},
        "elsewhere": {"label": "Not ours", "values": [1.0, None, 1.0]},
    },
    "notes": ["The printed average is rounded up."],
}
ROWS = [
    row("ties", "photos", 500, 1000, variant="published"),
    row("ties", "digits", 600, 1000, variant="published"),
    row("ties", "digits", 900, 1000, variant="tuned"),
    row("expert-photos", "photos", 800, 1000, variant="reference"),
    row("expert-digits", "photos", 10, 1000, variant="reference"),
]


def numbers(line):
    return [(cell.ours, cell.theirs) for cell in line.cells]


def test_ours_stand_beside_the_printed_numbers_cell_by_cell():
    ties, experts, other = compared(PublishedTable.model_validate(TABLE), ROWS).lines
    assert numbers(ties) == [(50.0, 40.0), (60.0, 61.5), (55.0, 50.8)]
    assert [cell.difference for cell in ties.cells] == pytest.approx([10.0, -1.5, 4.2])
    assert numbers(experts) == [(80.0, 90.0), (None, 80.0), (None, 85.0)]
    assert numbers(other) == [(None, 1.0), (None, None), (None, 1.0)]


def test_a_line_may_be_about_tuned_settings():
    table = TABLE | {"lines": {"t": {"label": "Tuned", "entry": "ties", "variant": "tuned", "values": [1, 2, 3]}}}
    (line,) = compared(PublishedTable.model_validate(table), ROWS).lines
    assert numbers(line) == [(None, 1), (90.0, 2), (None, 3)]


def test_a_kind_of_corruption_is_the_mean_over_its_severities():
    rows = [row("ties", "photos", n, 100, corruption=f"blur@{s}") for s, n in ((1, 80), (2, 40))]
    table = TABLE | {"columns": ["photos"], "average": False, "lines": {"ties": {"label": "TIES", "values": [60.0]}}}
    shown = [
        compared(PublishedTable.model_validate(table | {"corruption": one}), rows).lines[0].cells[0].ours
        for one in ("blur", "blur@2", "noise")
    ]
    assert shown == [pytest.approx(60.0), 40.0, None]


def test_a_line_without_a_number_for_each_column_is_refused():
    with pytest.raises(ValueError, match=r"lines.ties: 2 values, 3 are wanted"):
        PublishedTable.model_validate(TABLE | {"lines": {"ties": {"label": "TIES", "values": [1.0, 2.0]}}})


def test_the_page_has_the_printed_tables(tmp_path):
    folder = write_suite(tmp_path / "run", suite_rows())
    (folder / "analyses" / "published.json").write_text(json.dumps({"tables": [TABLE]}))
    page = smelt.report(folder).read_text()
    for words in ("Beside the published numbers", "Table 3: Two tasks", "TIES-Merging", "rounded up"):
        assert words in page


def test_a_damaged_file_is_refused_by_name(tmp_path):
    folder = write_suite(tmp_path / "run", suite_rows())
    (folder / "analyses" / "published.json").write_text(json.dumps({"tables": [{"table": 3}]}))
    with pytest.raises(CorruptFile, match=r"published\.json"):
        smelt.report(folder)
