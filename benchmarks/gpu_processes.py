"""Whole `smelt merge` processes on the CPU, on the GPU and with `--device auto`, in turns, with their outputs compared.

    python benchmarks/gpu_processes.py elements --out elements.json  # base and two of 3.2 B: linear, TIES, DARE+TIES
    python benchmarks/gpu_processes.py matrices --out matrices.json  # a layer of 8 B shapes: Iso-C, TSV, WUDI, RegMean
    python benchmarks/gpu_processes.py matrices --size tiny --devices cpu --out try.json  # does the harness work?

Models are made by checkpoints.py, in memory where there is room, and kept for the next run with the same --scratch.
Inputs are in the page cache, and hashed once before. Elements must come out with the same bytes on every device;
of matrices, the largest difference is told. Matrix methods are run on a few layers: what more of them cost shows a
second run with other --layers.

A process that takes longer than --limit is stopped, and noted as such. The table comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from agreement import compare_outputs
from checkpoints import SIZES, Spec, ensure
from provenance import provenance
from result_file import save, say

ELEMENTS: dict[str, Any] = {
    "linear": "average",
    "ties": {"ties": {"density": 0.2}},
    "dare_ties": [{"dare": {"density": 0.2}}, {"ties": {"density": 1.0}}],
}
MATRICES: dict[str, Any] = {"iso_c": "iso_c", "tsv": "tsv", "wudi": "wudi", "regmean": "regmean"}
LAYER_8B = Spec(hidden=4096, layers=1, inter=14336, vocab=1024, heads=32, kv_heads=8, fine_tunes=2)
SMELT = [sys.executable, "-c", "from smelt.cli import main; main()"]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("part", choices=["elements", "matrices"])
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--size", choices=["3b", "1b", "0.48b", "tiny", "8b-layers"], help="3b, or 8b-layers")
    words.add_argument("--layers", type=int, help="of matrices: 1 by default")
    words.add_argument("--methods", help="with commas")
    words.add_argument("--devices", default="cuda,auto,cpu", help="in this order")
    words.add_argument("--repeat", type=int, default=1)
    words.add_argument("--scratch", type=Path)
    words.add_argument(
        "--memory", default="90GB", help="--memory of matrix merges on the CPU: the default is two threads"
    )
    words.add_argument("--limit", type=float, default=150.0, help="seconds of one process")
    words.add_argument("--minutes", type=float, default=4.0)
    given = words.parse_args()
    run = _Run(given)
    try:
        run.all()
    finally:
        run.finish()


class _Run:
    def __init__(self, given: argparse.Namespace):
        self.given, self.matrices = given, given.part == "matrices"
        size = given.size or ("8b-layers" if self.matrices else "3b")
        spec = LAYER_8B if size == "8b-layers" else replace(SIZES[size], fine_tunes=2)
        self.spec = replace(spec, layers=given.layers or spec.layers)
        known = MATRICES if self.matrices else ELEMENTS
        self.methods = {name: known[name] for name in (given.methods.split(",") if given.methods else known)}
        self.end = time.monotonic() + 60 * given.minutes
        needed = self.spec.parameters * self.spec.itemsize * 6
        self.folder = (given.scratch or _scratch(needed)) / f"{given.part}-{size}-{self.spec.layers}"
        self.rows: list[dict[str, Any]] = []
        self.found: dict[str, Any] = {
            "provenance": provenance([], 0),
            "part": given.part,
            "parameters": self.spec.parameters,
            "layers": self.spec.layers,
            "scratch_in_memory": str(self.folder).startswith("/dev/shm"),
            "rows": self.rows,
        }

    def all(self) -> None:
        began = time.monotonic()
        ensure(self.folder, self.spec)
        self.found["making_models_s"] = time.monotonic() - began
        say(f"models: {self.folder}, {time.monotonic() - began:.1f} s")
        # hashes its inputs, which later runs remember; and warms the page cache
        self._merge("linear", "average", "cpu", note=False)
        for name, method in self.methods.items():
            if name == "regmean":
                _make_grams(self.folder, self.spec)
            for _ in range(self.given.repeat):
                for device in self.given.devices.split(","):
                    self._merge(name, method, device)
            self._compare(name)

    def finish(self) -> None:
        for name in self.methods:
            for device in ("cpu", "cuda", "auto"):
                shutil.rmtree(self._out(name, device), ignore_errors=True)
        save(self.given.out, self.found)
        print(_table(self.rows, self.found))

    def _out(self, name: str, device: str) -> Path:
        return self.folder / f"out-{name}-{device}"

    def _merge(self, name: str, method: Any, device: str, *, note: bool = True) -> None:
        left = self.end - time.monotonic()
        row: dict[str, Any] = {"method": name, "device": device}
        if left < 5:
            row["error"] = "not run: time is up"
        else:
            row |= self._timed(name, method, device, min(left, self.given.limit))
        if not note:
            return
        self.rows.append(row)
        say(json.dumps(row))
        save(self.given.out, self.found)

    def _timed(self, name: str, method: Any, device: str, limit: float) -> dict[str, Any]:
        out = self._out(name, device)
        shutil.rmtree(out, ignore_errors=True)
        models = {f"ft{number + 1}": str(self.folder / f"ft{number + 1}") for number in range(2)}
        recipe: dict[str, Any] = {"pool": {"base": str(self.folder / "base"), "models": models}, "merge": method}
        if name == "linear":
            recipe["pool"].pop("base")
        if name == "regmean":
            recipe["statistics"] = {model: str(self.folder / "grams" / model) for model in models}
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(recipe))
        asked = ["merge", str(file), "-o", str(out), "--device", device, "--json"]
        asked += ["--memory", self.given.memory] if self.matrices and device == "cpu" else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        try:
            done = subprocess.run([*SMELT, *asked], capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return {"error": f"stopped after {limit:.0f} s", "at_least_s": limit}
        took = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            return {"error": done.stderr[-600:]}
        threads = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        said = json.loads(done.stdout)
        return {"seconds": took, "thread_seconds": threads, "merge_s": said["seconds"]} | {
            "notes": [line for line in said["notes"] if line.startswith("device auto")]
        }

    def _compare(self, name: str) -> None:
        """Beside the CPU's output, or the first that is there."""
        there = [device for device in ("cpu", "cuda", "auto") if (self._out(name, device) / "manifest.json").exists()]
        for device in there[1:]:
            first, other = self._out(name, there[0]), self._out(name, device)
            same = _hashes(first) == _hashes(other)
            row: dict[str, Any] = {"method": name, "compared": [there[0], device], "same_bytes": same}
            if not same:
                gap = compare_outputs(first, other, values=True)
                row |= {"problems": gap.problems, "max_abs_difference": gap.max_abs_difference}
                row |= {"differing_share": gap.differing_share}
            self.found.setdefault("agreement", []).append(row)
            say(json.dumps(row))
        for device in there:
            shutil.rmtree(self._out(name, device), ignore_errors=True)


