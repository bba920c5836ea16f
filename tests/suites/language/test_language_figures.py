import re

import pytest
from test_language_tables import TWO

from made_up_language import LANGUAGE, all_sheets, language_rows, paid, scored, write_language
from smelt.evaluation.row import CostRow, Row
from smelt.reporting.draw.scatter import Dot, scatter
from smelt.reporting.order import PublishedOrder, order_beside
from smelt.reporting.tables.cells import Cell
from smelt.suites.language.report.analyses import read_language
from smelt.suites.language.report.figures import (
    log_ticks,
    performance_against_time,
    time_bars,
    times,
    trade_off,
)
from smelt.suites.language.report.headline import language_sentences, language_tiles
from smelt.suites.language.report.standing import Standing, difference, ranked, standings, tuning
from smelt.suites.language.report.tables import language_sheets
from smelt.suites.order import OrderOf
from smelt.suites.report import report


@pytest.fixture
def whole(tmp_path):
    plan = read_language(write_language(tmp_path / "llm5") / "analyses")
    found = language_rows()
    rows = [one for one in found if isinstance(one, Row)]
    costs = [one for one in found if isinstance(one, CostRow)]
    return rows, costs, all_sheets(rows, plan), plan


def standing(entry, value, half=0.01, kept=0.95, cost=None, kind="method"):
    cells = [Cell(one, one - half, one + half, 100) for one in (value, kept)]
    return Standing(entry, "tuned", entry, entry, kind, cells[0], cells[1], None, cost)


def test_algorithm_time_is_preparing_and_one_merge_and_validation_is_apart():
    one = standing("ties", 0.8, cost=paid("ties", 4.0, 30, 1200.0, prepare=6.0))
    assert one.algorithm_seconds == 10.0
    assert one.total_seconds == 1210.0


def test_the_best_comes_first_and_references_take_no_place(whole):
    _, costs, sheets, plan = whole
    found = standings(sheets, costs, plan)
    assert [one.kind for one in found][:2] == ["base", "method"]
    best = ranked(found)
    assert best[0].entry == "localize"
    assert all(one.kind == "method" for one in best)
    assert len(best) == 9


def test_a_difference_is_sure_where_its_interval_leaves_out_zero():
    near = difference(Cell(0.80, 0.76, 0.84, 9), Cell(0.76, 0.73, 0.79, 9))
    assert (near.low, near.high) == pytest.approx((0.04 - 0.05, 0.04 + 0.05))
    assert not near.sure
    assert difference(Cell(0.90, 0.86, 0.94, 9), Cell(0.76, 0.73, 0.79, 9)).sure


def test_every_method_has_its_point_in_the_trade_off():
    found = [standing("TIES", 0.8), standing("Base", 0.5, kind="base"), standing("Both", 0.9, kind="multitask")]
    text = str(trade_off(found))
    assert [text.count(f"dot {kind}") for kind in ("method", "base", "multitask")] == [1, 1, 1]
    assert "TIES: 80.0 % (79.0 to 81.0) of the experts, 95.0 % (94.0 to 96.0) of the base on general tasks" in text
    assert trade_off([standing("Base", 0.5, kind="base")]) is None


def test_times_have_bars_on_a_logarithmic_axis():
    assert [text for _, text in log_ticks([2.0, 500.0])] == ["1 s", "10 s", "1 min", "10 min"]
    text = str(time_bars("TIES", 1.0, 10.0, log_ticks([1.0, 100.0])))
    widths = [float(one) for one in re.findall(r'width="([\d.]+)%" height="8"', text)]
    # 10 s of an axis from 1 s to 10 min: log10(10) / log10(600) of the way; 1 s lies at its start and stays visible
    assert widths == [0.5, pytest.approx(35.99, abs=0.01)]


def test_time_and_memory_are_data_before_they_are_drawn():
    found = times([standing("ties", 0.8, cost=paid("ties", 4.0, 30, 1200.0, peak=500)), standing("average", 0.7)])
    ((one, _, share),) = found.lines
    assert (one.entry, share) == ("ties", 1.0)
    assert found.where == "cpu, cuda"
    assert times([standing("average", 0.7)]) is None
    assert performance_against_time([standing("average", 0.7)]) is None


