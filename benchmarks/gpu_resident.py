"""Element-wise merges of models that lie in a device's memory: how near they come to a copy of the same bytes.

In: a device, its copy bandwidth, a number of elements. Out: a row for each method and number of models: bytes, floor,
and seconds of one kernel, of the same operations one by one, and of the torch functions on float32 blocks.

The programs are those of real merges: a small one is run first, and what it would do with a block is kept and then
done with large ones. So thresholds, step lengths and weights are given, and only the merging pass is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

import smelt
from gpu_links import seconds, wait
from smelt.engine.plan.plan import Blocking
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.operations import Code
from smelt.engine.run.gpu.backend import GpuBackend
from smelt.engine.run.gpu.launch import TensorRun
from smelt.ops.block import Block
from smelt.recipe.schema import Pipeline

METHODS: dict[str, Any] = {
    "average": "average",
    "task_arithmetic": {"task_arithmetic": {"scale": 0.3}},
    "slerp": {"slerp": {"t": 0.4}},
    "model_stock": "model_stock",
    "trim": [{"trim": {"density": 0.2}}, {"task_arithmetic": {"scale": 0.3}}],
    "ties": {"ties": {"density": 0.2, "weights": 0.9}},
    "dare_linear": [{"dare": {"density": 0.2}}, {"task_arithmetic": {"scale": 0.3}}],
    "dare_ties": [{"dare": {"density": 0.2}}, {"ties": {"density": 1.0}}],
    "breadcrumbs": [{"breadcrumbs": {"density": 0.8, "top": 0.05}}, {"task_arithmetic": {"scale": 0.3}}],
    "sce": {"sce": {"density": 0.3}},
}
WITHOUT_BASE = ("average", "slerp")
AT_ONCE = 1 << 29  # elements of a call of a kernel
PLAIN_AT_ONCE = 1 << 24


class _Seen(GpuBackend):
    """Keeps what a merge does with a span."""

    calls: ClassVar[list[tuple[Any, Any, Any]]] = []

    def _merging(self, item: Any, folds: Any, span: Any) -> Any:
        program, each = super()._merging(item, folds, span)
        self.calls.append((program, item, folds))
        return program, each


def programs(method: Any, models: int, base: bool) -> tuple[Any, Any, Any]:
    """A program, an item and its folds, of a small merge. Ties are not broken: that is the work of one span of many."""
    draw = torch.Generator().manual_seed(1)
    start = {f"w{n}": torch.randn(1 << 14, generator=draw).mul_(0.02).bfloat16() for n in range(6)}
    tunes = [
        {name: (one + torch.randn(one.shape, generator=draw) * 0.001).bfloat16() for name, one in start.items()}
        for _ in range(models)
    ]
    _Seen.calls = []
    before, backend.fused = backend.fused, lambda *words: _Seen(words[0], torch.device("cpu"), *words[1:])
    try:
        smelt.merge(tunes, base=start if base else None, method=method)
    finally:
        backend.fused = before
    program, item, folds = _Seen.calls[0]
    program._ops = [(Code.ABOVE, *op[1:]) if op[0] == Code.CUT else op for op in program._ops]
    return program, item, folds


def resident(
    device: torch.device, copy: float, count: int, models: Sequence[int], tries: int
) -> Iterator[dict[str, Any]]:
    """A row for each method and number of models."""
    draw = torch.Generator(device).manual_seed(0)
    base = _made(count, device, draw, None)
    tunes = [_made(count, device, draw, base) for _ in range(max(models))]
    out = torch.empty_like(base)
    for number in models:
        for name, method in METHODS.items():
            many = 2 if name == "slerp" else number
            if name == "slerp" and number != models[0]:
                continue
            yield _row(
                name,
                method,
                [*tunes[:many], *([] if name in WITHOUT_BASE else [base])],
                out,
                copy,
                tries,
                number == models[0],
            )


def _row(
    name: str, method: Any, taps: list[Tensor], out: Tensor, copy: float, tries: int, beside: bool
) -> dict[str, Any]:
    """`beside`: whether the torch functions are timed too."""
    device, count = out.device, out.numel()
    based = name not in WITHOUT_BASE
    program, item, folds = programs(method, len(taps) - based, based)
    moved = (len(taps) + 1) * out.element_size() * count
    row = {"method": name, "models": len(taps) - based, "base": based, "elements": count, "bytes": moved}
    row["floor_s"] = moved / copy
    row["written_s"] = seconds(lambda: TensorRun(program, device), device, 3)
    began = time.perf_counter()
    TensorRun(program, device, kernels=True).feed([tap[: 1 << 20] for tap in taps], out[: 1 << 20])
    wait(device)
    row["make_s"] = time.perf_counter() - began
    for form, step in (("kernel", AT_ONCE), ("plain", PLAIN_AT_ONCE)):
        run = TensorRun(program, device, form == "kernel")
        row |= _timed(form, device, tries, lambda run=run, step=step: _fused(run, taps, out, step))
        row["kernel_used"] = row.get("kernel_used", run.kernels)
        row[f"{form}_ratio"] = row[f"{form}_s"] / row["floor_s"]
    if beside:
        row |= _timed("eager", device, 1, _Eager(item, folds, taps, out))
        row["eager_ratio"] = row["eager_s"] / row["floor_s"]
    return row


def _fused(run: TensorRun, taps: list[Tensor], out: Tensor, step: int) -> None:
    watched = [run.feed([tap[at : at + step] for tap in taps], out[at : at + step]) for at in range(0, len(out), step)]
    assert bool(torch.isfinite(torch.stack([one.sum() for one in watched]).sum()))


class _Eager:
    """The torch functions on blocks of float32, as the eager way runs them, with inputs in place."""

    def __init__(self, item: Any, folds: Any, taps: list[Tensor], out: Tensor):
        self._item, self._folds, self._taps, self._out = item, folds, taps, out
        self._pipeline = Pipeline(0, out.device)
        self._step = Blocking.for_device("cuda").block(item)

    def __call__(self) -> None:
        item, count, models = self._item, len(self._out), len(self._item.taps)
        for at in range(0, count, self._step):
            block = torch.stack([tap[at : at + self._step].float() for tap in self._taps])
            base = block[-1] if item.base is not None else None
            merged = self._pipeline.merge(item, Block(block[:models], base, item.place(0, block.shape[1])), self._folds)
            self._out[at : at + self._step].copy_(merged)


def _timed(name: str, device: torch.device, tries: int, work: Any) -> dict[str, Any]:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    took = seconds(work, device, tries)
    peak = torch.cuda.max_memory_allocated(device) - held if device.type == "cuda" else 0
    return {f"{name}_s": took, f"{name}_extra_bytes": peak}


def _made(count: int, device: torch.device, draw: torch.Generator, base: Tensor | None) -> Tensor:
    out = torch.empty(count, dtype=torch.bfloat16, device=device)
    for at in range(0, count, 1 << 26):
        noise = torch.randn(min(1 << 26, count - at), generator=draw, device=device)
        part = out[at : at + len(noise)]
        part.copy_(noise.mul_(0.02) if base is None else noise.mul_(0.001).add_(base[at : at + len(noise)]))
    return out
