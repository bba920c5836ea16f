"""Smelt beside FusionBench 0.2.33 on the zoo: the same models, pictures and threads, each in a process of its own.

    python benchmarks/fusionbench.py [--what adamerging,wemoe,fisher,gram] [--repeat 3] [--pictures 256] [-o OUT.json]

The first run installs FusionBench in `.bench/fusionbench-env`; `--python PATH` uses an environment that has it. Timed
is the arithmetic alone, after one round to warm up: one AdaMerging step with eight models and sixteen pictures a task;
the evaluation of a mixture with a router's gates for each picture; FusionBench's own Fisher estimator; Gram matrices.
Both sides give numbers, which are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenance import provenance

HERE = Path(__file__).parent
VERSION = "0.2.33"
NAMES = ["photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons"]
FEW = 32
"""Pictures for the mixture: FusionBench merges an MLP for each of them, in a loop."""
WHAT = ["adamerging", "wemoe", "fisher", "gram"]
LAYER = "vision_model.encoder.layers.0.mlp"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", default=",".join(WHAT))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", type=Path)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.ours:
        ours(words.ours, words.what, words.repeat, words.threads)
        return
    python = words.python or install()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_inputs(folder, words.pictures)
        for what in words.what.split(","):
            mine = [sys.executable, __file__, "--ours", str(folder), "--what", what]
            one = run([*mine, "--repeat", str(words.repeat), "--threads", str(words.threads)])
            side = [str(python), str(HERE / "fusionbench_side.py"), str(folder), what]
            other = run([*side, str(words.repeat), str(words.threads)])
            apart = difference(folder, what)
            found[what] = {
                "smelt": one,
                "fusionbench": other,
                "ratio": other["seconds"] / one["seconds"],
                "apart": apart,
            }
            print(
                f"{what:12} {one['seconds']:8.3f} s {other['seconds']:8.3f} s {found[what]['ratio']:6.2f}x", flush=True
            )
    if words.out:
        about = {"fusion_bench": VERSION, "pictures": words.pictures, "threads": words.threads, **provenance([], 0)}
        words.out.write_text(json.dumps({"results": found, "provenance": about}, indent=1) + "\n")


def install() -> Path:
    """FusionBench in an environment of its own."""
    home = HERE.parent / ".bench" / "fusionbench-env"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", f"torch=={torch.__version__.split('+')[0]}"], check=True
        )
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"fusion-bench=={VERSION}"], check=True)
    return python


def run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def write_inputs(folder: Path, pictures: int) -> None:
    """Vision towers as Hugging Face folders, and everything else as one file of arrays."""
    from transformers import CLIPVisionModel

    from smelt.models.families.clip.family import CLIP
    from smelt.tasks.registry import find_task

    base = CLIP.load("zoo:clip-tiny")
    models = {name: CLIP.load(f"zoo:clip-tiny-{name}", text_from="zoo:clip-tiny") for name in NAMES}
    state = {"base": base.model.vision_model.state_dict()}
    state |= {name: one.model.vision_model.state_dict() for name, one in models.items()}
    state["rest"] = {
        key: tensor + 0.3 * sum(state[name][key] - tensor for name in NAMES) if tensor.is_floating_point() else tensor
        for key, tensor in state["base"].items()
    }
    for name, tensors in state.items():
        tower = CLIPVisionModel(base.model.config.vision_config)
        inner = getattr(tower, "vision_model", tower)
        inner.load_state_dict(tensors)
        tower.save_pretrained(folder / name)
    arrays = {"projection": base.model.visual_projection.weight, "scale": base.model.logit_scale.exp()}
    for name in NAMES:
        stream = find_task(name).examples(base, split="train", count=max(pictures, 16) if name == NAMES[0] else 16)
        arrays[f"batch_{name}"] = stream.batch(range(16)).inputs
        arrays[f"head_{name}"] = stream.batch([0]).head
        if name == NAMES[0]:
            arrays["pictures"] = stream.batch(range(pictures)).inputs
            arrays["few"] = arrays["pictures"][:FEW]
    draw = torch.Generator().manual_seed(0)
    width = base.model.config.vision_config.hidden_size
    for layer in range(base.model.config.vision_config.num_hidden_layers):
        shapes = {"fc1.weight": (width, width), "fc1.bias": (width,), "fc2.weight": (8, width), "fc2.bias": (8,)}
        for name, shape in shapes.items():
            arrays[f"router_{layer}_{name}"] = 0.02 * torch.randn(shape, generator=draw)
    np.savez(folder / "inputs.npz", **{name: np.asarray(tensor.detach()) for name, tensor in arrays.items()})
    (folder / "names.txt").write_text(" ".join(NAMES))


def ours(folder: Path, what: str, repeat: int, threads: int) -> None:
    """Smelt's side of one comparison, with the arrays that FusionBench gets too."""
    import resource

    torch.set_num_threads(threads)
    data = {name: torch.from_numpy(array) for name, array in np.load(folder / "inputs.npz").items()}
    work = {"adamerging": _adamerging, "wemoe": _wemoe, "fisher": _fisher, "gram": _gram}[what](data, threads)
    seconds = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        numbers = work()
        seconds.append(time.perf_counter() - began)
    np.save(folder / f"ours-{what}.npy", numbers.detach().float().numpy())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": min(seconds[1:]), "peak_bytes": peak}))


