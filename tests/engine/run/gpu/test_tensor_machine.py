"""The operations of the vector machine in torch give the numbers of machine.c, and so does one kernel."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import smelt
from fused_pipelines import ONE, PIPELINES, TWO, fine_tunes
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.program import Program
from smelt.engine.run.gpu import backend as device
from smelt.engine.run.gpu import kernel
from smelt.engine.run.gpu.backend import GpuBackend
from smelt.engine.run.gpu.codegen import generate, torch_source
from smelt.engine.run.gpu.kernel import is_exact
from smelt.engine.run.gpu.launch import TensorRun
from smelt.errors import NumericalError
from smelt.ops.block import Block, Place
from smelt.ops.order import Largest

ELEMENTS = [one for one in PIPELINES if not any(word in str(one) for word in ("della", "'row'"))]
PAIRS = [one for one in TWO if "'row'" not in str(one)]
SINGLES = [one for one in ONE if one != "arcee_fusion"]
CPU = torch.device("cpu")
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="NOT TESTED HERE: Triton's interpreter is not there, or Triton compiles for a GPU (see test_cuda.py)",
)


@pytest.fixture
def on_tensors(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Have the CPU's items run as those of a GPU would, and tell which were taken."""

    def begin(kernels: bool = False, block: int = 1 << 24) -> list[bool]:
        taken: list[bool] = []

        class Watched(GpuBackend):
            def supports(self, item: Any) -> bool:
                taken.append(super().supports(item))
                return taken[-1]

        monkeypatch.setattr(device, "_BLOCK", block)
        monkeypatch.setattr(device, "_STEP", 8)
        monkeypatch.setattr(
            backend, "vector_backend", lambda seed, write, advance, *_: Watched(seed, CPU, write, advance, kernels)
        )
        return taken

    return begin


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("merge", [*ELEMENTS, *PAIRS, *SINGLES], ids=str)
def test_a_merge_on_tensors_is_that_of_the_other_backends(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], merge: Any, dtype: str
) -> None:
    base, tunes = fine_tunes(1 if merge in ONE else 2 if merge in PAIRS else 3, [getattr(torch, dtype)] * 4)
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
    base, tunes = fine_tunes(3, [torch.bfloat16] * 4)
    expected = smelt.merge(tunes, base=base, method=merge)
    on_tensors(block=4096)
    ours = smelt.merge(tunes, base=base, method=merge)
    assert all(torch.equal(ours[name], one) for name, one in expected.items())


@needs_triton
@pytest.mark.parametrize("merge", [*ELEMENTS, *PAIRS, *SINGLES], ids=str)
def test_a_kernel_gives_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], merge: Any
) -> None:
    """Merges and what they gather before, by kernels that Triton's interpreter runs."""
    base, tunes = fine_tunes(1 if merge in ONE else 2 if merge in PAIRS else 3, [torch.bfloat16] * 4)
    expected = smelt.merge(tunes, base=base, method=merge)
    ours = _by_kernels(monkeypatch, on_tensors, tunes, base, merge)
    for name, one in expected.items():
        assert torch.equal(ours[name], one), (name, (ours[name].float() - one.float()).abs().max())


def _by_kernels(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], tunes: Any, base: Any, merge: Any
) -> Any:
    """A merge for which kernels are made, all of which are used."""
    made = _seen(monkeypatch)
    on_tensors(kernels=True)
    ours = smelt.merge(tunes, base=base, method=merge)
    assert made
    assert None not in made, kernel.refused
    return ours


