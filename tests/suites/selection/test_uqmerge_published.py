"""UQ-Merge's printed tables as data, and the words in them that a run's own models take the place of."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from smelt.reporting.published import PublishedTable
from smelt.suites.find import find_suite, kind_of
from smelt.suites.order import published_orders
from smelt.suites.selection import paper
from smelt.suites.selection.paper import paper_table, resolved, resolved_order, uqmerge

FILES = sorted((Path(paper.__file__).parent / "published").glob("*.yaml"))
CUT = {"uqmerge-table2-held-out": 0.02, "uqmerge-table9": 0.02, "uqmerge-table12": 0.03, "uqmerge-table7": 0.0001}
"""How far the mean of a line may be from the average that is printed, where digits are cut off in the copy at hand."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_printed_average_is_that_of_its_line(file: Path) -> None:
    table = PublishedTable.model_validate(yaml.safe_load(file.read_text()))
    most = CUT.get(file.stem, 0.0056 if table.unit == "percent" else 0.000056)
    for name, line in table.lines.items():
        *values, average = line.values if table.average else [*line.values, None]
        known = [value for value in values if value is not None]
        if table.average and average is not None and len(known) == len(values):
            assert sum(known) / len(known) == pytest.approx(average, abs=most), name


def test_the_averages_of_the_steps_are_those_of_table_4() -> None:
    found = uqmerge()
    assert found.steps["uncertainty"][6:8] == [0.0395, 0.03954]
    assert found.steps["held_out"][6] == 56.01
    assert (found.chosen, found.joint) == ((58.05, 56.01), (64.96, 59.07))
    assert found.random["Linear"] == (55.43, 54.13)


def test_a_line_about_a_model_of_the_run_gets_that_model_s_name() -> None:
    course = {"guide": "accuracy", "order": "ascending", "perturbation": None, "chosen": {"global_min": 2}}
    own = {"guide": "uncertainty", "order": "descending", "perturbation": "all", "chosen": {"global_min": 1}}
    found = {
        "chosen": {"who": "average@a+b"},
        "guide": "all",
        "choose": "global_min",
        "courses": [
            {**own, "steps": [{"who": "expert-a"}, {"who": "average@a+b"}]},
            {**course, "steps": [{"who": "expert-b"}, {"who": "average@b+c"}]},
        ],
        "on": {"ties": {"all": "ties@all", "chosen": "ties@a+b", "subsets": ["ties@a+c"]}},
    }
    tables = resolved([paper_table(name) for name in ("table3", "table8", "table12", "table2-held-out")], found)
    guidance, groups, steps, every = (table.lines for table in tables)
    assert (guidance["accuracy-ascending"].entry, guidance["accuracy-ascending"].part) == ("average", "b+c")
    assert (groups["ties-1"].entry, groups["ties-1"].part) == ("ties", "a+c")
    assert (steps["step-1"].entry, steps["step-1"].part) == ("expert-a", None)
    assert (every["ties"].part, every["ours"].part) == ("all", "a+b")
    assert steps["step-3"].entry == "@step-3"  # a run of two models has no third step


def test_an_order_gets_the_run_s_own_models_and_sets() -> None:
    suite = find_suite("mllm10")
    course = {"guide": "uncertainty", "order": "descending", "perturbation": "input", "chosen": {"global_min": 1}}
    found = {
        "chosen": {"who": "average@a+b"},
        "guide": "input+model",
        "choose": "global_min",
        "courses": [{**course, "steps": [{"who": "expert-b"}]}],
        "on": {"ties": {"all": "ties@all", "chosen": "ties@a+b", "subsets": []}},
        "sets": {"held_in": ["one"], "held_out": ["two", "three"]},
    }
    chosen, every, *_, perturbed = resolved_order(published_orders(suite, kind_of(suite)), found)["orders"]
    assert chosen["tasks"] == ["one", "two", "three"]
    assert [one["table"]["lines"]["ties"]["part"] for one in (chosen, every)] == ["a+b", "all"]
    assert perturbed["tasks"] == ["two", "three"]
    assert perturbed["table"]["lines"]["input"]["entry"] == "expert-b"
