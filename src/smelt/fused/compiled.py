"""A written program as one kernel, made by torch.compile: for each element all is read once and written once.

The kernel must give the bits of the plain form (`words.py`), because which of the two is used depends on the size of a
merge and on the machine. Inductor is told not to contract products and sums, to divide exactly and to keep small
numbers; and the first block of each program is run in both forms. If a bit differs, the plain form is used.
"""

from __future__ import annotations

import itertools
import linecache
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from smelt.fused import words
from smelt.fused.written import Written

__all__ = ["ROW", "Function", "compiled", "plain", "refused", "signed"]

Function: TypeAlias = Callable[..., tuple[list[tuple[Tensor, ...]], Tensor | None]]
"""Gives the registers that are gathered, and what watches; None where the result is to be summed."""
ROW = 1024
"""Elements of a row of the blocks that a compiled function takes."""
_EXACT = {
    "emulate_precision_casts": True,  # which also keeps Triton from contracting a product and a sum
    "eager_numerics.division_rounding": True,
    "eager_numerics.disable_ftz": True,
    "cpp.enable_floating_point_contract_flag": "off",
}
_PLAIN: dict[str, Function] = {}
_COMPILED: dict[tuple[str, tuple[torch.dtype, ...], torch.device], Function | None] = {}
_NUMBERS = itertools.count()
_LOCK = threading.Lock()
refused: list[str] = []
"""What is known of kernels that are not used."""


def plain(source: str) -> Function:
    """The function that a source defines, one kernel for each line."""
    if source not in _PLAIN:
        _PLAIN[source] = _defined(source, words)
    return _PLAIN[source]


def compiled(program: Written, taps: Sequence[Tensor], out: Tensor | None) -> Function | None:
    """One kernel for these formats, tried out on the first rows of what it will be given; None if it fails."""
    key = (program.source, tuple(one.dtype for one in [*taps, *([out] if out is not None else [])]), taps[0].device)
    if key not in _COMPILED:
        with _LOCK:
            if key not in _COMPILED:
                try:
                    _COMPILED[key] = _made(program, [tap[:1024].clone() for tap in taps], out)
                except Exception as error:  # of a compiler that is not there, or not up to it: the plain form is
                    _COMPILED[key] = None
                    _not_used(program, f"could not be made ({error})")
    return _COMPILED[key]


def _made(program: Written, taps: list[Tensor], out: Tensor | None) -> Function | None:
    ours, theirs = (torch.empty_like(out[:1024]) if out is not None else None for _ in range(2))
    for one in [*taps, *([ours] if ours is not None else [])]:
        torch._dynamo.mark_dynamic(one, 0)
    made = _compile(program.source)
    low = [value for value, _ in program.words]
    numbers = torch.tensor(program.numbers, dtype=torch.float32, device=taps[0].device)
    keys = torch.tensor(signed(low), dtype=torch.int32, device=taps[0].device)
    found, _ = made(taps, ours, numbers, keys, ())
    flat = None if theirs is None else theirs.view(-1)
    expected, _ = plain(program.source)([tap.view(-1) for tap in taps], flat, program.numbers, signed(low), ())
    pairs = [
        (a.reshape(-1), b)
        for left, right in zip(found, expected, strict=True)
        for a, b in zip(left, right, strict=True)
    ]
    if ours is not None and flat is not None:
        pairs.append((ours.view(-1), flat))
    if all(torch.equal(left, right) for left, right in pairs):
        return made
    worst = max(float((left.float() - right.float()).abs().max()) for left, right in pairs)
    _not_used(program, f"differs by up to {worst:g}")
    return None


def _not_used(program: Written, reason: str) -> None:
    refused.append(f"{reason}:\n{program.source}")
    logging.getLogger(__name__).warning("a compiled merge is not used: it %s", reason)


def _compile(source: str) -> Function:
    from smelt.fused import apart, traced  # which load the compiler

    known = torch._inductor.list_options()
    vocabulary = apart if "draw(" in source and "store(" in source else traced
    options: Any = {name: value for name, value in _EXACT.items() if name in known}
    made: Function = torch.compile(_defined(source, vocabulary), fullgraph=True, options=options)
    return made


def signed(values: Sequence[int]) -> list[int]:
    """Words of 32 bits as torch holds them."""
    return [((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) for value in values]


def _defined(source: str, vocabulary: Any) -> Function:
    names = {name: value for name, value in vars(vocabulary).items() if not name.startswith("_")}
    file = f"<merged {next(_NUMBERS)}>"
    linecache.cache[file] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        file,
    )  # torch asks where it comes from
    exec(compile(source, file, "exec"), names)
    function: Function = names["merged"]
    return function
