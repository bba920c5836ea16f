"""Smelt's reading of a mergekit configuration gives mergekit's numbers, for every method without chance."""

from __future__ import annotations

import pytest
from parity_cases import Case, deterministic
from parity_compare import compare

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("pool", ["usual", "far"])
@pytest.mark.parametrize("case", list(deterministic()), ids=lambda case: case.id)
def test_both_tools_give_the_same_numbers(case: Case, pool, mergekit, smelt_reads, models, record):
    compare(case, case.on(models, far=pool == "far"), mergekit, smelt_reads, record, pool)
