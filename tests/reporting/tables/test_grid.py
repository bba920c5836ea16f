"""The table: which cells stand in which line, how they are averaged, who is best."""

import math

import pytest

from made_up_suite import row
from smelt.recipe.schema import DataBudget
from smelt.reporting.tables.cells import Cell, mean_cell, surely_above
from smelt.reporting.tables.grid import build_grid
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.ranks import with_ranks


def line(grid, entry, variant="published"):
    return next(m for m in grid.lines if (m.entry, m.variant) == (entry, variant))


def two_tasks(entry, photos, digits, **words):
    return [row(entry, "photos", photos, 100, **words), row(entry, "digits", digits, 100, **words)]


def experts(photos=80, digits=100):
    words = {"variant": "reference"}
    return [
        *two_tasks("expert-photos", photos, 10, **words),
        *two_tasks("expert-digits", 20, digits, **words),
    ]


def test_the_experts_line_takes_each_expert_on_its_own_task():
    grid = build_grid([*experts(80, 100), *two_tasks("ties", 40, 50)])
    assert [cell.accuracy for cell in grid.experts.cells] == [0.8, 1.0]
    assert grid.experts.average.accuracy == pytest.approx(0.9)


def test_the_normalised_average_is_the_mean_of_ratios_and_not_the_ratio_of_means():
    grid = build_grid([*experts(80, 100), *two_tasks("ties", 40, 100)])
    assert line(grid, "ties").normalised == pytest.approx((0.5 + 1.0) / 2)  # 0.7 / 0.9 = 0.78 would be the other
    assert grid.experts.normalised == 1.0


def test_without_experts_there_is_no_normalised_average():
    assert line(build_grid(two_tasks("ties", 40, 100)), "ties").normalised is None


def test_an_expert_that_gets_nothing_right_gives_no_ratio_instead_of_a_crash():
    assert line(build_grid([*experts(0, 100), *two_tasks("ties", 40, 100)]), "ties").normalised is None


def test_a_line_that_lacks_a_task_has_no_average():
    grid = build_grid([*two_tasks("ties", 40, 100), row("magmax", "photos", 99, 100)])
    assert line(grid, "magmax").cells[1] is None
    assert line(grid, "magmax").average is None
    assert [m.entry for m in grid.ranked] == ["ties"]


def test_one_average_is_surely_above_another_beyond_the_interval_of_their_difference():
    base = Cell(0.50, 0.40, 0.54, 1)  # 4 points upwards
    assert not surely_above(Cell(0.54, 0.51, 1.0, 1), base)  # 4 points above, of sqrt(3² + 4²) = 5
    assert surely_above(Cell(0.56, 0.53, 1.0, 1), base)
    assert not surely_above(base, Cell(0.56, 0.53, 1.0, 1))


def test_the_interval_of_an_average_shrinks_with_independent_tasks():
    cells = [Cell(0.5, 0.4, 0.6, 100), Cell(0.7, 0.6, 0.8, 100), Cell(0.5, 0.4, 0.6, 100), Cell(0.7, 0.6, 0.8, 100)]
    mean = mean_cell(cells)
    assert (mean.accuracy, mean.n) == (pytest.approx(0.6), 400)
    assert (mean.low, mean.high) == (pytest.approx(0.55), pytest.approx(0.65))  # 0.1 * sqrt(4) / 4


def test_best_and_second_are_marked_among_merges_only():
    rows = [*experts(), *two_tasks("ties", 60, 30), *two_tasks("magmax", 50, 50), *two_tasks("average", 40, 40)]
    grid = build_grid(rows)
    assert [cell.rank for cell in line(grid, "ties").cells] == [1, 0]
    assert [cell.rank for cell in line(grid, "magmax").cells] == [2, 1]
    assert [cell.rank for cell in line(grid, "average").cells] == [0, 2]
    assert [line(grid, name).average.rank for name in ("ties", "magmax", "average")] == [2, 1, 0]
    assert all(cell.rank == 0 for cell in grid.experts.cells)


def test_equal_merges_share_a_place():
    grid = build_grid([*two_tasks("ties", 60, 30), *two_tasks("magmax", 60, 20)])
    assert [line(grid, name).cells[0].rank for name in ("ties", "magmax")] == [1, 1]


def test_one_merge_alone_is_not_called_best():
    assert line(build_grid(two_tasks("ties", 60, 30)), "ties").cells[0].rank == 0


def test_a_tuned_line_follows_its_published_one_and_references_come_first():
    rows = [
        *two_tasks("ties", 60, 30, setting={"scale": 0.3}),
        *two_tasks("magmax", 60, 30),
        *two_tasks("ties", 61, 30, setting={"scale": 0.4}, variant="tuned"),
        *two_tasks("pretrained", 10, 10, variant="reference"),
    ]
    grid = build_grid(rows)
    assert [(m.entry, m.variant) for m in grid.lines] == [
        ("pretrained", "reference"),
        ("ties", "published"),
        ("ties", "tuned"),
        ("magmax", "published"),
    ]
    assert [title for title, _ in grid.groups()] == ["Reference", "Model merging (data-free)"]


