"""Evaluate a weight-ensembling mixture of the zoo's eight experts: Smelt against two ways written from the formula.

    python benchmarks/mixing.py                       # a few minutes
    python benchmarks/mixing.py --pictures 128 --rounds 1 --json

`sums`       per sample, in Python: W + g_1 D_1 + ... + g_n D_n term after term, then the MLP with these weights
`one product`  per sample, in Python: the same weights by one product of gates and stacked changes, then the MLP
`smelt`      the mixture as `smelt eval` runs it

All three evaluate the same pictures through the same evaluation, with the same routers, whose gates differ from
picture to picture. Each is a process of its own; they take turns, and the quickest round of each counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

WAYS = ("sums", "one product", "smelt")
TASKS = ("photos", "digits", "clothing", "sketches", "emoji", "flags", "letters", "icons")
ROUTER_NOISE = 0.15
"""Of the routers' last weights: enough that gates differ by tenths between pictures."""


class PerSample(nn.Module):
    """The reference: the MLP's weights of one sample are merged, the sample is run, then the next."""

    def __init__(self, mlp: nn.Module, router: nn.Module, deltas: dict[str, Tensor], one_product: bool):
        super().__init__()
        self.mlp, self.router, self.deltas, self.one_product = mlp, router, deltas, one_product

    def forward(self, hidden: Tensor) -> Tensor:
        gates = self.router(hidden)
        return torch.cat([self._one(hidden[i : i + 1], gates[i]) for i in range(len(hidden))])

    def _one(self, hidden: Tensor, gates: Tensor) -> Tensor:
        weights = {}
        for name, base in self.mlp.named_parameters():
            if self.one_product:
                weights[name] = base + torch.tensordot(gates, self.deltas[name], 1)
            else:
                weights[name] = base
                for gate, delta in zip(gates, self.deltas[name], strict=True):
                    weights[name] = weights[name] + gate * delta
        return functional_call(self.mlp, weights, (hidden,))


def mixture(folder: Path, way: str) -> Any:
    """The mixture with routers that tell pictures apart; its MLPs computed in one of the ways."""
    from smelt.mixing.classifier import load_mixed

    model = load_mixed(folder)
    draw = torch.Generator().manual_seed(0)
    for router in model.routers.values():
        router.first.weight.normal_(0, ROUTER_NOISE, generator=draw)
        router.last.weight.normal_(0, ROUTER_NOISE, generator=draw)
    if way != "smelt":
        for layer in model.inner.model.vision_model.encoder.layers:
            routed = layer.mlp
            plain, deltas = type(routed.inner)(model.inner.model.config.vision_config), {}
            for name in ("fc1", "fc2"):
                mixed = getattr(routed.inner, name)
                linear = getattr(plain, name)
                linear.weight, linear.bias = mixed.weight, mixed.bias
                deltas |= {f"{name}.weight": mixed.deltas, f"{name}.bias": mixed.bias_deltas}
            layer.mlp = PerSample(plain.requires_grad_(False).eval(), routed.router, deltas, way == "one product")
    return model


def measure(folder: Path, way: str, pictures: int, threads: int, out: Path) -> dict[str, float]:
    """One round of one way: seconds, peak memory; the logits of some pictures go to a file."""
    from smelt.evaluation.evaluate import evaluate_model
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.registry import find_task

    torch.set_num_threads(threads)
    model, data = mixture(folder, way), DataCache()
    tasks = [find_task(name) for name in TASKS]
    each = max(1, pictures // len(tasks))
    evaluate_model(model, tasks, limit=4, threads=threads, data=data)  # heads, pictures, first use of every kernel
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, used = time.perf_counter(), time.process_time()
    results = evaluate_model(model, tasks, limit=each, threads=threads, data=data).results
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    ((some, _),) = list(data.subset(tasks[0], "test", 32, model.preprocess).batches(32))
    np.save(out, model.logits(some, model.head(tasks[0].classes, tasks[0].templates)).numpy())
    count = sum(result.n for result in results)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "pictures": count,
        "seconds": seconds,
        "cpu": cpu,
        "peak_mb": peak / 1024,
        "grown_mb": (peak - before) / 1024,
    }


def compare(pictures: int, rounds: int, threads: int) -> dict[str, Any]:
    """Every way `rounds` times in turn, each in a process of its own; the quickest round of each."""
    from smelt.mixing.mix import mix

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "mixed"
        mix({name: f"zoo:clip-tiny-{name}" for name in TASKS}, base="zoo:clip-tiny", steps=0, out=folder)
        for _ in range(rounds):
            for way in WAYS:
                logits = Path(place) / f"{way}.npy"
                words = ["--measure", way, "--folder", folder, "--pictures", pictures, "--threads", threads]
                done = subprocess.run(
                    [sys.executable, __file__, *map(str, [*words, "--out", logits])],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                new = json.loads(done.stdout.splitlines()[-1])
                if way not in found or new["seconds"] < found[way]["seconds"]:
                    found[way] = new
        ours = np.load(Path(place) / "smelt.npy")
        for way in WAYS:
            logits = np.load(Path(place) / f"{way}.npy")
            found[way]["max_difference"] = float(np.abs(logits - ours).max())
            found[way]["pictures_per_second"] = found[way]["pictures"] / found[way]["seconds"]
            found[way]["times_slower"] = found[way]["seconds"] / found["smelt"]["seconds"]
            found[way]["times_the_cpu"] = found[way]["cpu"] / found["smelt"]["cpu"]
        found["largest_logit"] = float(np.abs(ours).max())
    return found


def show(found: dict[str, Any]) -> None:
    print(
        f"{'':14}{'pictures/s':>12}{'Smelt is':>12}{'by CPU time':>13}{'peak MB':>10}{'max difference of logits':>26}"
    )
    for way in WAYS:
        one = found[way]
        print(
            f"{way:14}{one['pictures_per_second']:12.1f}{one['times_slower']:11.1f}×{one['times_the_cpu']:12.1f}×"
            f"{one['peak_mb']:10.0f}{one['max_difference']:26.2g}"
        )
    print(f"(logits up to {found['largest_logit']:.1f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=512, help="of all eight tasks together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.folder, given.measure, given.pictures, given.threads, given.out)))
        return
    found = compare(given.pictures, given.rounds, given.threads)
    print(json.dumps(found, indent=2)) if given.json else show(found)


if __name__ == "__main__":
    main()