def _seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The kernels that are made from here on; None for one that is not used."""
    made: list[Any] = []
    make = kernel._made
    monkeypatch.setattr(kernel, "_KNOWN", {})
    monkeypatch.setattr(kernel, "_made", lambda *words: made.append(make(*words)) or made[-1])
    return made


@needs_triton
@pytest.mark.filterwarnings("ignore:invalid value")  # of the interpreter, which meets an infinity here
def test_tensors_share_a_kernel_and_what_is_not_finite_is_named(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]]
) -> None:
    """DARE and TIES: draws, cuts, elections, fused multiply-adds and a division in one kernel, for all tensors."""
    draw = torch.Generator().manual_seed(3)
    base = {"a": torch.randn(3 * 1024 + 5, generator=draw), "b": torch.randn(3 << 12, generator=draw)}
    base = {name: one.bfloat16() for name, one in base.items()}
    tunes = [
        {n: (one + 0.01 * torch.randn(one.shape, generator=draw)).bfloat16() for n, one in base.items()} for _ in "12"
    ]
    merge = [{"dare": {"density": 0.5}}, {"ties": {"density": 1.0, "weights": [0.7, 0.4]}}]
    expected = smelt.merge(tunes, base=base, method=merge)
    made = _seen(monkeypatch)
    on_tensors(kernels=True)
    ours = smelt.merge(tunes, base=base, method=merge)
    assert len(made) == 1
    assert made[0] is not None, kernel.refused
    assert all(torch.equal(ours[name], one) for name, one in expected.items())
    tunes[1]["b"][7_000] = float("inf")  # which the cut or the draw may drop
    with pytest.raises(NumericalError, match="'b' at element 7,000"):
        smelt.merge(tunes, base=base, method=merge)


@needs_triton
def test_a_pass_that_nothing_came_by_has_found_nothing() -> None:
    program = Program()
    op, found = program.bracket(program.load(0), (0, 9), 8, zeros=True)
    run = TensorRun(program, CPU, kernels=True)
    run.finish()
    assert run.count(op) == 0
    assert not found[:8].any()


@needs_triton
@pytest.mark.parametrize("merge", [[{"dare": {"density": 0.3}}, "ties"], "sce", "ram", "model_stock"], ids=str)
def test_numbers_near_the_end_of_the_range_are_divided_in_the_plain_form(
    monkeypatch: pytest.MonkeyPatch, on_tensors: Callable[..., list[bool]], merge: Any
) -> None:
    """Changes from 1e-45 on, of weights that are no larger: x (1/p) has no digits left to be corrected there."""
    draw = torch.Generator().manual_seed(4)
    scale = 10.0 ** torch.linspace(-45, -20, 3000)
    base = {"w": torch.randn(3000, generator=draw) * scale}
    tunes = [{"w": base["w"] + torch.randn(3000, generator=draw) * scale} for _ in "123"]
    expected = smelt.merge(tunes, base=base, method=merge)
    ours = _by_kernels(monkeypatch, on_tensors, tunes, base, merge)
    assert torch.equal(ours["w"].view(torch.int32), expected["w"].view(torch.int32))


@pytest.mark.parametrize("divisor", [3.0, 0.2, 8.0, 0.53])
def test_a_product_with_the_inverse_and_one_correction_is_a_quotient(divisor: float) -> None:
    assert is_exact(float(np.float32(divisor)), CPU)
    assert not is_exact(1e-30, CPU)


@needs_triton
def test_a_kernel_holds_what_lies_inside_a_bracket() -> None:
    """Of 0 to 6 with the ends 2 and 5: one is above, one at each end, 3 and 4 are inside; one is as good as zero."""
    program = Program()
    two, five = (int(np.float32(end).view(np.uint32)) for end in (2, 5))
    op, found = program.bracket(program.load(0), (two, five), 8, zeros=True)
    run = TensorRun(program, CPU, kernels=True)
    for block in ([1.0, -2.0, 3.0], [-4.0, 5.0, -6.0, 0.0]):
        run.feed([torch.tensor(block)])
        run.settle()
    run.finish()
    assert run.kernels
    assert found[:8].view(np.int64).tolist() == [1, 1, 1, 1]
    assert sorted(found[8 : 8 + run.count(op)].view(np.float32).tolist()) == [3.0, 4.0]


@pytest.mark.parametrize(("chance", "kept"), [(1.0, 2**24), (0.5, 2**23), (1e-20, 1), (0.25 + 2.0**-25, 2**22 + 1)])
def test_a_chance_is_a_number_of_hashes(chance: float, kept: int) -> None:
    """u is one of 2^24 steps from 0 on, and stays if it lies below the chance: half of them do below 1/2."""
    program = Program()
    program.load(0)
    program.store(program.draw(chance, 7, 9))
    limit = generate(program).words[0][0]
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
    found = generate(program)
    assert found.numbers == (0.5,)
    assert torch_source(found, 2).splitlines() == [
        "def merged(tap0, tap1, out, n0):",
        "    found = []",
        "    r0 = load(tap0)",
        "    r1 = load(tap1)",
        "    r2 = subtract(r0, r1)",
        "    del r0",
        "    r3 = multiply(r2, n0)",
        "    del r2",
        "    r4 = add(r3, r1)",
        "    del r1, r3",
        "    store(out, r4)",
        "    del r4",
        "    return found, watched(out, tap0, tap1)",
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


@needs_triton
def test_a_kernel_that_gives_other_bits_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel.kernel_source
    monkeypatch.setattr(
        kernel, "kernel_source", lambda *words: right(*words).replace("multiply(r0, n0)", "add(r0, n0)")
    )
    monkeypatch.setattr(kernel, "_KNOWN", {})
    monkeypatch.setattr(kernel, "refused", told := [])
    program = Program()
    program.store(program.scale(program.load(0), 3.0))
    run, x = TensorRun(program, CPU, kernels=True), torch.ones(1 << 12)
    run.feed([x], out := torch.empty_like(x))
    assert not run.kernels
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