def test_a_method_that_needs_pictures_has_a_group_of_its_own_and_its_tuned_line_too():
    budget = DataBudget(split="train", images=100)
    rows = [*two_tasks("fisher", 60, 30, data_budget=budget), *two_tasks("ties", 50, 30)]
    rows += two_tasks("fisher", 70, 30, variant="tuned", setting={"scale": 2.0})
    rows += two_tasks("ties", 51, 30, variant="tuned", data_budget=DataBudget(split="val", images=100, labels=100))
    groups = {title: [(m.entry, m.variant) for m in lines] for title, lines in build_grid(rows).groups()}
    assert groups == {
        "Model merging (data-free)": [("ties", "published"), ("ties", "tuned")],
        "Model merging (with data)": [("fisher", "published"), ("fisher", "tuned")],
    }


def test_mixtures_and_ensembles_have_groups_of_their_own_and_take_no_place():
    rows = [*two_tasks("ties", 60, 30), *two_tasks("average", 50, 40)]
    rows += two_tasks("wemoe", 90, 90, way="mix", data_budget=DataBudget(split="val", images=100))
    rows += two_tasks("wemoe", 91, 90, way="mix", variant="tuned", setting={"top": 2})
    rows += two_tasks("ensemble", 95, 95, way="ensemble", variant="reference")
    grid = build_grid([*experts(), *rows])
    assert [(title, [(m.entry, m.variant) for m in lines]) for title, lines in grid.groups()] == [
        ("Reference", [("experts", "reference")]),
        ("Model merging (data-free)", [("ties", "published"), ("average", "published")]),
        ("Model mixing", [("wemoe", "published"), ("wemoe", "tuned")]),
        ("Ensembles (reference: several models are run)", [("ensemble", "reference")]),
    ]
    assert [cell.rank for cell in line(grid, "ties").cells] == [1, 2]
    assert [cell.rank for cell in line(grid, "wemoe").cells] == [0, 0]
    assert {m.entry for m in grid.ranked} == {"ties", "average"}
    assert grid.base is None  # an ensemble is a reference, but nothing started from it


def test_a_number_that_is_not_whole_is_shown_and_takes_no_place():
    part = Cell(0.9, 0.8, 1.0, 10, whole=False)
    assert not mean_cell([part, Cell(0.5, 0.4, 0.6, 10)]).whole
    words = ("published", "", {}, "data-free")
    lines = [TableLine(name, *words, (cell,), (), cell) for name, cell in (("a", part), ("b", Cell(0.5, 0.4, 0.6, 10)))]
    assert [m.cells[0].rank for m in with_ranks(lines)] == [0, 1]


def test_curves_paths_and_validation_rows_stay_out_of_the_table():
    rows = [row("ties", "photos", 50, 100), row("ties", "photos", 90, 100, split="val")]
    rows += [row("ties", "photos", 91, 100, variant="curve"), row("path", "photos", 92, 100, variant="path")]
    grid = build_grid(rows)
    assert grid.split == "test"
    assert [cell.accuracy for m in grid.lines for cell in m.cells] == [0.5]


def test_a_cell_measured_twice_counts_as_measured_last():
    grid = build_grid([row("ties", "photos", 50, 100), row("ties", "photos", 55, 100)])
    assert [cell.accuracy for m in grid.lines for cell in m.cells] == [0.55]


def test_other_settings_and_other_seeds_are_other_lines():
    rows = [row("dare", "photos", 50, 100, seed=0), row("dare", "photos", 55, 100, seed=1)]
    rows.append(row("dare", "photos", 58, 100, setting={"density": 0.5}))
    assert len(build_grid(rows).lines) == 3


def test_tasks_keep_the_order_of_the_suite():
    assert build_grid(two_tasks("ties", 1, 2)).tasks == ("photos", "digits")


def test_no_rows_for_the_table_is_an_empty_table():
    grid = build_grid([row("ties", "photos", 1, 2, variant="curve", setting={"scale": 1.0})])
    assert (grid.lines, grid.tasks, grid.ranked, grid.base) == ((), (), [], None)


def test_an_average_of_nothing_is_nothing():
    assert mean_cell([]) is None
    assert not math.isnan(mean_cell([Cell(1.0, 1.0, 1.0, 1)]).low)


def test_the_table_says_on_which_split_the_tuned_lines_were_tuned_and_warns_of_its_own():
    def tuned_on(split):
        return build_grid([row("ties", "photos", 1, 2, variant="tuned", data_budget=DataBudget(split=split))]).tuned_on

    assert build_grid([row("ties", "photos", 1, 2)]).tuned_on == ""
    assert tuned_on("val") == "scale chosen on val pictures"
    assert tuned_on(None) == "scale chosen"
    assert "THE VERY SPLIT" in tuned_on("test")
    assert tuned_on("train, val") == "scale chosen on train and val pictures"
