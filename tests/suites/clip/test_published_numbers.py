"""FusionBench's printed tables as data."""

from __future__ import annotations

from statistics import mean

import pytest

from smelt.reporting.published import PublishedTable
from smelt.suites.find import find_suite, suites
from smelt.suites.kind import suite_kinds
from smelt.suites.published import published_tables

SUITES = [
    *((name, family) for name in ("fusionbench", "fusionbench-14", "fusionbench-20")
      for family in ("ViT-B-32", "ViT-B-16", "ViT-L-14")),
    ("fusionbench-generalization", None), ("fusionbench-robustness", None),
]  # fmt: skip
ODD = {("Generalization, experiment 2", "Unseen tasks", "pretrained")}
"""Lines whose printed average is not the mean of what is printed before it; a note of the table says so."""
NOT_OURS = {"traditional_mtl", "concrete_task_arithmetic", "concrete_adamerging"}


def tables(suite: str, family: str | None) -> list[PublishedTable]:
    found = published_tables(find_suite(suite, family), suite_kinds["clip"])
    assert found is not None
    return [PublishedTable.model_validate(table) for table in found["tables"]]


@pytest.mark.parametrize(("suite", "family"), SUITES)
def test_printed_averages_are_the_means_of_printed_numbers_or_a_note_says_so(suite, family):
    for table in tables(suite, family):
        for name, line in table.lines.items() if table.average else ():
            away = abs(mean(line.values[:-1]) - line.values[-1])
            odd = (table.table, table.title, name) in ODD
            assert (away > 0.1) is odd, (table.table, name)
            assert not odd or any(line.label in note for note in table.notes)


@pytest.mark.parametrize(("suite", "family"), SUITES)
def test_printed_lines_are_entries_of_the_suite_or_known_to_be_none(suite, family):
    known = find_suite(suite, family)
    ours = {*known.entries, "pretrained", "experts", *(f"expert-{task}" for task in known.tasks), *NOT_OURS}
    for table in tables(suite, family):
        assert {line.entry or name for name, line in table.lines.items()} <= ours
        assert not known.parts or table.part in known.parts


def test_some_numbers_by_heart():
    """Read off the printed page once more, by eye."""
    l14 = next(one for one in tables("fusionbench", "ViT-L-14") if one.table == "CLIP-ViT-L/14")
    assert l14.lines["ties"].values == [74.7, 83.3, 86.4, 91.3, 89.7, 85.2, 97.8, 63.9, 84.0]
    b32 = tables("fusionbench", "ViT-B-32")[0]
    assert b32.lines["wemoe"].values == [73.7, 76.8, 93.4, 98.2, 96.8, 98.2, 99.6, 76.6, 89.2]
    pixelate = next(one for one in tables("fusionbench-robustness", None) if one.corruption == "pixelate")
    assert pixelate.lines["wemoe"].values == [0.5, 11.6, 2.3, 97.5, 28.0]
    unseen = next(one for one in tables("fusionbench-generalization", None) if one.title == "Unseen tasks")
    assert (unseen.part, unseen.columns) == ("exp1", ["mnist", "eurosat"])
    assert unseen.lines["wemoe"].values == [78.3, 44.0, 61.1]


def test_suites_with_public_names_are_found():
    assert {name for name, _ in SUITES} <= suites().keys()
