"""Whole-matrix methods on a device: which decomposition, and whether matrices of one shape should go together.

In: a device. Out: rows. `decompose`: seconds for each matrix of a float32 SVD, and of the eigenvectors of the smaller
Gram matrix in float64 and float32, one by one and as a batch; and how far the polar factor (U V^T, what Iso-C and TSV
need) and the singular values lie from those of a float64 SVD. `method`: seconds of whole merges of matrices that lie on
the device, for each matrix.

By itself it asks what bounds a factorisation on a GPU, and what else there is; four minutes, the table comes last:

    python benchmarks/gpu_spectral.py --out spectral.json [--device cuda] [--tiny] [--minutes 4]

`eigen`: one eigendecomposition after the other, by size and format, beside the time in which its tridiagonal form
moves through the memory once (n^3 / 3 numbers) and that of a product of the same size. `threads`: the same from several
threads with a stream each, for each matrix. `together`: many small ones as one batch. `polar`: the polar factor by
eigenvectors, by Newton and Schulz's iteration and by one with Cholesky factors (dynamically weighted Halley), of a
random change and of one whose singular values fall by 1e6, with how far it lies from that of a float64 SVD. `cores`:
eigendecompositions on the CPU, one on each core at once.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import smelt
from gpu_links import links, seconds, wait
from provenance import provenance
from result_file import save, say

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


def eigen(device: torch.device, sizes: list[int], copy: float) -> Iterator[dict[str, Any]]:
    """One after the other; `copy` is the bandwidth of the device's memory."""
    for size in sizes:
        for dtype in (torch.float64, torch.float32):
            gram = _random_gram(size, dtype, device)
            took = seconds(lambda gram=gram: torch.linalg.eigh(gram), device, 1)
            product = seconds(lambda gram=gram: gram @ gram, device, 2)
            memory = size**3 / 3 * dtype.itemsize / copy
            yield {"what": "eigen", "n": size, "dtype": str(dtype)[6:], "seconds": took} | {
                "memory_s": memory,
                "product_s": product,
                "product_tflops": 2 * size**3 / product / 1e12,
            }


def in_threads(device: torch.device, sizes: list[int], counts: list[int]) -> Iterator[dict[str, Any]]:
    """Seconds for each matrix when several threads have a stream each."""
    for size in sizes:
        for count in counts:
            grams = [_random_gram(size, torch.float64, device) for _ in range(count)]
            yield {"what": "threads", "n": size, "threads": count, "seconds": _in_threads(grams, device)}


def _in_threads(grams: list[Tensor], device: torch.device) -> float:
    streams = [torch.cuda.Stream(device) if device.type == "cuda" else None for _ in grams]

    def work(number: int) -> None:
        torch.set_num_threads(1)
        if streams[number] is None:
            torch.linalg.eigh(grams[number])
            return
        with torch.cuda.stream(streams[number]):
            torch.linalg.eigh(grams[number])

    with ThreadPoolExecutor(len(grams)) as pool:
        list(pool.map(work, range(len(grams))))  # loads what is needed
        wait(device)
        began = time.perf_counter()
        list(pool.map(work, range(len(grams))))
        wait(device)
    return (time.perf_counter() - began) / len(grams)


def together(device: torch.device, shapes: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """(how many, size): one call for all of them, and one call for each."""
    for count, size in shapes:
        grams = torch.stack([_random_gram(size, torch.float64, device) for _ in range(count)])
        one = seconds(lambda grams=grams: [torch.linalg.eigh(gram) for gram in grams], device, 1)
        whole = seconds(lambda grams=grams: torch.linalg.eigh(grams), device, 1)
        yield {"what": "together", "n": size, "count": count, "one_by_one_s": one / count, "seconds": whole / count}


def polars(device: torch.device, size: int) -> Iterator[dict[str, Any]]:
    """Ways to the polar factor, of float32 changes."""
    draw = torch.Generator(device).manual_seed(0)
    change = torch.randn(size, size, generator=draw, device=device)
    left, values, right = torch.linalg.svd(change.double(), full_matrices=False)
    steep = values * torch.logspace(0, -6, size, dtype=torch.float64, device=device)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "eigenvectors, float64": lambda one: _polar_by_gram(one.double()),
        "newton-schulz, float64": lambda one: _newton_schulz(one.double()),
        "newton-schulz, float32": _newton_schulz,
        "halley with cholesky, float64": lambda one: _halley(one.double()),
    }
    for kind, matrix in (("random", change), ("steep", ((left * steep) @ right).float())):
        exact = torch.linalg.svd(matrix.double(), full_matrices=False)
        wanted = exact[0] @ exact[2]
        for how, work in ways.items():
            row: dict[str, Any] = {"what": "polar", "n": size, "matrix": kind, "how": how}
            try:
                row["seconds"] = seconds(lambda work=work, matrix=matrix: work(matrix), device, 1)
                row["off"] = float((work(matrix).double() - wanted).norm() / wanted.norm())
            except RuntimeError as error:
                row["error"] = str(error)[:200]
            yield row


