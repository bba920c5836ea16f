"""Sums over chunks: their order, and what becomes of them when one fails."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

from smelt.errors import NumericalError, RecipeError
from smelt.measurement.streaming_sums import Work, check_finite, parts, summed
from smelt.models.families.network import ModuleNetwork, Network

NETWORK = ModuleNetwork(nn.Linear(1, 1))


def prepared(work: Work):
    return lambda own: work


def test_chunks_begin_at_multiples_of_their_size() -> None:
    assert parts(range(3, 9), 4) == [range(3, 4), range(4, 8), range(8, 9)]
    with pytest.raises(RecipeError, match="chunk is a number of examples, at least 1; got 0"):
        parts(range(3), 0)


def test_chunks_are_added_in_their_order_however_long_they_take() -> None:
    # 1e17 + 1 is 1e17 in float64, so that only in this order the sum is 2
    values = [1e17, 1.0, -1e17, 2.0]

    def work(part: range) -> dict[str, Tensor]:
        time.sleep(0.02 * (4 - part.start))
        return {"w": torch.tensor([values[part.start]], dtype=torch.float64)}

    assert summed(NETWORK, range(4), prepared(work), chunk=1, threads=4)["w"].tolist() == [2.0]


def test_a_tensor_that_some_chunks_do_not_have_keeps_nobody_waiting() -> None:
    def work(part: range) -> dict[str, Tensor]:
        return {"odd" if part.start % 2 else "even": torch.ones(1), "all": torch.ones(1)}

    found = summed(NETWORK, range(5), prepared(work), chunk=1, threads=3)
    assert {key: float(tensor) for key, tensor in found.items()} == {"even": 3, "odd": 2, "all": 5}


@pytest.mark.parametrize("bad", [0, 2])
def test_a_chunk_that_fails_stops_those_that_wait_for_it(bad: int) -> None:
    def work(part: range) -> dict[str, Tensor]:
        if part.start == bad:
            time.sleep(0.02)
            raise NumericalError("not sound")
        return {"w": torch.ones(1)}

    with pytest.raises(NumericalError, match="not sound"):
        summed(NETWORK, range(6), prepared(work), chunk=1, threads=3)


def test_finite_numbers_whose_sum_is_not_are_sound() -> None:
    check_finite({"w": torch.tensor([3e38, 3e38])}, "the sum", "cars", "rows")
    with pytest.raises(NumericalError, match="the sum of 'w' is NaN or infinite for cars on rows"):
        check_finite({"w": torch.tensor([1.0, torch.inf, -torch.inf])}, "the sum", "cars", "rows")


def test_each_thread_has_a_copy_of_the_network_for_itself() -> None:
    seen: set[int] = set()

    def prepare(own: Network) -> Work:
        seen.add(id(own.module))
        kept.append(own)

        def work(part: range) -> dict[str, Tensor]:
            time.sleep(0.02)
            return {"w": own.weights()["weight"]}

        return work

    kept: list[Network] = []
    summed(NETWORK, range(4), prepare, chunk=1, threads=2)
    assert len(seen) == 2
    assert id(NETWORK.module) not in seen
