"""Random faults of a server by a seed: a few in every run of the tests, hundreds where somebody asks for them."""

from __future__ import annotations

import pytest

from remote_fault_campaign import run

pytest.importorskip("obstore")


def test_random_faults_change_no_byte_of_three_merges() -> None:
    found = run(merges=3, seed=3)
    assert sum(found["faults"].values()) >= 10
    assert sum(found["ends"].values()) == 3


@pytest.mark.slow
def test_hundreds_of_random_faults_change_no_byte_and_no_changed_file_is_merged() -> None:
    found = run(merges=100, seed=1)
    assert sum(found["faults"].values()) >= 300
    assert found["ends"]["refused: a file changed"] >= 3
