"""Llama 3.1 405B and 70B, a base and three models, as sparse files: the plan, and one layer merged by workers.

    python benchmarks/plan_405b.py [405b 70b] [--tiny] [--workers 2] [--work .bench/sparse] [-o results/plan_405b.json]

`smelt plan` is a whole process: seconds, and its peak of resident memory. Then all tensors of one layer are merged by
worker processes, as units of the whole plan and into shards of the whole output, where those of other layers are taken
for finished: 25 GB are read and 6.4 GB written of the 405B. The holes hold numbers here and there: what is written
there is compared with the same sum in numpy. Everything is deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from measure import measure
from provenance import provenance
from result_file import save, say
from smelt.engine.cluster.driver import execute_by_workers
from smelt.engine.cluster.units import cut, unit_size
from smelt.engine.merge import Cluster, Options, planned
from smelt.engine.run.cpu.backend import VectorBackend
from smelt.engine.sink.output import OutputFolder
from smelt.engine.sink.sink import FolderSink
from smelt.files.hashing.input_hashes import InputHashes
from smelt.formats import dtype as dtypes
from smelt.recipe.schema import Recipe
from sparse_models import LLAMA, write_sparse
from tools import find_smelt

MODELS = ("a", "b", "c")
METHODS = ("task_arithmetic", "ties")
SCALE, RUN = 0.5, 1 << 16
LAYER = "model.layers.2."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=["405b", "70b"])
    parser.add_argument("--tiny", action="store_true", help="a very small model: does it work?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(".bench/sparse"))
    parser.add_argument("--smelt", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    work, tool = given.work.resolve(), find_smelt(given.smelt)
    os.environ["SMELT_CACHE"] = str(work / "cache")
    found: dict[str, Any] = {"provenance": provenance([tool], 0), "models": {}}
    for size in ["tiny"] if given.tiny else given.sizes:
        folder = work / size
        shutil.rmtree(folder, ignore_errors=True)
        try:
            for name in ("base", *MODELS):
                write_sparse(folder / name, LLAMA[size])
            about = {"parameters": LLAMA[size].parameters, "files": len(list(folder.glob("*/*.safetensors")))}
            found["models"][size] = {**about, "plan": plans(tool.executable, folder)}
            save(given.output, found)
            found["models"][size]["layer"] = one_layer(folder, given.workers)
            save(given.output, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    json.dump(found["models"], sys.stdout, indent=1)


def plans(smelt: Path, folder: Path) -> dict[str, Any]:
    """What `smelt plan` says, takes and holds."""
    found = {}
    for method in METHODS:
        words = ["plan", "-m", method, "--base", folder / "base", *(w for m in MODELS for w in ("--model", folder / m))]
        cost = measure([smelt, *words])
        said = json.loads(subprocess.run([smelt, *words, "--json"], capture_output=True, text=True, check=True).stdout)
        said = {key: value for key, value in said.items() if isinstance(value, int | float | str)}
        found[method] = {
            "seconds": cost.wall_s,
            "cpu_s": cost.user_s + cost.system_s,
            "rss": cost.peak_rss_bytes,
            **said,
        }
        say(f"{folder.name} {method}: {cost.wall_s:.1f} s, {cost.peak_rss_bytes / 1e6:.0f} MB")
    return found


def one_layer(folder: Path, workers: int) -> dict[str, Any]:
    """Merge the tensors of a layer by workers, into the shards of the whole output."""
    recipe = Recipe.parse(
        {
            "pool": {"base": str(folder / "base"), "models": {name: str(folder / name) for name in MODELS}},
            "merge": [{"task_arithmetic": {"scale": SCALE}}],
        }
    )
    written = fill_holes(folder)
    out = folder / "merged"
    with planned(recipe) as ready:
        plan = ready.plan
        layer = [item for item in plan.items if item.key.startswith(LAYER)]
        hashes = InputHashes(plan.inputs)
        output = OutputFolder(out, plan.fingerprint("cpu"), inputs=plan.inputs, resume=False, force=False)
        sink = FolderSink(output, plan, ready.metadata(hashes.placeholders()))
        output.finished = {item.key for item in plan.items if not item.key.startswith(LAYER)}
        options = Options(cluster=Cluster("local", workers))
        began = time.monotonic()
        execute_by_workers(plan, sink, options, output, hashes)
        seconds = time.monotonic() - began
        wrong, compared = compare(output.path, sink, written)
        spans = VectorBackend(0, lambda *_: None, lambda _: None).spans
        units = cut(list(plan.items), spans, unit_size(plan.bytes_in))
        disk = sum(path.stat().st_blocks * 512 for path in output.path.iterdir())
        sink.close()
        output.close()
    assert wrong == 0, f"{wrong} of {compared} numbers are not what numpy makes"
    read, wrote = sum(item.bytes_in for item in layer), sum(item.info.nbytes for item in layer)
    say(f"{folder.name}: one layer, {read / 1e9:.1f} GB read and {wrote / 1e9:.1f} GB written in {seconds:.0f} s")
    return {
        "workers": workers,
        "tensors": len(layer),
        "units_of_the_plan": len(units),
        "read_bytes": read,
        "written_bytes": wrote,
        "on_disk_bytes": disk,
        "seconds": seconds,
        "numbers_compared": compared,
        "numbers_that_differ": wrong,
    }


def fill_holes(folder: Path) -> list[tuple[str, int, dict[str, np.ndarray]]]:
    """Numbers at both ends and in the middle of every tensor of the layer: (tensor, first, by model)."""
    rng = np.random.default_rng(0)
    index = json.loads((folder / "base" / "model.safetensors.index.json").read_text())["weight_map"]
    written = []
    for key, file in index.items():
        if not key.startswith(LAYER):
            continue
        by_model: dict[int, dict[str, np.ndarray]] = {}
        for name in ("base", *MODELS):
            with open(folder / name / file, "r+b") as opened:
                size = int.from_bytes(opened.read(8), "little")
                begin, end = json.loads(opened.read(size))[key]["data_offsets"]
                count = (end - begin) // 2
                run = min(RUN, max(1, count // 3))
                for first in sorted({0, (count - run) // 2, count - run}):
                    numbers = dtypes.from_float32(rng.standard_normal(run, np.float32) * np.float32(0.02), "BF16")
                    opened.seek(8 + size + begin + 2 * first)
                    opened.write(numbers.tobytes())
                    by_model.setdefault(first, {})[name] = dtypes.to_float32(numbers, "BF16")
        written += [(key, first, numbers) for first, numbers in by_model.items()]
    return written


def compare(path: Path, sink: FolderSink, written: list[tuple[str, int, dict[str, np.ndarray]]]) -> tuple[int, int]:
    """How many numbers are not base + scale * (sum of the changes), and of how many."""
    wrong = compared = 0
    for key, first, numbers in written:
        base = numbers["base"]
        total = sum((numbers[name] - base for name in MODELS[1:]), numbers[MODELS[0]] - base)
        expected = dtypes.from_float32(base + np.float32(SCALE) * total, "BF16")
        name, offset = sink.located(key)
        with open(path / name, "rb") as file:
            file.seek(offset + 2 * first)
            got = file.read(len(expected.tobytes()))
        wrong += int(np.count_nonzero(np.frombuffer(got, np.uint16) != expected.view(np.uint16)))
        compared += len(base)
    return wrong, compared


if __name__ == "__main__":
    main()
