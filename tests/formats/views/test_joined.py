"""A Source whose tensors are runs of another's, one after the other."""

from __future__ import annotations

import pytest
import torch

from smelt.formats.source import MemorySource, TensorInfo
from smelt.formats.views.joined import JoinedSource
from smelt.formats.views.renamed import Piece


@pytest.fixture
def joined() -> JoinedSource:
    """`ab` is 10 11 12 13, then 2 3 4."""
    inner = MemorySource("two", {"a": torch.arange(6.0), "b": torch.arange(10.0, 14.0)})
    pieces = (Piece("b", 0, TensorInfo("F32", (4,))), Piece("a", 2, TensorInfo("F32", (3,))))
    return JoinedSource(inner, {"ab": (TensorInfo("F32", (7,)), pieces)})


def test_every_run_has_the_same_numbers(joined: JoinedSource) -> None:
    whole = [10.0, 11.0, 12.0, 13.0, 2.0, 3.0, 4.0]
    for start in range(8):
        for stop in range(start, 8):
            out = torch.empty(stop - start)
            joined.read("ab", start, out)
            assert out.tolist() == whole[start:stop]
            raw = bytearray(4 * (stop - start))
            joined.read_bytes("ab", start, memoryview(raw))
            assert torch.frombuffer(raw, dtype=torch.float32).tolist() == whole[start:stop] if raw else not stop - start


def test_numbers_in_two_places_have_no_place_in_a_file(joined: JoinedSource) -> None:
    assert joined.has_bytes("ab")
    assert joined.stored_at("ab") is None
