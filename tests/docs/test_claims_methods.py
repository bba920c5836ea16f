"""What the methods' docstrings say of our suites is what the rows say, and their pages show the reports' own numbers.

When a new run turns one of these red, the docstring has to be rewritten, not the test.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from smelt.methods import stages
from smelt.prepare.prepare import stages_with_data

ROOT = Path(__file__).parents[2]
GENERATORS = ROOT / "docs" / "generators"
STANDINGS = runpy.run_path(str(GENERATORS / "standings.py"))
COSTS = runpy.run_path(str(GENERATORS / "costs.py"))
CLIP8 = runpy.run_path(str(GENERATORS / "clip8.py"))
VIEWS = {view.title: view for view in STANDINGS["VIEWS"]}


def scores(view: str) -> dict[tuple[str, ...], list[float]]:
    """In percent, by the stages of the entries; of each the entries in the order of the rows."""
    found: dict[tuple[str, ...], list[float]] = {}
    for line in STANDINGS["table"](VIEWS[view])[0]:
        found.setdefault(line.stages, []).append(100 * line.cell.accuracy)
    return found


def average(entry: str, variant: str = "published") -> float:
    return float(100 * CLIP8["line"](entry, variant).average.accuracy)


def test_a_standing_is_the_reports_own_number() -> None:
    lines, base = STANDINGS["table"](VIEWS["clip8"])
    assert sorted(line.cell.accuracy for line in lines if line.ranked) == pytest.approx(
        sorted(line.average.accuracy for line in CLIP8["merges"]())
    )
    assert 100 * base.accuracy == pytest.approx(average("pretrained", "reference"))
    (wudi,) = [line for line in lines if line.stages == ("wudi",)]
    shown = CLIP8["line"]("wudi", "published").average
    assert (wudi.cell.low, wudi.cell.high, wudi.cell.n) == pytest.approx((shown.low, shown.high, shown.n))


def test_a_method_shows_the_entries_where_it_stands_alone_and_a_step_those_with_it() -> None:
    assert "DARE" not in STANDINGS["standing"](stages["task_arithmetic"])
    assert "DARE + TIES" in STANDINGS["standing"](stages["dare"])
    assert STANDINGS["standing"](stages["knots"]) == "It was not run in our suites."
    assert "| not ranked |" in STANDINGS["standing"](stages_with_data()["wemoe"])


def test_two_equal_scores_share_a_place() -> None:
    assert "TIES (density 1) | 39.4 (38.1 to 40.8) | 3 of 10 |" in STANDINGS["standing"](stages["ties"])
    assert "DELLA (density 1) | 39.4 (38.1 to 40.8) | 3 of 10 |" in STANDINGS["standing"](stages["della"])


def test_costs_are_those_of_the_record_the_benchmark_and_the_rows() -> None:
    said = COSTS["costs"](stages["ties"])
    assert "read up to 5 times" in said  # thresholds: a sample, three passes at most, then the merge
    assert "times the CPU of averaging them" in said
    assert "Looking at 2,048 unlabelled pictures of clip8 took 3 s on a GPU." in COSTS["costs"](stages["regmean"])
    data_free = {
        name for name, stage in stages.items() if not stage.statistics and stage.function.__module__[:6] == "smelt."
    }
    assert data_free == set(COSTS["_benchmark"]()["stages"])


def test_names_are_upright_and_letters_are_not() -> None:
    made = runpy.run_path(str(GENERATORS / "methods.py"))["_equations"](r"out = \frac{d_i}{n} \\ f = l1 \text{ or so }")
    upright = "& \\mathrm{out} = \\frac{d_i}{n} \\\\\n& f = \\mathrm{l1} \\text{ or so }"
    assert made == f"$$\n\\begin{{aligned}}\n{upright}\n\\end{{aligned}}\n$$"


def test_what_is_said_of_clip8() -> None:
    base = average("task_arithmetic")
    assert max(map(average, ("tsv", "wudi"))) > average("ties", "tuned") > base  # task_arithmetic
    assert average("tsv") > average("ties", "tuned")  # tsv
    assert average("wudi") == max(100 * line.average.accuracy for line in CLIP8["merges"]())  # wudi
    assert average("wemoe") > average("wudi")  # wemoe
    assert abs(average("multislerp") - average("average")) < 0.1 > abs(average("karcher") - average("average"))
    assert average("model_stock") - average("pretrained", "reference") < 0.2  # model_stock
    assert average("magmax") < base > average("emr")  # magmax, emr
    assert max(average("consensus"), average("consensus", "tuned")) <= base  # consensus
    assert 2.5 < average("lines") - base < 3.5  # lines
    assert 0 < average("fisher") - average("average") < 1  # fisher
    assert average("regmean") > average("fisher")
    assert average("regmean_pp") - average("regmean") > 1  # regmean_pp
    assert average("adarank") < min(average("tsv"), average("wudi"))  # adarank
    assert average("tuned") < base  # tuned
    assert average("localize") > average("localize_and_stitch")  # localize
    assert average("ram") - average("average") < 1  # ram
    assert not CLIP8["difference"](("average", "published"), ("multislerp", "published")).clear


@pytest.mark.parametrize("step", ["dare", "della", "breadcrumbs"])
def test_a_step_that_drops_gained_nothing_over_task_arithmetic(step: str) -> None:
    assert max(average(step), average(step, "tuned")) < average("task_arithmetic") + 0.1


def test_what_is_said_of_adamerging() -> None:
    hardest = min(_on_tasks("pretrained", "reference").items(), key=lambda one: one[1])[0]
    assert _on_tasks("adamerging")[hardest] < _on_tasks("pretrained", "reference")[hardest]
    unseen = {names: values[0] for names, values in scores("clip8, unseen tasks").items() if names != ("wemoe",)}
    assert min(unseen, key=lambda names: unseen[names]) == ("adamerging",)


def test_what_is_said_of_the_other_suites() -> None:
    language = {names: max(values) for names, values in scores("llm5").items()}
    order = sorted(language, key=lambda names: language[names])
    assert (order[0], order[-1]) == (("ties",), ("regmean",))
    assert language["dare", "task_arithmetic"] < language["task_arithmetic",] > language["consensus",]
    assert language["regmean",] > language["fisher",]
    seeing = {names: max(values) for names, values in scores("mllm10, all ten").items()}
    assert max(seeing, key=lambda names: seeing[names]) == ("average",)
    convolutions = scores("neulig, 7 ResNet")
    for names in (("ties",), ("task_arithmetic",)):
        assert min(convolutions[names]) < 40  # the base has 50: BatchNorm's statistics are those of no model


def _on_tasks(entry: str, variant: str = "published") -> dict[str, float]:
    cells = CLIP8["line"](entry, variant).cells
    return {task: cell.accuracy for task, cell in zip(CLIP8["grid"]().tasks, cells, strict=True)}
