"""Figures are data first: curves, paths, experts, costs and what the analyses left, checked by hand."""

import json

import pytest

from made_up_suite import row, suite_rows
from smelt.errors import CorruptFile
from smelt.evaluation.row import CostRow
from smelt.reporting.analyses import Analyses, read_analyses
from smelt.reporting.figures.comparison import ranking, task_series
from smelt.reporting.figures.costs import build_costs
from smelt.reporting.figures.curves import scale_curves, scale_of
from smelt.reporting.figures.heat import accuracy_map, cosine_map, experts_matrix, plain_map, signs_map
from smelt.reporting.figures.paths import barrier, interpolation_paths
from smelt.reporting.tables.grid import build_grid


def curve(scale, task, correct, entry="ties"):
    return row(entry, task, correct, 100, variant="curve", split="val", setting={"scale": scale}, label="TIES")


def test_a_curve_averages_the_tasks_at_each_scale_in_rising_order():
    rows = [curve(1.0, "photos", 60), curve(1.0, "digits", 80), curve(0.0, "photos", 20), curve(0.0, "digits", 40)]
    (found,) = scale_curves(rows)
    assert found.points == ((0.0, pytest.approx(0.3)), (1.0, pytest.approx(0.7)))
    assert found.best[0] == 1.0


def test_a_scale_that_misses_a_task_is_left_out_of_the_curve():
    rows = [curve(s, t, 50) for s in (0.0, 0.5) for t in ("photos", "digits")]
    (found,) = scale_curves([*rows, curve(1.0, "photos", 99)])
    assert [scale for scale, _ in found.points] == [0.0, 0.5]


def test_one_scale_is_no_curve():
    assert scale_curves([curve(0.5, "photos", 50)]) == []


def test_published_and_tuned_scales_come_from_the_rows_of_the_table():
    rows = [curve(0.0, "photos", 50), curve(1.0, "photos", 60)]
    rows.append(row("ties", "photos", 50, 100, setting={"density": 0.2, "scale": 0.3}))
    rows.append(row("ties", "photos", 50, 100, setting={"density": 0.2, "scale": 0.4}, variant="tuned"))
    (found,) = scale_curves(rows)
    assert (found.published, found.tuned) == (0.3, 0.4)


@pytest.mark.parametrize(
    ("setting", "scale"),
    [
        ({"scale": 1}, 1.0),
        ({"dare": {"density": 0.1}, "ties": {"scale": 0.3}}, 0.3),
        ({"density": 1}, None),
        ({}, None),
    ],
)
def test_a_scale_is_found_in_the_stage_that_has_it(setting, scale):
    assert scale_of(setting) == scale


def path(t, task, correct, loss):
    setting = {"from": "expert-photos", "to": "expert-digits", "t": t}
    return row("path", task, correct, 100, variant="path", split="val", setting=setting, loss=loss)


def test_a_path_keeps_every_task_and_their_average():
    rows = [path(1.0, "photos", 20, 2.0), path(0.0, "photos", 80, 1.0)]
    rows += [path(0.0, "digits", 40, 1.0), path(1.0, "digits", 60, 2.0)]
    (found,) = interpolation_paths(rows)
    assert found.tasks == {"photos": ((0.0, 0.8), (1.0, 0.2)), "digits": ((0.0, 0.4), (1.0, 0.6))}
    assert found.average == ((0.0, pytest.approx(0.6)), (1.0, pytest.approx(0.4)))


def test_the_barrier_is_the_rise_above_the_straight_line_between_the_ends():
    assert barrier([(0.0, 1.0), (0.25, 2.0), (0.5, 2.0), (1.0, 2.0)]) == pytest.approx(0.75)
    assert barrier([(0.0, 1.0), (1.0, 2.0)]) == 0.0
    assert barrier([(0.1, 1.0), (1.0, 2.0)]) is None


