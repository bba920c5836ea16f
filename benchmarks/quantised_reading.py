"""How long it takes to read a quantised model, beside the same model in bfloat16: both from the page cache.

    python benchmarks/quantised_reading.py [--layers 8] [--repeat 15] [--formats fp8,int4] [-o OUT]

In: made-up models of square matrices (4096 by 4096, and experts for MXFP4) in every format, on disk. Out: for each
format the CPU seconds of one thread for all numbers as bytes of bfloat16, as a merge reads them, as float32, as torch
gets them, and for a whole linear merge of two such models; and their ratio to bfloat16. A round does everything once,
so that all see the same machine; ratios are of the same round, and what is given is their median with the middle half
of them. The peak of memory is of a process that reads one format alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

import smelt
from provenance import provenance
from result_file import save, say
from smelt.formats.dtype import item_size
from smelt.formats.open import open_path
from smelt.formats.quantised.code_tables import NIBBLES
from tools import find_smelt

SIDE = 4096
BLOCK = 1 << 18
"""Numbers that are read at once, about what a merge takes."""
GOAL = 1.5


def codes(rows: int, columns: int, dtype: torch.dtype = torch.uint8) -> Tensor:
    """Codes of any kind: random bytes."""
    return torch.randint(0, 256, (rows, columns * dtype.itemsize), dtype=torch.uint8).view(dtype)


def floats8(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns).to(torch.float8_e4m3fn)


def layer(kind: str) -> tuple[dict[str, Tensor], dict[str, object]]:
    """The tensors of one layer, and what a config says of them."""
    if kind == "bf16":
        return {"weight": torch.randn(SIDE, SIDE).bfloat16()}, {}
    if kind == "fp8":
        scales = torch.rand(SIDE // 128, SIDE // 128)
        said: dict[str, object] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        return {"weight": floats8(SIDE, SIDE), "weight_scale_inv": scales}, said
    if kind == "int8":
        given = {"weight": codes(SIDE, SIDE).view(torch.int8), "weight_scale": torch.rand(SIDE, 1).bfloat16()}
        return given, {"quant_method": "compressed-tensors"}
    if kind in ("int4", "int4-zeros"):
        given = {
            "weight_packed": codes(SIDE, SIDE // 8, torch.int32),
            "weight_scale": torch.rand(SIDE, SIDE // 128).bfloat16(),
            "weight_shape": torch.tensor([SIDE, SIDE]),
        }
        if kind == "int4-zeros":
            given["weight_zero_point"] = codes(SIDE // 8, SIDE // 128, torch.int32)
        return given, {"quant_method": "compressed-tensors"}
    if kind == "nvfp4":
        scales = torch.rand(SIDE, SIDE // 16).add(0.5).to(torch.float8_e4m3fn)
        given = {"weight_packed": codes(SIDE, SIDE // 2), "weight_scale": scales}
        return given | {"weight_global_scale": torch.tensor([2.0])}, {"quant_method": "compressed-tensors"}
    if kind == "nf4":
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [SIDE, SIDE]}
        given = {
            "weight": codes(SIDE * SIDE // 2, 1),
            "weight.absmax": torch.rand(SIDE * SIDE // 64),
            "weight.quant_map": torch.from_numpy(NIBBLES["nf4"]).clone(),
            "weight.quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8),
        }
        return given, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    if kind in ("gptq", "awq"):
        packed = (SIDE // 8, SIDE) if kind == "gptq" else (SIDE, SIDE // 8)
        given = {
            "qweight": codes(*packed, torch.int32),
            "qzeros": codes(SIDE // 128, SIDE // 8, torch.int32),
            "scales": torch.rand(SIDE // 128, SIDE).half(),
        }
        said = {"quant_method": kind, "bits": 4, "group_size": 128}
        if kind == "gptq":
            given["g_idx"] = torch.arange(SIDE, dtype=torch.int32) // 128
            return given, said | {"desc_act": False, "sym": False}
        return given, said | {"version": "gemm", "zero_point": True}
    powers = torch.randint(118, 124, (4, SIDE, SIDE // 4 // 32), dtype=torch.uint8)
    blocks = codes(SIDE, SIDE // 2).view(4, SIDE, SIDE // 4 // 32, 16)
    return {"experts.up_blocks": blocks, "experts.up_scales": powers}, {"quant_method": "mxfp4"}


KINDS = ("bf16", "fp8", "int8", "int4", "int4-zeros", "nvfp4", "mxfp4", "nf4", "gptq", "awq")


def make(folder: Path, kind: str, layers: int) -> None:
    """A model of so many layers; each file has one layer, so that making it takes little memory."""
    folder.mkdir()
    said: dict[str, object] = {}
    for number in range(layers):
        tensors, said = layer(kind)
        name = f"model-{number + 1:05d}-of-{layers:05d}.safetensors"
        save_file({f"layers.{number}.{part}": tensor for part, tensor in tensors.items()}, folder / name)
    config = {"model_type": "llama", "dtype": "bfloat16"} | ({"quantization_config": said} if said else {})
    (folder / "config.json").write_text(json.dumps(config))


def as_bytes(folder: Path) -> None:
    """Every number, in the format that it is offered in."""
    source = open_path(folder)
    room = bytearray(BLOCK * 2)
    for key, info in source.tensors.items():
        for start in range(0, info.count, BLOCK):
            length = min(BLOCK, info.count - start) * item_size(info.dtype)
            source.read_bytes(key, start, memoryview(room)[:length])
    source.close()


def as_float32(folder: Path) -> None:
    """Every number as float32."""
    source = open_path(folder)
    room = torch.empty(BLOCK)
    for key, info in source.tensors.items():
        for start in range(0, info.count, BLOCK):
            source.read(key, start, room[: info.count - start])
    source.close()


def merge(folder: Path) -> None:
    """The mean of the model and another that is stored alike, written to disk."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        models = {"one": str(folder), "other": str(folder.with_name(f"{folder.name}-other"))}
        smelt.merge(models, method="linear", out=str(Path(place, "out")), threads=1)


