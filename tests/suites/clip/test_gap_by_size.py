"""The share of the gap that methods close, in families of several sizes: rows, interval, table, sentences, drawing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_up_suite import row as made_row
from smelt.reporting.published import PublishedTable
from smelt.reporting.tables.cells import Cell
from smelt.suites.clip.family_note import FamilyNote
from smelt.suites.clip.report.gap import GapRow, closed_share, family_order, gap_rows, gap_share, published_shares
from smelt.suites.clip.report.gap_figure import gap_figure
from smelt.suites.clip.report.gap_words import gap_sentences, gap_table, millions


def cell(value: float, off: float) -> Cell:
    return Cell(value, value - off, value + off, 100)


def row(family: str, method: str, share: float, off: float = 0.1, *, size: int = 0, rn: bool = False) -> GapRow:
    sizes = {"small": 1_000_000, "large": 10_000_000, "rn": 2_000_000}
    means = (size or sizes[family], rn or family == "rn", 0.5, 0.9)
    return GapRow(family, *means, method, method.upper(), share, share - off, share + off)


def test_halfway_between_base_and_experts_is_a_share_of_one_half_with_the_ends_of_the_delta_method() -> None:
    """sqrt(0.12^2 + (0.5 * 0.06)^2 + (0.5 * 0.08)^2) = sqrt(0.0144 + 0.0009 + 0.0016) = 0.13; by 0.4 it is 0.325."""
    share = gap_share(cell(0.7, 0.12), cell(0.5, 0.06), cell(0.9, 0.08))
    assert share is not None
    assert (share.accuracy, share.low, share.high) == pytest.approx((0.5, 0.175, 0.825))


def test_at_the_experts_the_base_has_no_part_in_the_interval_and_at_the_base_the_experts_have_none() -> None:
    at_experts = gap_share(cell(0.9, 0.03), cell(0.5, 0.06), cell(0.9, 0.04))
    at_base = gap_share(cell(0.5, 0.03), cell(0.5, 0.04), cell(0.9, 0.06))
    assert at_experts is not None
    assert at_base is not None
    assert (at_experts.low, at_experts.high) == pytest.approx((1 - 0.125, 1 + 0.125))  # sqrt(0.03^2 + 0.04^2) / 0.4
    assert (at_base.low, at_base.high) == pytest.approx((-0.125, 0.125))


def test_each_end_of_an_interval_takes_the_ends_that_push_the_share_there() -> None:
    """Only the base is uncertain, and only upwards: 0.5 * 0.08 / 0.4 = 0.1 below, nothing above."""
    share = gap_share(cell(0.7, 0.0), Cell(0.5, 0.5, 0.58, 100), cell(0.9, 0.0))
    assert share is not None
    assert (share.low, share.high) == pytest.approx((0.4, 0.5))
    beyond = gap_share(cell(1.1, 0.0), Cell(0.5, 0.5, 0.58, 100), cell(0.9, 0.0))  # 1 - S = -0.5: it pushes upwards
    assert beyond is not None
    assert (beyond.low, beyond.high) == pytest.approx((1.5, 1.6))


def test_where_experts_are_no_better_than_the_base_there_is_no_share() -> None:
    assert closed_share(0.6, 0.5, 0.5) is None
    assert gap_share(cell(0.6, 0.1), cell(0.5, 0.1), cell(0.4, 0.1)) is None


def test_rows_of_a_folder_are_its_methods_at_their_published_settings() -> None:
    tasks = ("cars", "birds")
    rows = [made_row("pretrained", task, 1000, variant="reference") for task in tasks]
    rows += [made_row(f"expert-{task}", other, 1800, variant="reference") for task in tasks for other in tasks]
    rows += [made_row("ties", task, 1400) for task in tasks]
    rows += [made_row("ties", task, 1600, variant="tuned") for task in tasks]
    rows += [made_row("partial", "cars", 1400)]
    rows += [made_row("together", task, 1400, variant="reference", way="ensemble") for task in tasks]
    assert {one.n for one in rows} == {2000}
    (one,) = gap_rows(rows, FamilyNote(family="small", parameters=7))
    assert (one.family, one.parameters, one.method) == ("small", 7, "ties")
    assert (one.base, one.experts, one.share) == pytest.approx((0.5, 0.9, 0.5))
    assert one.low < 0.5 < one.high


def test_transformers_come_from_small_to_large_and_convolutional_families_last() -> None:
    rows = [row("rn", "a", 0.1), row("large", "a", 0.2), row("small", "a", 0.3), row("small", "b", 0.3)]
    assert [one.family for one in family_order(rows)] == ["small", "large", "rn"]


def test_the_table_has_a_dash_where_a_family_does_not_have_a_method() -> None:
    rows = [row("rn", "a", 0.1, 0.05), row("small", "a", 0.301, 0.05), row("small", "b", -0.2, 0.05)]
    assert gap_table(rows) == [
        ["", "small", "rn"],
        ["parameters of the vision tower", "1 M", "2 M"],
        ["base, %", "50.0", "50.0"],
        ["experts, %", "90.0", "90.0"],
        ["A", "30 (25 to 35)", "10 (5 to 15)"],
        ["B", "-20 (-25 to -15)", "–"],
    ]
    assert millions(2_326_784) == "2.33 M"


def test_sentences_name_the_best_of_each_family_and_count_what_grows_with_the_size() -> None:
    """a grows by 0.5, sqrt(2) * 0.1 is less; b grows by 0.05; c shrinks by 0.4."""
    shares = {"small": {"a": 0.2, "b": 0.3, "c": 0.6}, "large": {"a": 0.7, "b": 0.35, "c": 0.2}, "rn": {"a": -0.3}}
    rows = [row(family, method, share) for family, own in shares.items() for method, share in own.items()]
    assert gap_sentences(rows) == [
        "small: of 3 methods C closes most of the gap, 60 % (50 to 70).",
        "large: of 3 methods A closes most of the gap, 70 % (60 to 80).",
        "rn: of 1 method A closes most of the gap, -30 % (-40 to -20).",
        "2 of 3 methods close a larger share in large than in small, 1 of them by more than the 95 % interval of the "
        "difference; 1 of 3 close a smaller share by more than that.",
        "Below the base by more than chance in rn: A.",
    ]


def test_printed_averages_give_shares_by_the_same_formula_and_the_first_table_counts() -> None:
    lines = {name: {"label": name, "values": [0, value]} for name, value in (("pretrained", 50), ("experts", 90))}
    first = {**lines, "ties": {"label": "Ties", "values": [0, 70]}}
    again = {"ties": {"label": "Ties", "values": [0, 80]}, "wudi": {"label": "WUDI", "values": [0, 86]}}
    words = {"source": "a paper", "table": "1", "columns": ["cars"]}
    tables = [PublishedTable.model_validate({**words, "lines": one}) for one in (first, again)]
    assert published_shares(tables) == {"ties": 0.5, "wudi": 0.9}


def test_the_figure_joins_transformers_and_sets_a_resnet_apart() -> None:
    rows = [row(family, method, 0.4) for family in ("small", "large", "rn") for method in ("ties", "wudi", "other")]
    figure = gap_figure(rows)
    assert figure is not None
    assert figure.drawing.count("<polyline") == 3
    assert figure.drawing.count("<circle") == 4  # two methods in colour, two sizes
    assert figure.drawing.count("<rect") == 2
    assert "TIES, rn: 40.0 % (95 % interval 30.0 to 50.0)" in figure.drawing
    assert figure.keys == (("TIES", 2), ("WUDI", 6))
    assert figure.note.startswith("small 1 M, large 10 M, rn 2 M (squares). ")


def test_what_is_far_below_the_base_is_drawn_at_the_edge_and_said_to_be() -> None:
    rows = [row("small", "ties", 0.4), row("rn", "ties", -2.0)]
    figure = gap_figure(rows)
    assert figure is not None
    assert figure.note.endswith(" What lies lower than -25.0 % is drawn there: 1 share in all.")
    assert "TIES, rn: -200.0 %" in figure.drawing
    assert gap_figure([]) is None


def test_one_family_alone_is_a_figure_too() -> None:
    figure = gap_figure([replace(row("small", "ties", 0.4), parameters=840_000)])
    assert figure is not None
    assert "0.84 M" in figure.note


def test_a_folder_that_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    import runpy

    made = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "generators" / "clip8_sizes.py"))
    blocks = made["blocks"]({"clip-mini": tmp_path / "clip8-mini"})["results/clip8.md"]
    said = "clip-mini: Not measured yet: `smelt bench clip8 --family clip-mini -o results/clip8-mini --device cuda`."
    assert blocks["sizes"] == blocks["table-clip-mini"] == said
    assert blocks["sizes-papers"].splitlines()[0] == "|  | paper, ViT-B/32 | paper, ViT-B/16 | paper, ViT-L/14 |"
    assert made["files"]({"clip-mini": tmp_path / "clip8-mini"}) == {}