def test_experts_are_a_matrix_with_the_base_as_its_last_row():
    words = {"variant": "reference"}
    rows = [row("pretrained", "photos", 30, 100, label="Pre-trained", **words)]
    rows += [row("pretrained", "digits", 40, 100, label="Pre-trained", **words)]
    rows += [row("expert-digits", "digits", 90, 100, **words), row("expert-photos", "photos", 80, 100, **words)]
    rows += [row("expert-photos", "digits", 10, 100, **words)]
    matrix = experts_matrix(rows, build_grid(rows))
    assert matrix.rows == ("photos", "digits", "Pre-trained")
    assert matrix.values == ((0.8, 0.1), (None, 0.9), (0.3, 0.4))
    shades = accuracy_map(matrix).rows
    assert [cell.own for cell in shades[0][1]] == [True, False]
    assert [cell.text for cell in shades[1][1]] == ["–", "90.0"]


def test_without_experts_there_is_no_matrix():
    rows = [row("ties", "photos", 30, 100)]
    assert experts_matrix(rows, build_grid(rows)) is None


def test_experts_that_were_asked_their_own_task_alone_are_no_matrix():
    rows = [row(f"expert-{task}", task, 80, 100, variant="reference") for task in ("photos", "digits")]
    assert experts_matrix(rows, build_grid(rows)) is None


def cost(entry, seconds, peak, variant="published"):
    words = {"evaluate_seconds": 1.0, "threads": 2, "device": "cpu", "code": "1", "command": "c", "when": "w"}
    return CostRow(entry=entry, variant=variant, merge_seconds=seconds, peak_bytes=peak, **words)


def test_costs_are_shares_of_the_largest_in_the_order_of_the_table():
    grid = build_grid([row("ties", "photos", 1, 2, label="TIES"), row("magmax", "photos", 1, 2, label="MagMax")])
    costs = build_costs([cost("magmax", 4.0, 100), cost("ties", 1.0, 400), cost("magmax", 9.0, 9, "tuned")], grid.lines)
    assert [(one.label, one.merge_share, one.peak_share) for one in costs.lines] == [
        ("TIES", 0.25, 1.0),
        ("MagMax", 1.0, 0.25),
    ]
    assert costs.where == "the CPU with 2 threads"


def test_costs_of_models_evaluated_on_a_gpu_say_that_merging_was_not_there():
    grid = build_grid([row("ties", "photos", 1, 2)])
    made = cost("ties", 1.0, 1).model_copy(update={"device": "cuda", "threads": 1})
    assert build_costs([made], grid.lines).where == "the CPU with 1 thread; evaluation on cuda"


def test_preparing_is_told_beside_merging_with_its_device():
    grid = build_grid(
        [row("ties", "photos", 1, 2), row("regmean", "photos", 1, 2), row("wemoe", "photos", 1, 2, way="mix")]
    )
    learned = cost("wemoe", 1.0, 1).model_copy(update={"prepare_seconds": 40.0, "prepare_device": "cuda"})
    measured = cost("regmean", 1.0, 1).model_copy(update={"prepare_seconds": 10.0})
    costs = build_costs([learned, measured, cost("ties", 1.0, 1)], grid.lines)
    assert costs.prepared
    assert [(one.label, one.row.prepare_seconds, one.row.prepare_device, one.prepare_share) for one in costs.lines] == [
        ("ties", 0.0, "cpu", 0.0),
        ("regmean", 10.0, "cpu", 0.25),
        ("wemoe", 40.0, "cuda", 1.0),
    ]
    assert not build_costs([cost("ties", 1.0, 1)], grid.lines).prepared


def test_costs_of_parts_are_kept_apart_and_ensembles_have_theirs():
    grid = build_grid([row("ensemble", "photos", 1, 2, label="All", way="ensemble", variant="reference")])
    rows = [cost("ties", 1.0, 1).model_copy(update={"part": part}) for part in ("exp1", "exp2")]
    rows.append(cost("ensemble", 0.0, 0, "reference"))
    rows.append(cost("pretrained", 0.0, 0, "reference"))
    assert [one.label for one in build_costs(rows, grid.lines).lines] == ["All", "ties, exp1", "ties, exp2"]


def test_no_rows_of_cost_and_costs_of_zero_are_no_fault():
    grid = build_grid([row("ties", "photos", 1, 2)])
    assert build_costs([], grid.lines) is None
    assert build_costs([cost("ties", 0.0, 0)], grid.lines).lines[0].merge_share == 0.0