def test_names_in_a_scatter_do_not_hide_each_other():
    dots = [Dot(f"method {n}", 0.5 + n / 500, 0.5 + n / 500, "method", "") for n in range(4)]
    ticks = [(0.0, "0"), (1.0, "1")]
    text = str(scatter("t", dots, x=(0, 1), y=(0, 1), x_ticks=ticks, y_ticks=ticks, labels=("x", "y")))
    places = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" class="name"', text)
    assert len(set(places)) == 4


def test_trials_are_counted_and_spread(whole):
    rows, _, sheets, _ = whole
    found = {one.name: one for one in tuning(rows, sheets)}
    assert (found["TIES"].trials, found["Model soup"].trials) == (30, 0)
    assert found["TIES"].best >= found["TIES"].middle >= found["TIES"].worst
    assert found["Model soup"].best is None


def test_the_headline_says_who_is_best_how_surely_and_what_is_forgotten():
    tasks = ("maths", "maths-stories", "safety", "general-boolq")
    scores = {"pretrained": (20, 20, 20, 50), "average": (30, 30, 30, 45), "ties": (70, 50, 45, 40)}
    rows = [scored(e, t, 10 * v, 1000) for e, own in scores.items() for t, v in zip(tasks, own, strict=True)]
    rows += [scored("expert-maths", "maths", 800, 1000), scored("expert-maths", "maths-stories", 400, 1000)]
    rows += [scored("expert-safety", "safety", 500, 1000)]
    sheets = language_sheets(rows, TWO)
    said = " ".join(language_sentences(rows, [], sheets, TWO))
    assert "2 specialists of SmolLM2-135M-Instruct became one model by 2 methods." in said
    assert "3,000 test examples of 3 tasks in 2 domains, and 1,000 examples of 1 general task" in said
    # ties: (60/60 + 45/50) / 2 = 95 %; average: (30/60 + 30/50) / 2 = 55 %
    assert "TIES, keeps 95.0 % of the experts' performance" in said
    assert "40.0 points above Model Soup (55.0 %)" in said
    assert "leaves out zero" in said
    assert "TIES keeps 80.0 % of the base model's score; most is kept by Model Soup (90.0 %)" in said
    assert "Kendall" not in said
    tiles = {tile.title: tile.text for tile in language_tiles([], sheets, TWO)}
    assert tiles == {"Best method": "95.0", "General ability kept": "80.0", "Before merging": "36.7"}


def test_the_headline_and_a_tile_say_how_far_the_order_is_the_papers():
    tasks = {"maths": ("maths", "maths-stories"), "safety": ("safety",)}
    scores = {"average": 30, "ties": 40, "task_arithmetic": 50, "expert-maths": 80, "expert-safety": 80}
    rows = [scored(entry, task, 10 * v, 1000) for entry, v in scores.items() for own in tasks.values() for task in own]
    table = OrderOf(table="mergebench-table-8").table_of(LANGUAGE / "published")
    order = order_beside(PublishedOrder(table=table, groups=tasks), rows)
    # the paper's overall line has the same three in the same order: 83.1, 84.8, 87.2
    assert order.agreement.kendall == 1.0
    sheets = language_sheets(rows, TWO)
    said = " ".join(language_sentences(rows, [], sheets, TWO, order))
    assert "The order of the 3 methods beside the paper's overall order (its Table 8): Kendall's tau 1.00 (95 %" in said
    (tile,) = (tile for tile in language_tiles([], sheets, TWO, order) if tile.title == "Order")
    assert (tile.text, "95 % interval 1.00 to 1.00" in tile.below) == ("1.00", True)


def test_the_page_has_every_section_and_no_picture(tmp_path, whole):
    text = report(tmp_path / "llm5").read_text()
    for part in ("results", "trade-off", "times", "tuning", "methods", "order", "reproduce"):
        assert f'id="{part}"' in text
    assert "The paper&#39;s own numbers: MergeBench" in text
    assert "picture" not in re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S)
    assert (tmp_path / "llm5" / "table.md").read_text().startswith("**Per domain**")


@pytest.mark.parametrize("entries", [("pretrained",), ("pretrained", "ties", "average"), ("ties",)])
def test_a_run_that_has_just_begun_has_its_page_too(tmp_path, entries):
    rows = [one for one in language_rows() if one.entry in entries]
    text = report(write_language(tmp_path / "begun", rows)).read_text()
    assert ("are not merged yet" in text) == (entries == ("pretrained",))
    assert ("The experts were not measured" in text) == ("ties" in entries)
