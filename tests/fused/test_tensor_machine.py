"""The operations of the vector machine in torch give the numbers of machine.c, and so does one compiled kernel."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

import smelt
from smelt.errors import NumericalError
from smelt.fused import compiled, device, way
from smelt.fused.device import OnDevice
from smelt.fused.program import Program
from smelt.fused.tensors import TensorRun
from smelt.fused.written import written
from smelt.ops.block import Block, Place
from smelt.ops.order import Largest

agree = importlib.import_module("test_ways_agree")
ELEMENTS = [one for one in agree.PIPELINES if not any(word in str(one) for word in ("della", "'row'"))]
TWO = [one for one in agree.TWO if "'row'" not in str(one)]
ONE = [one for one in agree.ONE if one != "arcee_fusion"]
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
        monkeypatch.setattr(device, "_STEP", 8)
        monkeypatch.setattr(way, "fused", lambda seed, write, advance: Watched(seed, CPU, write, advance, compiles))
        return taken

    return begin


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("merge", [*ELEMENTS, *TWO, *ONE], ids=str)
def test_a_merge_on_tensors_is_that_of_the_other_ways(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], merge: Any, dtype: str
) -> None:
    base, tunes = agree.models(1 if merge in agree.ONE else 2 if merge in TWO else 3, [getattr(torch, dtype)] * 4)
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
    """In steps of 408 elements: ties that may stay, counters of random numbers and sums go on from block to block."""
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
    tunes[1]["b"][70_000] = float("inf")  # which the cut or the draw may drop
    with pytest.raises(NumericalError, match="'b' at element 70,000"):
        smelt.merge(tunes, base=base, method=merge)


@pytest.mark.parametrize(("chance", "kept"), [(1.0, 2**24), (0.5, 2**23), (1e-20, 1), (0.25 + 2.0**-25, 2**22 + 1)])
def test_a_chance_is_a_number_of_hashes(chance: float, kept: int) -> None:
    """u is one of 2^24 steps from 0 on, and stays if it lies below the chance: half of them do below 1/2."""
    program = Program()
    program.load(0)
    program.store(program.draw(chance, 7, 9))
    limit = written(program).words[0][0]
    assert limit == kept * 256 - 2**31 - 1
    assert -(2**31) <= limit < 2**31


def test_what_is_not_finite_is_named_and_large_numbers_are_not(on_tensors: Callable[..., list[bool]]) -> None:
    on_tensors()
    good, bad = {"w": torch.ones(3000)}, {"w": torch.ones(3000).index_fill_(0, torch.tensor([2047]), float("nan"))}
    with pytest.raises(NumericalError, match=r"m1 .*'w' at element 2,047"):
        smelt.merge({"m0": good, "m1": bad}, method="average")
    with pytest.raises(NumericalError, match=r"m1 .*'w' at element 2,047"):  # a cut would drop it
        smelt.merge({"m0": good, "m1": bad}, base=good, method="ties")
    half = {"w": torch.full((5,), 60000.0, dtype=torch.float16)}
    with pytest.raises(NumericalError, match="can hold it"):
        smelt.merge([half, half], method={"average": {"weights": [1.0, 1.0], "normalize": False}})
    large = {"w": torch.full((5,), 3e38)}  # their sum is infinite, and none of them is
    assert torch.equal(smelt.merge([large, large], method={"average": {"weights": [0.5, 0.5]}})["w"], large["w"])


def test_a_program_reads_like_a_function_and_forgets_what_it_has_used() -> None:
    """base + 0.5 * (x - base): the model is forgotten as soon as its change is known."""
    program = Program()
    x, base = program.load(0), program.load(1)
    program.store(program.add(program.scale(program.subtract(x, base), 0.5), base))
    found = written(program)
    assert found.numbers == (0.5,)
    assert found.source.splitlines()[1:] == [
        "    found = []",
        "    r0 = load(taps[0])",
        "    r1 = load(taps[1])",
        "    r2 = subtract(r0, r1)",
        "    del r0",
        "    r3 = multiply(r2, n[0])",
        "    del r2",
        "    r4 = add(r3, r1)",
        "    del r1, r3",
        "    store(out, r4, taps)",
        "    del r4",
        "    return found, watched(taps, out)",
    ]
    out = torch.empty(2)
    assert TensorRun(program, CPU).feed([torch.tensor([1.0, 3.0]), torch.tensor([2.0, -1.0])], out) == 5.0 + 2.5
    assert out.tolist() == [1.5, 1.0]


def test_the_first_ties_stay_across_blocks() -> None:
    """Of four twos the first three stay: one of the first block, and two of the three in the second."""
    program = Program()
    program.store(program.cut(program.load(0), 1.5, equal=2.0, ties=3))
    run, out = TensorRun(program, CPU), torch.empty(4)
    run.feed([torch.tensor([1.0, -2.0, 3.0, 0.0])], out)
    assert out.tolist() == [0.0, -2.0, 3.0, 0.0]
    run.feed([torch.tensor([2.0, 2.0, -2.0, 4.0])], out)
    assert out.tolist() == [2.0, 2.0, 0.0, 4.0]


def test_a_kernel_that_gives_other_bits_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = lambda taps, out, n, w, left: (out.copy_(taps[0] * 2), ([], taps[0].sum(-1)))[1]  # noqa: E731
    monkeypatch.setattr(compiled, "_compile", lambda source: wrong)
    monkeypatch.setattr(compiled, "refused", told := [])
    program = Program()
    program.store(program.scale(program.load(0), 3.0))
    run, x = TensorRun(program, CPU, compiles=True), torch.ones(1 << 16)
    run.feed([x], out := torch.empty_like(x))
    assert not run.compiles
    assert out.unique().tolist() == [3.0]
    assert "differs by up to 1" in told[0]


def test_a_place_whose_ties_may_all_stay_has_none_to_count() -> None:
    """Two of the three twos may stay: both of the first place, and none of the second."""
    fold = Largest(lambda row, count: [2])
    places = [Place("w", 0, (4,), start, start + 2, 0.0, ("m",)) for start in (0, 2)]
    blocks = [
        Block(torch.tensor([row]), None, place) for row, place in zip([[2.0, 2.0], [2.0, 1.0]], places, strict=True)
    ]
    while fold.wants_pass:
        fold.absorb(fold.join(*(fold.look(block) for block in blocks)))
    assert [fold.at(place)[0][0].ties for place in places] == [None, 0]
