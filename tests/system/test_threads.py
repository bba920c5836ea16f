"""Threads of one core each keep that to themselves."""

import threading

import pytest
import torch

from smelt.system.threads import single_core_pool, torch_threads


@pytest.mark.parametrize("usual", [1, 3])
def test_threads_that_compute_meanwhile_and_afterwards_have_as_many_cores_as_before(usual):
    def cores():
        found = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return found[0]

    with torch_threads(usual):
        with single_core_pool(2, "smelt-test") as pool:
            assert {pool.submit(torch.get_num_threads).result() for _ in range(4)} == {1}
            assert cores() == usual
        assert (cores(), torch.get_num_threads()) == (usual, usual)
