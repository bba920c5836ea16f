"""Merging and ensembling over epochs and data, as tables and figures; and lines that analyses left."""

import csv
import io
import json

import pytest

from made_up_levels import curve, lines_content
from made_up_suite import row
from smelt.errors import CorruptFile
from smelt.recipe.schema import DataBudget
from smelt.reporting.analyses import read_analyses
from smelt.reporting.figures.charts import line_figure
from smelt.reporting.figures.curves import scale_curves
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_markdown import as_markdown
from smelt.suites.collaboration.report.pages import CollaborationPages
from smelt.suites.collaboration.report.series import level_curves, series_figures, series_sheets


def epochs(entry="neulig-semi-original", label="Original experts", part="ViT, 2 experts", more=0):
    rows = []
    for epoch, (photos, digits) in {1: (50, 70), 2: (60, 80), 10: (70, 90)}.items():
        for task, right in (("photos", photos + more), ("digits", digits + more)):
            rows += curve(entry, task, right, right + 4, {"epoch": epoch}, 100, part, label=label)
    return rows


def fractions():
    at = {0.01: (40, 60), 0.1: (60, 60), 1: (80, 80)}
    return [
        one
        for fraction, (merged, ensembled) in at.items()
        for one in curve("neulig-semi", "photos", merged, ensembled, {"fraction": fraction}, 100, label="NeuLig")
    ]


def test_epochs_stand_across_and_levels_below_each_other():
    (sheet,) = series_sheets([*epochs(), *epochs("neulig-semi-transferred", "Other experts", more=-10)])
    assert (sheet.title, sheet.axis) == ("Over the epochs", "epoch")
    assert as_markdown([sheet]).splitlines()[2:8] == [
        "| Method | 1 | 2 | 10 |",
        "| --- | ---: | ---: | ---: |",
        "| Original experts (Mer.) | 60.0 | 70.0 | 80.0 |",
        "| Original experts (Ens.) | 64.0 | 74.0 | 84.0 |",
        "| Other experts (Mer.) | 50.0 | 60.0 | 70.0 |",
        "| Other experts (Ens.) | 54.0 | 64.0 | 74.0 |",
    ]


def test_fractions_have_a_table_of_their_own():
    sheets = series_sheets([*fractions(), *epochs()])
    assert [sheet.axis for sheet in sheets] == ["epoch", "fraction"]
    assert sheets[1].blocks[0].grid.tasks == ("0.01", "0.1", "1")
    assert "| NeuLig (Ens.) | 60.0 | 60.0 | 80.0 |" in as_markdown(sheets)
    assert "bold" not in as_markdown(sheets)


def test_pools_are_told_apart_where_there_are_several():
    one, other = epochs(part="ViT, 2 experts"), epochs(part="Convolutional, 2 experts")
    (sheet,) = series_sheets([*one, *other])
    assert [line.label for line in sheet.lines][::2] == [
        "Original experts, ViT, 2 experts",
        "Original experts, Convolutional, 2 experts",
    ]
    assert "ViT, 2 experts." in series_sheets(one)[0].about


def test_a_point_that_lacks_a_task_is_left_out():
    rows = [one for one in epochs() if (one.setting["epoch"], one.task, one.level) != (2, "digits", "merged")]
    (found,) = level_curves(rows, "epoch")
    assert {level: list(points) for level, points in found.points.items()} == {
        "merged": [1.0, 10.0],
        "ensembled": [1.0, 2.0, 10.0],
    }
    assert "| Original experts (Mer.) | 60.0 | – | 80.0 |" in as_markdown(series_sheets(rows))


def test_one_point_is_no_series():
    assert series_sheets([one for one in epochs() if one.setting["epoch"] == 1]) == []


def test_scale_curves_and_series_keep_apart():
    scales = [
        row("ties", "photos", 10, 100, variant="curve", split="val", setting={"scale": scale}) for scale in (0.1, 0.2)
    ]
    odd = [one.model_copy(update={"setting": {**one.setting, "scale": one.setting["epoch"]}}) for one in epochs()]
    assert [one.entry for one in scale_curves(CollaborationPages().plain_rows([*scales, *odd]))] == ["ties"]
    assert [one.entry for one in level_curves([*scales, *odd], "epoch")] == ["neulig-semi-original"]
    without = [one.model_copy(update={"level": None}) for one in epochs()]
    assert level_curves(without, "epoch") == []


