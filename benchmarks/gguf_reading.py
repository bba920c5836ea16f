"""Reading a quantised GGUF model beside reading the same model in bfloat16 from safetensors, both from the page cache.

    python benchmarks/gguf_reading.py [--types Q4_K,Q8_0] [--layers 4] [--repeat 7] [-o results/gguf_reading.json]

`read` fills float32 buffers with all numbers of a model, a million at a time, in one thread: what a merge asks of a
Source. `merge` averages two models into bfloat16 in memory, in one thread. Both sides take turns within one process,
and the quickest of the repeats counts, by CPU time, which other work on the machine hardly touches. `peak` is the
anonymous memory of such a merge into a folder, as a process of its own. The model is Llama-shaped, with rows of q and k
in llama.cpp's order; its blocks are random, with scales that are finite. The bound is a ratio of 1.5.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

import smelt
from measure import measure
from provenance import provenance
from result_file import save, say
from smelt.formats.gguf.blocks import compiled_blocks
from smelt.formats.open import open_path
from smelt.formats.source import Source

WIDTH, INNER, VOCABULARY, HEADS, KEY_HEADS = 2048, 5632, 8192, 32, 8
BLOCK = 1 << 20
SCALES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": (),
}  # fmt: skip
"""Where the half-precision scales of a block begin."""
BOUND = 1.5


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """GGUF names and shapes."""
    keys = WIDTH // HEADS * KEY_HEADS
    block = {
        "attn_q": (WIDTH, WIDTH), "attn_k": (keys, WIDTH), "attn_v": (keys, WIDTH), "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER),
    }  # fmt: skip
    found = {f"blk.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in block.items()}
    return {"token_embd.weight": (VOCABULARY, WIDTH), **found}


def write_gguf(path: Path, type_: str, layers: int, seed: int) -> Path:
    kind = gguf.GGMLQuantizationType[type_]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    writer, random = gguf.GGUFWriter(path, "llama"), np.random.default_rng(seed)
    writer.add_uint32("llama.attention.head_count", HEADS)
    writer.add_uint32("llama.attention.head_count_kv", KEY_HEADS)
    for name, shape in shapes(layers).items():
        raw = random.integers(0, 256, (math.prod(shape) // block, size), dtype=np.uint8)
        for at in SCALES[type_]:
            raw[:, at : at + 2] = np.frombuffer(np.float16(0.001).tobytes(), np.uint8)
        if type_ == "MXFP4":
            raw[:, 0] = 120
        writer.add_tensor(name, raw.reshape(shape[0], -1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_bf16(path: Path, like: Source, seed: int) -> Path:
    torch.manual_seed(seed)
    save_file({name: torch.randn(info.shape).bfloat16() for name, info in like.tensors.items()}, path)
    return path


def read_all(source: Source, room: torch.Tensor) -> None:
    for name, info in source.tensors.items():
        for start in range(0, info.count, BLOCK):
            source.read(name, start, room[: min(BLOCK, info.count - start)])


def merged(paths: list[Path]) -> None:
    smelt.merge([str(path) for path in paths], method="average", dtype="bfloat16", threads=1)


def in_turns(first: Callable[[], None], second: Callable[[], None], repeat: int) -> tuple[float, float]:
    """The quickest seconds of both; each is tried once before."""
    best = [math.inf, math.inf]
    first()
    second()
    for _ in range(repeat):
        for number, work in enumerate((first, second)):
            began = time.process_time()
            work()
            best[number] = min(best[number], time.process_time() - began)
    return best[0], best[1]


def peak_bytes(paths: list[Path], out: Path) -> int:
    """The anonymous memory that a merge took at most, as a process of its own."""
    models = [word for path in paths for word in ("--model", str(path))]
    words = ["merge", "-m", "average", *models, "--dtype", "bfloat16", "--threads", "1", "-o", str(out)]
    program = [sys.executable, "-c", "from smelt.cli import process; process()"]
    found = measure([*program, *words], output=out, inputs=paths)
    if found.error:
        raise SystemExit(found.error)
    return found.peak_anon_bytes


def measured(folder: Path, type_: str, layers: int, repeat: int) -> dict[str, float]:
    files = [write_gguf(folder / f"{type_}-{seed}.gguf", type_, layers, seed) for seed in (0, 1)]
    quantised = open_path(files[0])
    plain_files = [folder / f"bf16-{seed}.safetensors" for seed in (0, 1)]
    for seed, path in enumerate(plain_files):
        if not path.exists():
            write_bf16(path, quantised, seed)
    plain, room = open_path(plain_files[0]), torch.empty(BLOCK)
    read = in_turns(lambda: read_all(plain, room), lambda: read_all(quantised, room), repeat)
    merge = in_turns(lambda: merged(plain_files), lambda: merged(files), max(1, repeat // 2))
    peaks = [peak_bytes(paths, folder / "out") for paths in (plain_files, files)]
    numbers = sum(info.count for info in quantised.tensors.values())
    for source in (quantised, plain):
        source.close()
    for path in files:
        path.unlink()
    return {
        "numbers": numbers,
        "read_bf16_seconds": read[0], "read_seconds": read[1], "read_ratio": read[1] / read[0],
        "merge_bf16_seconds": merge[0], "merge_seconds": merge[1], "merge_ratio": merge[1] / merge[0],
        "peak_bf16_bytes": peaks[0], "peak_bytes": peaks[1],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default=",".join(SCALES))
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("-o", "--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if compiled_blocks() is None:
        say("blocks.c is not compiled: what is measured here is numpy")
    versions = {name: version(name) for name in ("gguf", "numpy", "torch")}
    results: dict[str, object] = {"provenance": {**provenance([], 0), "versions": versions}, "bound": BOUND}
    types: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for type_ in asked.types.split(","):
            types[type_] = found = measured(Path(folder), type_, asked.layers, asked.repeat)
            say(
                f"{type_:7} read {found['read_ratio']:.2f}, merge {found['merge_ratio']:.2f} of bf16; peak "
                f"{found['peak_bytes'] / 1e6:.0f} MB and {found['peak_bf16_bytes'] / 1e6:.0f} MB"
            )
            save(asked.out, {**results, "types": types})
    return int(any(one["read_ratio"] > BOUND for one in types.values()))


if __name__ == "__main__":
    sys.exit(main())
