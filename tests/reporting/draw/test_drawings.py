"""Drawings: where things lie, and that no text escapes its element."""

import xml.etree.ElementTree as ET

import pytest

from made_up_suite import analysis_data, row, suite_rows
from smelt.evaluation.row import Row
from smelt.reporting.analyses import LayerNorms
from smelt.reporting.draw.axis import Axis, log_ticks, round_ticks, span
from smelt.reporting.draw.panel import Marker, Stroke, panel
from smelt.reporting.draw.radar import radar
from smelt.reporting.draw.svg import tag
from smelt.reporting.draw.tracks import task_bars
from smelt.reporting.figures.charts import norm_charts
from smelt.reporting.figures.comparison import task_series
from smelt.reporting.figures.curves import MethodCurve, curve_charts
from smelt.reporting.figures.paths import interpolation_paths, path_charts
from smelt.reporting.tables.grid import build_grid
from smelt.reporting.words import short_layer

ROWS = [one for one in suite_rows() if isinstance(one, Row)]


def test_an_axis_maps_its_ends_to_its_ends():
    axis = Axis(0.2, 0.6, 100.0, 0.0)
    assert [axis.at(value) for value in (0.2, 0.4, 0.6)] == pytest.approx([100, 50, 0])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1, [0, 0.5, 1]), (0.38, 0.93, [0.4, 0.6, 0.8]), (-0.01, 0.04, [0.0, 0.02, 0.04]), (3, 1200, [500, 1000])],
)
def test_ticks_are_round_and_few(low, high, ticks):
    assert round_ticks(low, high, 4) == pytest.approx(ticks)


def test_ticks_of_a_logarithmic_axis_are_ones_twos_and_fives_at_their_logarithms():
    assert [number for _, number in log_ticks(0.8, 12)] == [1, 2, 5, 10]
    assert [place for place, _ in log_ticks(8, 120)] == pytest.approx([1, 1.30103, 1.69897, 2])


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5], [0.0, 0.0], [float("nan"), 1.0]])
def test_a_range_is_never_empty(values):
    low, high = span(values)
    assert low < high
    assert round_ticks(low, high)


def test_attributes_and_texts_are_escaped():
    drawn = tag("text", '<b>&"', x=1.0, class_='"><script>', stroke_width=None)
    assert str(drawn) == '<text x="1" class="&#34;&gt;&lt;script&gt;">&lt;b&gt;&amp;&#34;</text>'


def test_a_panel_lays_its_own_line_over_the_grey_ones_and_marks_the_point():
    drawing = panel(
        "a title",
        [Stroke("mine", [(0, 0), (1, 1)], "focus"), Stroke("other", [(0, 1), (1, 0)], "ghost")],
        x=(0, 1),
        y=(0, 1),
        x_ticks=[(0, "0"), (1, "1")],
        y_ticks=[(0, "0")],
        marks=[Marker((1, 1), "published", "here")],
    )
    root = ET.fromstring(drawing)
    lines = root.findall("polyline")
    assert [line.get("class") for line in lines] == ["ghost", "focus"]
    assert lines[1].get("points") == "30.0,118.0 194.0,8.0"
    ring = root.find("circle")
    assert (ring.get("cx"), ring.get("cy"), ring.find("title").text) == ("194", "8", "here")
    assert root.find("title").text == "a title"


def test_the_first_corner_of_a_radar_points_up_and_a_full_score_reaches_the_rim():
    tasks = ["photos", "digits", "emoji"]
    grid = build_grid([row("ties", t, c, 100) for t, c in zip(tasks, (100, 50, 0), strict=True)])
    root = ET.fromstring(radar("r", grid.tasks, task_series(grid)))
    outline = root.find("g[@class='series merge']/polygon").get("points").split()
    assert outline[0] == "180.0,36.0"
    assert outline[2] == "180.0,158.0"


def test_a_model_that_lacks_a_task_is_not_on_the_radar_but_keeps_its_bars():
    rows = [row("ties", t, 50, 100) for t in ("a", "b", "c")] + [row("magmax", "a", 60, 100)]
    grid = build_grid(rows)
    series = task_series(grid)
    assert str(radar("r", grid.tasks, series)).count("<g ") == 1
    assert str(task_bars("a", 0, series)).count("<g ") == 2


def test_bars_are_as_long_as_the_accuracy():
    grid = build_grid([row("ties", "photos", 25, 100), row("magmax", "photos", 75, 100)])
    root = ET.fromstring(task_bars("photos", 0, task_series(grid)))
    assert [group.find("rect").get("width") for group in root.findall("g")] == ["75.00%", "25.00%"]


def test_a_curve_marks_the_published_scale_on_its_line():
    (chart,) = curve_charts([MethodCurve("ties", "TIES", "val", ((0.0, 0.2), (1.0, 0.6)), published=0.5, tuned=9.0)])
    root = ET.fromstring(chart.drawing)
    ring, ends = root.find("circle"), root.find("polyline").get("points").split()
    middle = sum(float(end.split(",")[1]) for end in ends) / 2
    assert float(ring.get("cy")) == pytest.approx(middle, abs=0.1)
    assert root.find("path") is None  # a tuned scale far off the curve has no place on it
    assert chart.note == "best 60.0 % at scale 1"


def test_every_chart_of_a_suite_is_well_formed():
    layers, models = analysis_data()["norms"]["layers"], analysis_data()["norms"]["models"]
    norms = norm_charts(LayerNorms(tuple(layers), {name: tuple(row) for name, row in models.items()}, True))
    paths = path_charts(interpolation_paths(ROWS))
    assert (len(norms), len(paths)) == (8, 3)
    assert paths[0].title == "photos → digits"
    for chart in (*norms, *paths):
        ET.fromstring(chart.drawing)
    roles = [line.get("class") for line in ET.fromstring(paths[0].drawing).findall("polyline")]
    assert (roles.count("from"), roles.count("to"), roles.count("focus")) == (1, 1, 1)


def test_norms_of_one_layer_or_of_nothing_known_are_still_drawn():
    for values in ((0.5,), (None,)):
        (chart,) = norm_charts(LayerNorms(("head",), {"a": values}, False))
        ET.fromstring(chart.drawing)


def test_layers_have_short_names():
    assert short_layer("vision_model.encoder.layers.3") == "layer 3"
    assert short_layer("vision_model.post_layernorm") == "post layernorm"