def _adamerging(data: dict[str, Tensor], threads: int) -> Callable[[], Tensor]:

    from smelt.engine.pool import ModelPool
    from smelt.learning.differentiable_merge import MergedObjective, Weighted
    from smelt.learning.parallel_passes import Passes
    from smelt.learning.task_vectors import TaskVectors
    from smelt.models.families.load import load
    from smelt.models.families.network import network_of
    from smelt.tasks.examples import ExampleBatch

    network = network_of(load("zoo:clip-tiny", "classifier"))
    pool = ModelPool.open({name: f"zoo:clip-tiny-{name}" for name in NAMES}, base="zoo:clip-tiny")
    deltas = TaskVectors(network.weights(), pool.models)
    labels = torch.zeros(16, dtype=torch.int64)
    batches = {name: ExampleBatch(data[f"batch_{name}"], labels, data[f"head_{name}"]) for name in NAMES}
    passes = Passes(network, threads).__enter__()
    objective = MergedObjective(Weighted(deltas, "tensor"), passes)
    return lambda: objective.gradients(batches)[0]["coefficients"]


def _wemoe(data: dict[str, Tensor], threads: int) -> Callable[[], Tensor]:
    from concurrent.futures import ThreadPoolExecutor

    from smelt.mixing.mix import mix

    mixed = mix({name: f"zoo:clip-tiny-{name}" for name in NAMES}, base="zoo:clip-tiny", method="wemoe", steps=0).load()
    for number, router in enumerate(mixed.routers.values()):
        own = dict(router.named_parameters())
        given = [data[f"router_{number}_{part}"] for part in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")]
        for tensor, new in zip(own.values(), given, strict=True):
            tensor.data = new
    tower = mixed.inner.network()
    own_weights: dict[str, Tensor] = {}

    def one(part: Tensor) -> Tensor:
        with torch.inference_mode():
            return tower.logits(own_weights, part, data[f"head_{NAMES[0]}"])

    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    return lambda: torch.cat(list(pool.map(one, data["few"].split(FEW // 2))))


def _stream(data: dict[str, Tensor]) -> Any:
    from smelt.tasks.examples import ArrayStream

    labels = torch.zeros(len(data["pictures"]), dtype=torch.int64)
    return ArrayStream(NAMES[0], data["pictures"], labels, data[f"head_{NAMES[0]}"])


def _network() -> Any:
    from smelt.models.families.clip.family import CLIP

    return CLIP.load(f"zoo:clip-tiny-{NAMES[0]}", text_from="zoo:clip-tiny").network()


def _fisher(data: dict[str, Tensor], threads: int) -> Callable[[], Tensor]:
    from smelt.measurement.fisher import fisher

    network, stream = _network(), _stream(data)
    words: dict[str, Any] = {"estimator": "batched_sqrt", "batch": 32, "threads": threads}
    return lambda: fisher(network, stream, **words)[f"{LAYER}.fc1.weight"]


def _gram(data: dict[str, Tensor], threads: int) -> Callable[[], Tensor]:
    from smelt.measurement.gram import grams

    network, stream = _network(), _stream(data)
    tokens = 17
    return lambda: grams(network, stream, threads=threads)[f"{LAYER}.fc2.weight"] / (len(stream) * tokens)


def difference(folder: Path, what: str) -> float:
    """The largest difference between both sides' numbers, over the largest number."""
    one, other = (np.load(folder / f"{side}-{what}.npy").astype(np.float64) for side in ("ours", "theirs"))
    return float(np.abs(one - other.reshape(one.shape)).max() / np.abs(one).max())


if __name__ == "__main__":
    main()
