"""The paper's Tables 1 and 2 as data, and the preset that has ours beside them."""

from __future__ import annotations

import pytest

from smelt.errors import RecipeError
from smelt.hub.paper import paper_hub
from smelt.reporting.published import PublishedTable
from smelt.suites.find import find_suite, kind_of
from smelt.suites.published import published_tables

SUITE = find_suite("hub").with_preset("paper")


@pytest.fixture(scope="module")
def tables() -> dict[str, PublishedTable]:
    content = published_tables(SUITE, kind_of(SUITE))
    assert content is not None
    return {one["part"]: PublishedTable.model_validate(one) for one in content["tables"]}


def test_two_of_six_printed_averages_are_not_those_of_their_rows(tables) -> None:
    means = {
        (part, name): (round(sum(line.values[:-1]) / 17, 4), line.values[-1])
        for part, table in tables.items()
        for name, line in table.lines.items()
    }
    assert means["hub: k = 1", "mll"] == (0.6644, 0.6620)
    assert means["hub: k = 3", "inb"] == (0.6486, 0.6498)
    off = {key for key, (mean, printed) in means.items() if abs(mean - printed) > 6e-4}
    assert off == {("hub: k = 1", "mll"), ("hub: k = 3", "inb")}


def test_six_targets_are_printed_alike_for_one_and_three_models(tables) -> None:
    one, three = tables.values()
    pairs = zip(one.heads, one.lines["mll"].values, three.lines["mll"].values, strict=False)
    assert [name for name, a, b in pairs if a == b] == ["MNIST", "OxfordPet", "PCam", "FER2013", "Food101", "GTSRB"]


def test_modelgpt_differs_from_the_baseline_at_five_targets_only(tables) -> None:
    one = tables["hub: k = 1"]
    pairs = zip(one.heads, one.lines["inb"].values, one.lines["modelgpt"].values, strict=False)
    differ = [name for name, a, b in pairs if a != b]
    assert differ == ["MNIST", "PCam", "FER2013", "Rendered-SST2", "STL10"]


def test_the_preset_is_the_papers_hub_in_the_papers_words(tables) -> None:
    paper = paper_hub()
    assert list(SUITE.references()) == [model.name for model in paper.models]
    assert [(name, one.domain, one.task) for name, one in SUITE.tasks.items()] == [
        (task.task_name, task.domain, task.task) for task in paper.targets
    ]
    assert all(table.columns == list(SUITE.tasks) for table in tables.values())
    assert set(tables["hub: k = 1"].lines) <= set(SUITE.methods)
    assert SUITE.listed_numbers()["ViT-H-14-378-quickgelu.dfn5b"] == 0.8437


def test_the_endpoint_of_a_preset_has_an_address_and_names_its_key() -> None:
    suite = find_suite("hub").with_preset("paper-endpoint")
    assert (suite.embedder, suite.captions) == ("endpoint:text-embedding-3-large", "endpoint:gpt-4")
    assert suite.endpoint is not None
    assert suite.endpoint.key_env == "OPENAI_API_KEY"
    with pytest.raises(RecipeError, match="did you mean 'paper'"):
        find_suite("hub").with_preset("papr")
