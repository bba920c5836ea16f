"""Slices, modules, precedence and storage types mean in Smelt what they mean in mergekit."""

from __future__ import annotations

import json

import pytest
from parity_cases import Case
from parity_compare import compare
from parity_slices import stored, structural

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("pool", ["usual", "far"])
@pytest.mark.parametrize("case", list(structural()), ids=lambda case: case.id)
def test_slices_and_modules_are_read_alike(case: Case, pool, mergekit, smelt_reads, models, record):
    compare(case, case.on(models, far=pool == "far"), mergekit, smelt_reads, record, pool)


@pytest.mark.parametrize("case", list(stored()), ids=lambda case: case.id)
def test_storage_types_are_read_alike(case: Case, mergekit, smelt_reads, models, record):
    compare(case, case.on(models), mergekit, smelt_reads, record, "usual")


def test_the_config_of_a_stack_counts_its_layers_in_both(mergekit, smelt_reads, models):
    case = next(structural())
    configs = [
        json.loads((tool.folder(case.on(models)) / "config.json").read_text()) for tool in (mergekit, smelt_reads)
    ]
    assert [config["num_hidden_layers"] for config in configs] == [6, 6]


def test_the_config_names_the_type_that_is_written_in_both(mergekit, smelt_reads, models):
    case = next(stored())
    for tool in (mergekit, smelt_reads):
        config = json.loads((tool.folder(case.on(models)) / "config.json").read_text())
        assert {config.get("dtype"), config.get("torch_dtype")} - {None} == {"bfloat16"}
