"""Which printed order stands beside which suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import RecipeError
from smelt.reporting.order import PublishedOrder
from smelt.suites.find import find_suite, kind_of
from smelt.suites.order import OrderOf, published_orders
from smelt.suites.selection.paper import resolved_order

RESULTS = Path(__file__).parents[2] / "results"
ZOO = ("clip8", "clip8-generalization", "clip8-robustness", "hub", "llm5", "mllm10", "neulig")
CLIP = Path(kind_of(find_suite("clip8")).folder or "") / "published"


def orders(suite: Any) -> list[PublishedOrder]:
    content = published_orders(suite, kind_of(suite))
    return [PublishedOrder.model_validate(one) for one in (content or {"orders": []})["orders"]]


def methods(suite: Any) -> set[str]:
    """What its entries are called, whatever the kind calls them."""
    own = next(getattr(suite, word) for word in ("entries", "baselines", "methods") if hasattr(suite, word))
    return set(own) | ({"neulig-semi", "neulig-supervised"} if suite.kind == "collaboration" else set())


@pytest.mark.parametrize("name", ZOO)
def test_every_suite_of_the_zoo_has_a_printed_order_of_three_of_its_methods(name: str) -> None:
    suite = find_suite(name)
    found = orders(suite)
    shared = [{line.entry or key for key, line in one.table.lines.items()} & methods(suite) for one in found]
    assert max(map(len, shared)) >= 3


@pytest.mark.parametrize("name", ZOO)
def test_the_committed_orders_are_those_of_the_suite(name: str) -> None:
    suite = find_suite(name)
    there = json.loads((RESULTS / name / "analyses" / "order.json").read_text())
    wanted = published_orders(suite, kind_of(suite))
    assert wanted is not None
    if suite.kind == "selection":
        wanted = resolved_order(wanted, json.loads((RESULTS / name / "analyses" / "selection.json").read_text()))
    assert there == wanted, f"`smelt bench {name} -o results/{name}` writes it again; no number is computed anew"


@pytest.mark.parametrize(
    ("name", "family"),
    [("fusionbench", family) for family in ("ViT-B-32", "ViT-B-16", "ViT-L-14")]
    + [("neulig-paper", family) for family in ("ViT-B-32", "ViT-L-14", "RN50")]
    + [("fusionbench-generalization", None), ("fusionbench-robustness", None), ("uqmerge", None)],
)
def test_suites_of_papers_stand_beside_their_own_order(name: str, family: str | None) -> None:
    assert orders(find_suite(name, family))


def test_each_base_of_mergebench_has_its_own_column() -> None:
    (overall,) = orders(find_suite("llm5"))
    (own,) = (OrderOf.model_validate(one) for one in find_suite("mergebench", "gemma-2-2b-it").order)
    assert (overall.column, own.column) == (None, "Gemma-2-2b-it")
    assert list(overall.groups) == ["instruction", "maths", "multilingual", "coding", "safety"]


def test_further_tables_add_lines_and_take_none_away() -> None:
    table = OrderOf(table="fusionbench/ViT-B-32", more=["fusionbench/docs-ViT-B-32"]).table_of(CLIP)
    assert table.lines["regmean"].values[-1] == 80.5  # the documentation has 82.4
    assert table.lines["wudi"].values[-1] == 84.5
    assert "; other lines: FusionBench's documentation" in table.source
    with pytest.raises(RecipeError, match="has other columns"):
        OrderOf(table="fusionbench/ViT-B-32", more=["fusionbench/robustness/clean"]).table_of(CLIP)


def test_a_line_under_another_name_says_so() -> None:
    one = orders(find_suite("hub"))[0]
    assert (one.table.lines["inb"].entry, one.table.lines["inb"].note) == ("graph-best", "here graph-best")
    paper = orders(find_suite("hub").with_preset("paper"))[0]
    assert paper.table.lines["inb"].entry is None


def test_a_part_and_a_level_of_ours_take_the_place_of_the_tables() -> None:
    merged, *_, fifth = orders(find_suite("neulig"))
    assert (merged.table.part, merged.table.level) == ("ViT, 7 experts", "merged")
    assert merged.table.title.endswith("; here: ViT, 7 experts")
    assert {line.level for line in fifth.table.lines.values()} == {"merged"}


def test_a_table_that_is_not_there_is_refused_by_name() -> None:
    suite = find_suite("clip8").model_copy(update={"order": [OrderOf(table="fusionbench/ViT-B-33")]})
    with pytest.raises(RecipeError, match="ViT-B-33"):
        published_orders(suite, kind_of(suite))
