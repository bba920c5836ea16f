"""Whole-matrix methods on a device: which decomposition, and whether matrices of one shape should go together.

In: a device. Out: rows. `decompose`: seconds for each matrix of a float32 SVD, and of the eigenvectors of the smaller
Gram matrix in float64 and float32, one by one and as a batch; and how far the polar factor (U V^T, what Iso-C and TSV
need) and the singular values lie from those of a float64 SVD. `method`: seconds of whole merges of matrices that lie on
the device, for each matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import smelt
from gpu_links import seconds

METHODS: dict[str, Any] = {
    "iso_c": "iso_c",
    "iso_cts": "iso_cts",
    "tsv": "tsv",
    "wudi": "wudi",
    "svc": ["task_arithmetic", "svc"],
    "knots": ["knots", "ties"],
    "core_space": ["core_space", "task_arithmetic"],
}


def spectral(device: torch.device, shapes: list[tuple[int, int]], batch: int, tries: int) -> Iterator[dict[str, Any]]:
    """Rows for each shape."""
    draw = torch.Generator(device).manual_seed(0)
    for rows, columns in shapes:
        stack = torch.randn(batch, rows, columns, generator=draw, device=device).mul_(0.001)
        shape = {"rows": rows, "columns": columns, "batch": batch}
        exact = torch.linalg.svd(stack[0].double(), full_matrices=False)
        for name, work in _decompositions().items():
            for together in (False, True):
                yield (
                    shape
                    | {"what": "decompose", "how": name, "together": together}
                    | _decomposed(work, stack, together, exact, tries)
                )
        base = {"w": torch.zeros(rows, columns, device=device)}
        models = [{"w": one} for one in stack[:3]]
        for name, method in METHODS.items():
            took = seconds(_merging(models, base, method, device), device, tries)
            yield shape | {"what": "method", "how": name, "models": 3, "seconds": took}


def _merging(models: list[dict[str, Tensor]], base: dict[str, Tensor], method: Any, device: torch.device) -> Any:
    return lambda: smelt.merge(models, base=base, method=method, device=str(device))


def _decomposed(work: Callable[[Tensor], Any], stack: Tensor, together: bool, exact: Any, tries: int) -> dict[str, Any]:
    try:
        took = seconds(lambda: work(stack) if together else [work(one) for one in stack], stack.device, tries)
        left, values, right = work(stack[0])
    except RuntimeError as error:
        return {"error": str(error)[:200]}
    polar, wanted = left.double() @ right.double(), exact[0] @ exact[2]
    return {
        "seconds": took / len(stack),
        "values_off": float(((values.double() - exact[1]) / exact[1]).abs().max()),
        "polar_off": float((polar - wanted).norm() / wanted.norm()),
    }


def _decompositions() -> dict[str, Callable[[Tensor], Any]]:
    return {
        "svd_float32": lambda one: torch.linalg.svd(one, full_matrices=False),
        "gram_float64": lambda one: _gram(one.double()),
        "gram_float32": _gram,
    }


def _gram(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By the eigenvectors of the smaller Gram matrix."""
    if matrix.shape[-2] > matrix.shape[-1]:
        right, values, left = _gram(matrix.mT)
        return left.mT, values, right.mT
    left = torch.linalg.eigh(matrix @ matrix.mT)[1].flip(-1)
    right = left.mT @ matrix
    values = torch.linalg.vector_norm(right, dim=-1)
    return left, values, right / values[..., None]