def test_csv_says_where_on_the_axis():
    lines = list(csv.DictReader(io.StringIO(as_csv(series_sheets([*epochs(), *fractions()])))))
    found = {(one["block"], one["setting"], one["level"]): float(one["accuracy"]) for one in lines}
    assert found["epoch", '{"epoch": 2}', "ensembled"] == pytest.approx(0.74)
    assert found["fraction", '{"fraction": 0.01}', "merged"] == pytest.approx(0.4)
    assert {one["task"] for one in lines} == {"average"}
    assert {one["part"] for one in lines} == {"ViT, 2 experts", "ViT, 7 experts"}


def test_csv_gives_every_share_of_the_data_its_own_budget():
    rows = [
        one.model_copy(update={"data_budget": DataBudget(split="train", images=round(1000 * one.setting["fraction"]))})
        for one in fractions()
    ]
    lines = csv.DictReader(io.StringIO(as_csv(series_sheets(rows))))
    assert [one["data_images"] for one in lines if one["level"] == "merged"] == ["10", "100", "1000"]


def test_a_series_says_its_data_and_is_loud_about_the_test():
    budget = DataBudget(split="test", images=9)
    (sheet,) = series_sheets([one.model_copy(update={"data_budget": budget}) for one in fractions()])
    assert "NeuLig (Mer.; 9 unlabelled test pictures; ADAPTED ON THE VERY TEST PICTURES)" in as_markdown([sheet])


def test_every_entry_has_a_chart_with_a_line_for_either_level():
    first, second = series_figures([*epochs(), *epochs("neulig-semi-transferred", "Other experts"), *fractions()])
    assert [chart.title for chart in first.charts] == [
        "Original experts, ViT, 2 experts",
        "Other experts, ViT, 2 experts",
    ]
    assert [chart.drawing.count("<polyline") for chart in first.charts] == [2, 2]
    assert [name for name, _ in first.keys] == ["Mer.", "Ens."]
    assert second.title == "With less data"


def written(folder, content, name="lines-vit"):
    (folder / f"{name}.json").write_text(json.dumps(content))
    return read_analyses(folder)


def test_any_file_of_lines_is_drawn(tmp_path):
    written(tmp_path, lines_content({"expert-photos": [0.1, 0.5], "expert-digits": [0.2, None]}))
    found = written(tmp_path, lines_content({"a": [-1.0, 1.0]}, title=""), "lines-conv").lines
    assert [one.title for one in found] == ["conv", "Diagonal, ViT"]
    assert found[1].lines == {"photos": (0.1, 0.5), "digits": (0.2, None)}
    figure = line_figure(found[1])
    assert figure.note == "All. Diagonal of the CoopVec Map against epoch."
    assert [name for name, _ in figure.keys] == ["photos", "digits"]
    assert figure.charts[0].drawing.count("<polyline") == 2
    assert "<title>photos</title>" in figure.charts[0].drawing


def test_more_lines_than_colours_get_a_chart_each(tmp_path):
    found = written(tmp_path, lines_content({f"x{n}": [0.1, 0.2] for n in range(9)})).lines[0]
    figure = line_figure(found)
    assert [chart.title for chart in figure.charts] == [f"x{n}" for n in range(9)]
    assert figure.keys == ()
    assert figure.charts[0].drawing.count('class="ghost"') == 8


def test_one_place_on_the_axis_can_be_drawn(tmp_path):
    assert line_figure(written(tmp_path, lines_content({"a": [0.5]})).lines[0]).charts


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": [0]}, "'a' should have 1 numbers"),
        ({"x": [1, 0]}, "in rising order"),
        ({"x": [0, 0]}, "in rising order"),
        ({"x": [0, None]}, "in rising order"),
        ({"x": [0, "one"]}, "'one' is not a number"),
        ({"x": 3}, "a list `x` and a table `lines`"),
        ({"lines": {}}, "a list `x` and a table `lines`"),
        ({"lines": {"a": [0, "b"]}}, "'b' is not a number"),
    ],
)
def test_lines_that_are_none_are_refused(tmp_path, changes, words):
    with pytest.raises(CorruptFile, match=r"lines-vit\.json") as caught:
        written(tmp_path, lines_content({"a": [0.1, 0.2]}, **changes))
    assert words in str(caught.value)
