"""The operations of the vector machine in torch give the numbers of machine.c, and so does one compiled kernel."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

import smelt
from smelt.fused import compiled, device, way
from smelt.fused.device import OnDevice

agree = importlib.import_module("test_ways_agree")
ELEMENTS = [one for one in agree.PIPELINES if "della" not in str(one)]
CPU = torch.device("cpu")


@pytest.fixture
def on_tensors(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Have the CPU's items run as those of a GPU would, and tell which were taken."""

    def begin(compiles: bool = False, block: int = 1 << 24) -> list[bool]:
        taken: list[bool] = []

        class Watched(OnDevice):
            def takes(self, item: Any) -> bool:
                taken.append(super().takes(item))
                return taken[-1]

        monkeypatch.setattr(device, "_BLOCK", block)
        monkeypatch.setattr(way, "fused", lambda seed, write, advance: Watched(seed, CPU, write, advance, compiles))
        return taken

    return begin


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("merge", [*ELEMENTS, *agree.TWO], ids=str)
def test_a_merge_on_tensors_is_that_of_the_other_ways(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], merge: Any, dtype: str
) -> None:
    base, tunes = agree.models(2 if merge in agree.TWO else 3, [getattr(torch, dtype)] * 4)
    named = {f"m{number}": state for number, state in enumerate(tunes)}
    expected = smelt.merge(named, base=base, method=merge)
    taken = on_tensors()
    ours = smelt.merge(named, base=base, method=merge)
    assert taken
    assert all(taken)
    for name, one in expected.items():
        assert ours[name].dtype == one.dtype
        assert torch.equal(ours[name], one), (name, (ours[name].float() - one.float()).abs().max())


@pytest.mark.parametrize("merge", ELEMENTS, ids=str)
def test_blocks_and_spans_change_nothing(on_tensors: Callable[..., list[bool]], merge: Any) -> None:
    """In steps of 512 elements: ties that may stay, counters of random numbers and sums go on from block to block."""
    base, tunes = agree.models(3, [torch.bfloat16] * 4)
    expected = smelt.merge(tunes, base=base, method=merge)
    on_tensors(block=4096)
    ours = smelt.merge(tunes, base=base, method=merge)
    assert all(torch.equal(ours[name], one) for name, one in expected.items())


@pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU, and there is none"
)
def test_a_compiled_kernel_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]]
) -> None:
    """DARE and TIES: draws, cuts, elections, fused multiply-adds and a division in one kernel, for all tensors."""
    draw = torch.Generator().manual_seed(3)
    base = {"a": torch.randn(70 * 1024 + 5, generator=draw), "b": torch.randn(3 << 16, generator=draw)}
    base = {name: one.bfloat16() for name, one in base.items()}
    tunes = [
        {n: (one + 0.01 * torch.randn(one.shape, generator=draw)).bfloat16() for n, one in base.items()} for _ in "12"
    ]
    merge = [{"dare": {"density": 0.5}}, {"ties": {"density": 1.0, "weights": [0.7, 0.4]}}]
    expected = smelt.merge(tunes, base=base, method=merge)
    made: list[Any] = []
    make = compiled._made
    monkeypatch.setattr(compiled, "_made", lambda *words: made.append(make(*words)) or made[-1])
    on_tensors(compiles=True)
    ours = smelt.merge(tunes, base=base, method=merge)
    assert len(made) == 1
    assert made[0] is not None, "the compiled kernel gave other bits"
    assert all(torch.equal(ours[name], one) for name, one in expected.items())