def test_the_ranking_puts_the_best_method_first_whatever_its_variant():
    rows = [row("a", "photos", 50, 100), row("b", "photos", 40, 100), row("c", "photos", 45, 100)]
    rows.append(row("b", "photos", 60, 100, variant="tuned", setting={"scale": 2.0}))
    ranked = ranking(build_grid(rows))
    assert [(one.label, one.best) for one in ranked] == [("b", 0.6), ("a", 0.5), ("c", 0.45)]
    assert [place.variant for place in ranked[0].places] == ["tuned", "published"]


def test_mixtures_and_ensembles_stand_in_the_ranking_under_their_own_name():
    rows = [row("ties", "photos", 50, 100), row("wemoe", "photos", 90, 100, way="mix")]
    rows.append(row("all", "photos", 70, 100, way="ensemble", variant="reference"))
    assert [(one.label, one.kind) for one in ranking(build_grid(rows))] == [
        ("wemoe", "mix"),
        ("all", "ensemble"),
        ("ties", ""),
    ]


def test_the_figure_over_tasks_starts_with_base_experts_and_the_best_four_methods():
    series = task_series(build_grid([one for one in suite_rows() if isinstance(one, type(row()))]))
    chosen = [one for one in series if one.chosen]
    assert [one.kind for one in chosen] == ["base", "experts", "merge", "merge", "merge", "merge"]
    assert [one.colour for one in chosen] == [0, 1, 2, 3, 4, 5]
    assert len({one.name.removesuffix(" (tuned)") for one in chosen}) == 6
    assert len({one.key for one in series}) == len(series) == 35


def analyses(folder, **contents):
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return read_analyses(folder)


def test_analyses_that_are_not_there_are_no_figures(tmp_path):
    assert read_analyses(tmp_path / "nowhere") == Analyses()


def test_names_lose_what_all_of_them_begin_with(tmp_path):
    found = analyses(tmp_path, cosine={"names": ["zoo-a", "zoo-b"], "matrix": [[1, 0.5], [0.5, 1]]})
    assert found.cosine.rows == ("a", "b")


def test_a_null_or_nan_is_a_number_that_is_not_known(tmp_path):
    found = analyses(tmp_path, cosine='{"names": ["a", "b"], "matrix": [[null, NaN], [NaN, 1]]}')
    assert found.cosine.values == ((None, None), (None, 1.0))
    assert cosine_map(found.cosine).rows[0][1][1].text == "–"


def test_a_cosine_near_zero_is_pale_even_where_none_is_larger():
    found = cosine_map(_matrix([[1.0, 0.02], [0.02, 1.0]]))
    assert found.rows[0][1][1].strength == 0.08, "0.02 of 0.25"
    assert [(step.text, step.strength) for step in found.scale if step.text] == [("0", 0.0), ("0.25", 1.0)]


def test_cosines_are_shaded_in_full_at_a_round_number_that_none_exceeds():
    found = cosine_map(_matrix([[1.0, 0.4, -0.1], [0.4, 1.0, -0.001], [-0.1, -0.001, 1.0]]))
    first = found.rows[0][1]
    assert [(cell.text, cell.strength, cell.below) for cell in first] == [
        ("·", 0.0, False),
        ("0.40", 0.8, False),
        ("-0.10", 0.2, True),
    ]
    assert found.rows[1][1][2].text == "0.00"
    assert cosine_map(_matrix([[1.0, 0.9], [0.9, 1.0]])).rows[0][1][1].strength == 0.9


def test_the_scale_below_a_map_goes_below_zero_where_a_number_does():
    plain = cosine_map(_matrix([[1.0, 0.4], [0.4, 1.0]])).scale
    both = cosine_map(_matrix([[1.0, -0.4], [-0.4, 1.0]])).scale
    assert [step.strength for step in plain] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert [step.text for step in both] == ["-0.5", *[""] * 4, "0", *[""] * 4, "0.5"]
    assert [step.below for step in both] == [True] * 5 + [False] * 6


def test_the_scale_of_sign_conflicts_says_that_it_begins_at_the_smallest():
    found = signs_map(_matrix([[0.0, 0.4, 0.45], [0.4, 0.0, 0.5], [0.45, 0.5, 0.0]]))
    assert [(step.text, step.strength) for step in found.scale if step.text] == [("40.0 %", 0.12), ("50.0 %", 0.82)]
    assert [cell.strength for cell in found.rows[0][1]] == [0.0, 0.12, 0.47]