WAYS: Mapping[str, Callable[[Path], None]] = {"bytes": as_bytes, "float32": as_float32, "merge": merge}


def seconds(way: Callable[[Path], None], folder: Path) -> float:
    """Of this process's CPU: other programs on the machine count less that way."""
    began = time.process_time()
    way(folder)
    return time.process_time() - began


READ_ALONE = f"""
import sys
from pathlib import Path
from smelt.formats.dtype import item_size
from smelt.formats.open import open_path
source, room = open_path(Path(sys.argv[1])), bytearray({BLOCK} * 2)
for key, info in source.tensors.items():
    for start in range(0, info.count, {BLOCK}):
        source.read_bytes(key, start, memoryview(room)[: min({BLOCK}, info.count - start) * item_size(info.dtype)])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""
"""`as_bytes` in a process that loads nothing else; of Linux, where what `resource` tells includes the parent's peak."""


def peak_memory(folder: Path) -> int:
    """Bytes that a process of its own had at its most while it read the model as bytes."""
    command = [sys.executable, "-c", READ_ALONE, str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--layers", type=int, default=8)
    words.add_argument("--repeat", type=int, default=15)
    words.add_argument("--formats", default=",".join(KINDS[1:]))
    words.add_argument("-o", "--out", type=Path)
    given = words.parse_args()
    torch.set_num_threads(1)
    kinds = ["bf16", *given.formats.split(",")]
    found: dict[str, object] = {
        "provenance": provenance([find_smelt(None)], 0),
        "numbers": given.layers * SIDE * SIDE,
        "repeats": given.repeat,
        "goal": GOAL,
        "rows": (rows := []),
    }
    with tempfile.TemporaryDirectory() as place:
        torch.manual_seed(0)
        for kind in kinds:
            for name in (kind, f"{kind}-other"):
                make(Path(place, name), kind, given.layers)
        times: dict[tuple[str, str], list[float]] = {(kind, way): [] for kind in kinds for way in WAYS}
        for number in range(given.repeat + 1):  # the first round fills the page cache
            for (kind, way), taken in times.items():
                spent = seconds(WAYS[way], Path(place, kind))
                if number:
                    taken.append(spent)
        for (kind, way), taken in times.items():
            low, middle, high = statistics.quantiles(
                [one / plain for one, plain in zip(taken, times["bf16", way], strict=True)], n=4
            )
            row = {"format": kind, "way": way, "seconds": statistics.median(taken)}
            row |= {"ratio": middle, "ratio_from": low, "ratio_to": high}
            if way == "bytes":
                row["peak_bytes"] = peak_memory(Path(place, kind))
            rows.append(row)
            say(f"{kind:10} {way:8} {row['seconds']:.3f} s, {middle:.2f} times bf16 ({low:.2f} to {high:.2f})")
            save(given.out, found)


if __name__ == "__main__":
    main()
