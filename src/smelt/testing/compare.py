"""Comparing two state dicts: the same bytes, or the same numbers but for a few roundings."""

from __future__ import annotations

import torch
from torch import Tensor

from smelt.testing.pico import State

__all__ = ["assert_equal", "assert_near"]

_EPS = torch.finfo(torch.float32).eps


def assert_equal(got: State, expected: State, message: str) -> None:
    """The same names, formats and numbers; the message goes on with the worst of what differs."""
    _assert_same_names(got, expected, message)
    for name, tensor in expected.items():
        if got[name].dtype != tensor.dtype or not torch.equal(got[name], tensor):
            raise AssertionError(f"{message}: {_worst(name, got[name], tensor)}")


def assert_near(got: State, expected: State, message: str, ulps: float = 8) -> None:
    """Within a few roundings of the tensor's largest number."""
    _assert_same_names(got, expected, message)
    for name, tensor in expected.items():
        limit = ulps * _EPS * float(tensor.abs().max())
        if float((got[name].double() - tensor.double()).abs().max()) > limit:
            raise AssertionError(f"{message}: {_worst(name, got[name], tensor)}")


def _assert_same_names(got: State, expected: State, message: str) -> None:
    strange = sorted(got.keys() ^ expected.keys())
    assert not strange, f"{message}: {strange[0]!r} is in one result and not in the other"


def _worst(name: str, got: Tensor, expected: Tensor) -> str:
    off = (got.double() - expected.double()).abs().flatten()
    where = int(off.argmax())
    pair = f"{float(got.flatten()[where])!r} instead of {float(expected.flatten()[where])!r}"
    return f"{name!r} at element {where} is {pair} ({int((off > 0).sum())} of {off.numel()} elements differ)"