def _hashes(folder: Path) -> dict[str, str]:
    """Of the files with weights, from the manifest."""
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: str(one) for name, one in files.items() if name.endswith(".safetensors")}


def _make_grams(folder: Path, spec: Spec) -> None:
    """Gram matrices of random inputs for all layers but the widest, whose own are 14,336 x 14,336."""
    if (folder / "grams" / "ft2" / "statistics.json").exists():
        return
    import torch

    from smelt.formats.statistics import ExampleRun, StatisticsNote, write_statistics

    device = "cuda" if torch.cuda.is_available() else "cpu"
    for number in (1, 2):
        draw = torch.Generator(device).manual_seed(number)
        sums, tied = {}, {}
        for layer in range(spec.layers):
            prefix = f"model.layers.{layer}."
            for names in (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",)):
                sums |= {f"{prefix}{names[0]}.weight": _gram(spec.hidden, draw, device)}
                tied |= {f"{prefix}{name}.weight": f"{prefix}{names[0]}.weight" for name in names[1:]}
            sums[f"{prefix}mlp.gate_proj.weight"] = _gram(spec.hidden, draw, device)
            tied[f"{prefix}mlp.up_proj.weight"] = f"{prefix}mlp.gate_proj.weight"
        data = (ExampleRun(task="random", examples=1, hash="0"),)
        note = StatisticsNote(
            kind="gram", estimator="inputs", model=f"ft{number}", model_hash="0", data=data, examples=1, tied=tied
        )
        write_statistics(folder / "grams" / f"ft{number}", note, sums)


def _gram(size: int, draw: Any, device: str) -> Any:
    import torch

    inputs = torch.randn(2 * size, size, generator=draw, device=device, dtype=torch.float64)
    return (inputs.mT @ inputs).cpu()


def _scratch(needed: int) -> Path:
    """A folder in memory where there is room, else among the temporary files."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 1.2 * needed
    return (memory if roomy else Path(tempfile.gettempdir())) / "smelt-gpu-processes"


def _table(rows: list[dict[str, Any]], found: dict[str, Any]) -> str:
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["method"], row["device"])
        if key not in best or row.get("seconds", 1e9) < best[key].get("seconds", 1e9):
            best[key] = row
    cores = len(os.sched_getaffinity(0))
    lines = [f"{found['parameters'] / 1e9:.2f} B parameters, {found['layers']} layers, {cores} cores"]
    lines += ["method | cpu | cuda | auto | cuda is | same bytes / max difference"]
    for name in dict.fromkeys(row["method"] for row in rows):
        cpu, cuda, auto = (best.get((name, device), {}) for device in ("cpu", "cuda", "auto"))
        times = [_time(one) for one in (cpu, cuda, auto)]
        ratio = f"{cpu['seconds'] / cuda['seconds']:.1f} x" if "seconds" in cpu and "seconds" in cuda else ""
        lines.append(" | ".join([name, *times, ratio, _agreement(name, found)]))
    for row in rows:
        lines += [f"{row['method']}: {note}" for note in row.get("notes", [])]
    return "\n".join(lines)


def _agreement(name: str, found: dict[str, Any]) -> str:
    said = []
    for row in found.get("agreement", []):
        if row["method"] == name:
            what = (
                "same" if row["same_bytes"] else f"{row.get('max_abs_difference')}, {row.get('differing_share')} differ"
            )
            said.append(f"{'-'.join(row['compared'])}: {what}")
    return "; ".join(said)


def _time(row: dict[str, Any]) -> str:
    if "seconds" in row:
        return f"{row['seconds']:.1f} s"
    return f"over {row['at_least_s']:.0f} s" if "at_least_s" in row else row.get("error", "")[-60:].replace("\n", " ")


if __name__ == "__main__":
    main()