def test_equal_sign_conflicts_have_one_shade_and_do_not_divide_by_zero():
    found = signs_map(_matrix([[0.0, 0.45], [0.45, 0.0]]))
    assert [cell.text for cell in found.rows[0][1]] == ["·", "45.0"]
    assert found.rows[0][1][1].strength == found.rows[1][1][0].strength


def _matrix(values):
    from smelt.reporting.figures.heat import Matrix

    names = tuple("abc"[: len(values)])
    return Matrix(names, names, tuple(map(tuple, values)))


def test_norms_are_relative_where_the_analysis_says_so(tmp_path):
    found = analyses(
        tmp_path, norms={"layers": ["l.0", "l.1"], "models": {"a": [5, 6]}, "relative": {"a": [0.5, None]}}
    )
    assert (found.norms.models, found.norms.relative) == ({"a": (0.5, None)}, True)
    assert not analyses(tmp_path, norms={"layers": ["l.0"], "models": {"a": [5]}}).norms.relative


def test_shares_over_all_models_are_read_beside_the_pairs(tmp_path):
    found = analyses(tmp_path, signs={"names": ["a"], "matrix": [[0]], "entries": 0.9, "mass": None, "cancelled": 0.5})
    assert [share for _, share in found.signs.overall] == [0.9, 0.5]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        {"names": ["a"]},
        {"names": ["a"], "matrix": [[1, 2]]},
        {"names": ["a", "b"], "matrix": [[1, 2]]},
        {"names": ["a"], "matrix": [["x"]]},
    ],
)
def test_a_damaged_analysis_is_named(tmp_path, content):
    with pytest.raises(CorruptFile, match=r"cosine\.json"):
        analyses(tmp_path, cosine=content)


def heat(**changes):
    content = {"title": "Gates", "rows": ["photos", "digits"], "columns": ["zoo-photos", "zoo-digits"]}
    return {**content, "matrix": [[0.9, -0.3], [None, 0.6]], "note": "mean", "signed": True, **changes}


def test_any_number_of_heat_maps_is_read_in_the_order_of_their_names(tmp_path):
    found = analyses(tmp_path, **{"heat-b": heat(), "heat-a": heat(title="Coefficients")})
    assert [(one.title, one.note, one.signed) for one in found.heats] == [
        ("Coefficients", "mean", True),
        ("Gates", "mean", True),
    ]
    assert found.heats[0].matrix.columns == ("photos", "digits")
    assert analyses(tmp_path, **{"heat-b": heat(title=None)}).heats[1].title == "b"


def test_layers_of_a_heat_map_have_short_names_where_these_differ(tmp_path):
    layers = ["m.layers.0", "m.post_norm"]
    found = analyses(tmp_path, **{"heat-a": heat(rows=layers), "heat-b": heat(rows=["a.mlp.w", "b.mlp.w"])})
    assert [one.matrix.rows for one in found.heats] == [("layer 0", "post norm"), ("a.mlp.w", "b.mlp.w")]


def test_a_heat_map_is_shaded_from_zero_and_frames_a_name_that_meets_itself(tmp_path):
    (found,) = analyses(tmp_path, **{"heat-a": heat()}).heats
    first, second = (cells for _, cells in plain_map(found.matrix).rows)
    assert [(cell.text, cell.strength, cell.below, cell.own) for cell in first] == [
        ("0.90", 1.0, False, True),
        ("-0.30", 0.333, True, False),
    ]
    assert [(cell.text, cell.own) for cell in second] == [("–", False), ("0.60", True)]


@pytest.mark.parametrize(
    "content", [{"matrix": []}, heat(rows=["one"]), heat(columns=["one"]), heat(matrix=[["x", 1], [1, 1]]), "[]"]
)
def test_a_damaged_heat_map_is_named(tmp_path, content):
    with pytest.raises(CorruptFile, match=r"heat-x\.json"):
        analyses(tmp_path, **{"heat-x": content})


@pytest.mark.parametrize("content", [{"layers": ["l"]}, {"layers": ["l"], "models": {"a": [1, 2]}}])
def test_damaged_norms_are_named(tmp_path, content):
    with pytest.raises(CorruptFile, match=r"norms\.json"):
        analyses(tmp_path, norms=content)
