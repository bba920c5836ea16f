"""Runs on a store on which much goes wrong, killed at random; the long record is results/object_store_faults.json."""

from pathlib import Path

import pytest

from object_output_campaign import campaign


@pytest.mark.slow
def test_runs_that_are_killed_at_random_on_a_bad_store_end_whole(tmp_path: Path) -> None:
    found = campaign(4, 7, tmp_path)
    assert found["whole in the end"] == 4
    assert found["kills"] >= 4
