"""Comparisons of steps and choices over the answers of a real run of pico models, at choices that the test makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
from selection_suite import write_selection_suite
from smelt.runs.run_folder import RunFolder
from smelt.suites.find import find_suite
from smelt.suites.plan import BenchOptions, Step
from smelt.suites.run import run_rounds
from smelt.suites.selection.candidate import alone
from smelt.suites.selection.compare import Comparisons
from smelt.suites.selection.growth import GrowthPath
from smelt.suites.selection.plan import SelectionPlan
from smelt.suites.state import RunState

COURSE = GrowthPath("uncertainty", "descending", "image", ("wild", "bold", "mild"))


class OneCourse(SelectionPlan):
    """Single models, then group by group of one course."""

    def rounds(self, state: RunState) -> Iterator[Sequence[Step]]:
        yield next(super().rounds(state))
        groups = COURSE.steps("average", self.every)
        yield self.steps.merged(dict.fromkeys(groups, (("held_in", "held_out"), ("image",))))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneCourse]:
    """Models asked, group by group of one course."""
    root: Path = tmp_path_factory.mktemp("compare")
    words = {"perturbations": {"image": {"label": "Image", "image": True}}, "validation": [], "random": {}}
    suite: Any = find_suite(write_selection_suite(root, **words))
    options = BenchOptions(executor="inline", methods=["average"])
    plan = OneCourse(suite, options)
    folder = RunFolder(root / "out", dict(plan.protocol))
    run_rounds(plan, RunState(folder), options)
    yield plan
    folder.close()
    plan.close()


def _compared(run: OneCourse, choose: str, first: int, lowest: int) -> Comparisons:
    chosen = {"first_local_min": first, "global_min": lowest}
    suite = run.suite.model_copy(update={"choose": choose, "harm": False})
    trace = {"name": COURSE.name, "perturbation": "image", "chosen": chosen}
    return Comparisons(suite, run.steps, run.answers, [COURSE], [trace])


def _means(run: OneCourse) -> list[float]:
    members = COURSE.steps("average", run.every)
    return [run.answers.uncertainty(run.steps.identity(member), "image")["mean"] for member in members]


def test_the_chosen_step_is_compared_with_the_next_and_with_the_lowest(run: OneCourse):
    means = _means(run)
    after, low = _compared(run, "first_local_min", 1, 3).uncertainties()
    assert (after["about"], after["theirs"], after["sets"]) == ("next", ["expert-wild"], "held_in")
    assert after["difference"] == pytest.approx(means[1] - means[0])
    assert (low["about"], low["ours"], low["theirs"]) == ("lowest", ["expert-wild"], ["average@all"])
    assert low["difference"] == pytest.approx(means[0] - means[2])
    assert after["low"] < after["difference"] < after["high"]


def test_the_lowest_step_is_not_compared_with_itself_nor_the_last_with_a_next(run: OneCourse):
    assert [one["about"] for one in _compared(run, "global_min", 1, 2).uncertainties()] == ["next"]
    assert _compared(run, "global_min", 3, 3).uncertainties() == []


def test_the_paired_interval_is_that_of_the_differences_of_questions(run: OneCourse):
    members = COURSE.steps("average", run.every)
    first, second = (run.answers.uncertain(run.steps.identity(member), "image") for member in members[:2])
    parts = [b - a for a, b in zip(first, second, strict=True)]
    error = sum(part.var(ddof=1) / len(part) for part in parts) ** 0.5 / len(parts)
    assert _compared(run, "first_local_min", 1, 3).uncertainties()[0]["error"] == pytest.approx(error)


def test_both_choices_are_compared_with_the_references_where_they_differ(run: OneCourse):
    def about(first: int, lowest: int) -> list[dict[str, Any]]:
        compared = _compared(run, "first_local_min", first, lowest)
        return compared.accuracies(["wild", "bold"], ["average"], [], alone("mild"), ["mild"])

    found = [one for one in about(1, 3) if one["about"] == "reference-global_min"]
    assert {one["name"] for one in found} == {"all", "best_single", "base", "joint", "soup"}
    assert all(one["ours"] == ["average@all"] for one in found)
    (choice, _) = (one for one in about(1, 3) if one["about"] == "choice")
    assert (choice["ours"], choice["theirs"]) == (["expert-wild"], ["average@all"])
    assert not [one for one in about(3, 3) if one["about"].startswith("reference-")]
