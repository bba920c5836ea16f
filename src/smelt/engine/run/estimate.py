"""About how long a plan takes on a CPU and on a GPU: good enough to choose between them, and called an estimate.

In: a plan, a number of cores and of GPUs. Out: seconds of a whole process. Both ways read, hash and write the same
files, so what decides is the start of the GPU way (torch, a context, pinned memory) against the work that it takes
over. Merges of elements are bound by the files; factorisations of matrices are not.

The constants are round numbers from measurements on 16 cores and an H200 (docs/results/speed.md, "On a GPU";
results/gpu.json) and by the number of cores (results/threads.json). On another machine the estimate is off by as much
as that machine is another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.formats.source import MemorySource

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, Plan

__all__ = ["Estimate", "Matrices", "estimate", "matrices_of", "shown_seconds"]

_PROCESS = 0.3
"""Seconds of any merge: the interpreter, headers, the plan, small files."""
_TORCH = 3.5
"""Seconds to import torch. A merge on a CPU needs it only for stages without a rule, such as those of matrices."""
_GPU_START = 2.0
"""Seconds beside it: a CUDA context (1 to 1.5), kernels and pinned buffers."""
_FILES_PER_CORE, _FILES = 2.3e9, 14e9
"""Bytes per second that are read, hashed and written: 18.1 GB in 3.9 s on two cores, in 1.2 s on 16."""
_CORE_BYTES = 1.5e9
"""Bytes per second of one pass of the vector machine on a core, with reading: 36 GB of TIES in 10.6 s on two cores."""
_LINK_BYTES = 9.0e9
"""The same of blocks that go to a GPU and come back: 3.9 GB in 0.43 s, bound by threads that read."""
_EIGEN = 9
"""Operations of an eigendecomposition with its vectors, as a multiple of n^3."""
_CORE_OPERATIONS = 30e9
"""Per second, of a core that factorises in float64 while others do: 57e9 alone at n = 2,048, 44e9 at 1,024."""
_GPU_COLUMN = 11e-6
"""Seconds that a GPU waits for each column of an eigendecomposition: 2.2 ms at n = 256, 8.2 at 768, 28 at 2,048."""
_GPU_OPERATIONS = 8e12
"""Per second, of a large eigendecomposition, whose tridiagonal form is bound by the memory."""
_GPU_PRODUCTS = 40e12
"""Per second, of products in float64."""


@dataclass(frozen=True)
class Matrices:
    """What the stages of whole matrices have to do."""

    factorised: int = 0
    """How many matrices are factorised."""
    columns: int = 0
    """The sides of the smaller Gram matrices of these, added up."""
    eigen: float = 0.0
    """Operations of their eigendecompositions."""
    products: float = 0.0
    """Operations of products."""

    def __add__(self, other: Matrices) -> Matrices:
        return Matrices(
            self.factorised + other.factorised,
            self.columns + other.columns,
            self.eigen + other.eigen,
            self.products + other.products,
        )


@dataclass(frozen=True)
class Estimate:
    """Seconds of the whole process."""

    cpu: float
    cuda: float


def estimate(plan: Plan, cores: int, gpus: int = 1) -> Estimate:
    """Of a merge into files, or into memory where the models lie in memory; torch is loaded there already."""
    folds: dict[int, bool] = {}
    streamed = sum(item.bytes_in * _passes(item, folds) for item in plan.items)
    matrices = sum((matrices_of(item) for item in plan.items), Matrices())
    in_memory = any(isinstance(source, MemorySource) for source in plan.parents.values())
    files = 0.0 if in_memory else (plan.bytes_in + plan.bytes_out) / min(cores * _FILES_PER_CORE, _FILES)
    torch = 0.0 if in_memory else _TORCH
    on_cores = streamed / (cores * _CORE_BYTES) + (matrices.eigen + matrices.products) / (cores * _CORE_OPERATIONS)
    on_gpus = matrices.columns * _GPU_COLUMN + matrices.eigen / _GPU_OPERATIONS + matrices.products / _GPU_PRODUCTS
    cpu = _PROCESS + (torch if matrices.factorised else 0.0) + max(files, on_cores)
    cuda = _PROCESS + torch + _GPU_START + max(files, streamed / _LINK_BYTES, on_gpus / max(1, gpus))
    return Estimate(cpu, cuda)


def matrices_of(item: Item) -> Matrices:
    """One factorisation for each model and one for what they share, for each stage that takes whole matrices.

    What a stage really computes it alone knows: TSV factorises one more than this, Iso-C only one. Both devices have
    the same work either way.
    """
    stages = sum(run.stage.unit_for(run.parameters) == "matrix" for run in item.stages)
    if not stages or not item.info.count:
        return Matrices()
    matrix = item.matrix_items[0]
    rows = matrix.info.shape[0]
    columns = matrix.info.count // rows
    models, several = len(item.taps), len(item.matrix_items)
    if item.statistics_kind == "gram":  # one system of equations for all models
        solved = columns**3 / 3 + 2.0 * rows * columns**2 * (models + 1)
        return Matrices(several, 0, 0.0, several * solved)
    small, large = min(rows, columns), max(rows, columns)
    count = stages * several * (models + 1)
    return Matrices(
        count, count * small, float(count * _EIGEN * small**3), float(count * 3 * 2 * small * small * large)
    )


def _passes(item: Item, folds: dict[int, bool]) -> int:
    """How often an item is read: to merge it, and once for each stage that must see all of it first.

    `folds` remembers of which stages that is so: those of many tensors are one object.
    """
    for run in item.stages:
        if id(run) not in folds:
            folds[id(run)] = run.stage.fold_for(run.parameters) is not None
    return 1 + sum(folds[id(run)] for run in item.stages)


def shown_seconds(seconds: float) -> str:
    """`about 12 s`, `about 40 min`: no more digits than an estimate has."""
    if seconds < 10:
        return f"about {seconds:.1f} s"
    if seconds < 600:
        return f"about {math.ceil(seconds)} s"
    return f"about {math.ceil(seconds / 60)} min"