def on_cores(sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Alone on a core, and one on every core at once, for each matrix."""
    cores = len(os.sched_getaffinity(0))
    cpu = torch.device("cpu")
    for size in sizes:
        for count in (1, cores):
            grams = [_random_gram(size, torch.float64, cpu) for _ in range(count)]
            yield {"what": "cores", "n": size, "cores": count, "seconds": _in_threads(grams, cpu)}


def _random_gram(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    matrix = torch.randn(size, size, dtype=dtype, device=device)
    return matrix @ matrix.mT


def _polar_by_gram(matrix: Tensor) -> Tensor:
    left, _, right = _gram(matrix)
    return left @ right


def _newton_schulz(matrix: Tensor, steps: int = 60) -> Tensor:
    """From a norm below 1 on, x (3 - x^T x) / 2 until it stands still: small singular values grow by 3/2 a step."""
    x = matrix / torch.linalg.matrix_norm(matrix, ord="fro") * 1.5
    for number in range(steps):
        gram = x.mT @ x
        if number % 4 == 3 and float((gram.diagonal() - 1).abs().max()) < 100 * torch.finfo(x.dtype).eps:
            break
        x = torch.baddbmm(x[None], x[None], gram[None], beta=1.5, alpha=-0.5)[0]
    return x


def _halley(matrix: Tensor, steps: int = 8) -> Tensor:
    """Nakatsukasa, Bai and Gygi's dynamically weighted iteration (2010), with Cholesky factors throughout."""
    x = matrix / torch.linalg.matrix_norm(matrix, ord="fro")
    low = 1e-8  # below this share of the norm a direction is rounding
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    for _ in range(steps):
        d = (4 * (1 - low**2) / low**4) ** (1 / 3)
        a = (1 + d) ** 0.5 + 0.5 * (8 - 4 * d + 8 * (2 - low**2) / (low**2 * (1 + d) ** 0.5)) ** 0.5
        b, c = (a - 1) ** 2 / 4, a + (a - 1) ** 2 / 4 - 1
        factor = torch.linalg.cholesky(eye + c * (x.mT @ x))
        x = (b / c) * x + (a - b / c) * torch.cholesky_solve(x.mT, factor).mT
        low = min(1.0, low * (a + b * low**2) / (1 + c * low**2))
        if low > 1 - 1e-12:
            break
    return x


def main() -> None:
    """What bounds a factorisation, and what else there is."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--device", default="cuda")
    words.add_argument("--tiny", action="store_true", help="a few seconds: does the harness work?")
    words.add_argument("--minutes", type=float, default=4.0)
    given = words.parse_args()
    device, end = torch.device(given.device), time.monotonic() + 60 * given.minutes
    copy = links(device, 1 << 24 if given.tiny else 1 << 30)["copy"]
    found: dict[str, Any] = {"provenance": provenance([], 0), "torch": torch.__version__, "copy": copy, "rows": []}
    if given.tiny:
        parts = [eigen(device, [64], copy), in_threads(device, [64], [1, 2]), together(device, [(4, 16)])]
        parts += [polars(device, 64), on_cores([64])]
    else:
        parts = [
            eigen(device, [1024, 2048, 4096, 8192], copy),
            in_threads(device, [768, 1024, 2048, 4096], [1, 2, 4, 8]),
        ]
        parts += [
            together(device, [(64, 64), (64, 128), (64, 256), (24, 768)]),
            polars(device, 4096),
            on_cores([1024, 4096]),
        ]
    for rows in parts:
        for row in rows:
            found["rows"].append(row)
            say(str(row))
            save(given.out, found)
            if time.monotonic() > end:
                break
    print(f"{device}: {copy / 1e12:.2f} TB/s for a copy in its memory")
    for row in found["rows"]:
        told = {name: f"{one * 1e3:.2f} ms" if name.endswith(("_s", "seconds")) else one for name, one in row.items()}
        print(" | ".join(f"{name} {one}" if name != "what" else str(one) for name, one in told.items()))


if __name__ == "__main__":
    main()
