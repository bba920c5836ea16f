"""One step of layer-wise AdaMerging, side by side with a plain reference written from the formulas.

    python benchmarks/learning.py [--repeat 5] [--batch 16] [--threads N] [--json OUT]

The reference does what is usual: the merged weights carry an autograd graph over every model and tensor, and each task
has a forward and a backward pass of its own through it. Both take turns in one process, the quickest of the repeats
counts; peak memory is that of a process that takes steps of one kind only. CPU seconds are those of all threads; on a
busy machine, compare them with `--threads 1`, where no thread waits for another.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.func import functional_call

from smelt.engine.pool import ModelPool
from smelt.learning.differentiable_merge import MergedObjective, Weighted
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.load import load
from smelt.models.families.network import Network, network_of
from smelt.tasks.examples import ExampleBatch
from smelt.tasks.groups import GROUPS
from smelt.tasks.registry import find_task

NAMES = GROUPS["clip8"]
INIT = 0.3
Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Outcome:
    """Seconds of the quickest step, of each kind, and how far the gradients are apart."""

    ours_s: float
    reference_s: float
    ratio: float
    ours_cpu_s: float
    reference_cpu_s: float
    cpu_ratio: float
    difference: float
    """Of the gradients: the largest difference over the largest entry."""
    ours_peak_bytes: int
    reference_peak_bytes: int
    models: int
    tensors: int
    coefficients: int
    batch: int
    threads: int
    repeats: int


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--repeat", type=int, default=5)
    words.add_argument("--batch", type=int, default=16)
    words.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    words.add_argument("--json", type=Path)
    words.add_argument("--only", choices=("ours", "reference"), help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.only:
        torch.set_num_threads(given.threads)
        with Passes(_network(), given.threads) as passes:
            step = (_ours if given.only == "ours" else _reference)(passes, given.batch)
            for _ in range(2):
                step()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    outcome = compare(given.repeat, given.batch, given.threads)
    _show(outcome)
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(asdict(outcome), indent=2) + "\n")


def compare(repeats: int, batch: int, threads: int) -> Outcome:
    """Let both take turns, then look at the memory of each alone."""
    peaks = {kind: _peak(kind, batch, threads) for kind in ("ours", "reference")}
    best = {kind: [float("inf"), float("inf")] for kind in ("ours", "reference")}
    with Passes(_network(), threads) as passes:
        steps = {"ours": _ours(passes, batch), "reference": _reference(passes, batch)}
        found = {}
        for _ in range(repeats):
            for kind, step in steps.items():
                torch.set_num_threads(1 if kind == "ours" else threads)
                seconds, cpu, found[kind] = _timed(step)
                best[kind] = [min(best[kind][0], seconds), min(best[kind][1], cpu)]
    mine, theirs = found["ours"], found["reference"]
    difference = float((mine - theirs).abs().max() / theirs.abs().max())
    return Outcome(
        ours_s=best["ours"][0],
        reference_s=best["reference"][0],
        ratio=best["reference"][0] / best["ours"][0],
        ours_cpu_s=best["ours"][1],
        reference_cpu_s=best["reference"][1],
        cpu_ratio=best["reference"][1] / best["ours"][1],
        difference=difference,
        ours_peak_bytes=peaks["ours"],
        reference_peak_bytes=peaks["reference"],
        models=mine.shape[0],
        tensors=mine.shape[1],
        coefficients=mine.numel(),
        batch=batch,
        threads=threads,
        repeats=repeats,
    )


def _network() -> Network:
    return network_of(load("zoo:clip-tiny", "classifier"))


def _batches(passes: Passes, count: int) -> dict[str, ExampleBatch]:
    classifier = passes.network._clip
    streams = {name: find_task(name).examples(classifier, split="val") for name in NAMES}
    return {name: stream.batch(range(count)) for name, stream in streams.items()}


def _deltas(passes: Passes) -> TaskVectors:
    refs = {name: f"zoo:clip-tiny-{name}" for name in NAMES}
    with ModelPool.open(refs, base="zoo:clip-tiny") as pool:
        return TaskVectors(passes.network.weights(), pool.models)


def _ours(passes: Passes, batch: int) -> Step:
    objective = MergedObjective(Weighted(_deltas(passes), "tensor", INIT), passes)
    batches = _batches(passes, batch)
    return lambda: objective.gradients(batches)[0]["coefficients"]


def _reference(passes: Passes, batch: int) -> Step:
    """θ = θ0 + sum_i λ_i τ_i as a graph; for each task: logits, mean entropy, backward."""
    deltas, batches = _deltas(passes), _batches(passes, batch)
    tau = [{key: deltas.delta(name, key) for key in deltas.keys} for name in deltas.names]
    deltas._rows.clear()
    model = passes.network.module
    columns = {key: number for number, key in enumerate(deltas.keys)}

    def step() -> Tensor:
        weights = torch.full((len(tau), len(columns)), INIT, requires_grad=True)
        merged = dict(deltas.base)
        for number, delta in enumerate(tau):
            for key, change in delta.items():
                merged[key] = merged[key] + weights[number, columns[key]] * change
        state = {key.removeprefix("vision_model."): tensor for key, tensor in merged.items()}
        for one in batches.values():
            pooled = functional_call(model.vision_model, state, (one.inputs,)).pooler_output
            features = torch.nn.functional.normalize(model.visual_projection(pooled), dim=-1)
            logits = model.logit_scale.exp() * features @ one.head.T
            log_p = torch.log_softmax(logits, dim=-1)
            (-(log_p.exp() * log_p).sum(dim=-1).mean()).backward(retain_graph=True)
        assert weights.grad is not None
        return weights.grad

    return step


def _timed(step: Step) -> tuple[float, float, Tensor]:
    began, cpu = time.perf_counter(), time.process_time()
    result = step()
    return time.perf_counter() - began, time.process_time() - cpu, result


def _peak(kind: str, batch: int, threads: int) -> int:
    command = [sys.executable, __file__, "--only", kind, "--batch", str(batch), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def _show(one: Outcome) -> None:
    print(f"{one.models} models, {one.tensors} tensors, {one.batch} pictures of each task, {one.threads} threads")
    print("| | seconds per step | CPU seconds | peak memory |\n| --- | ---: | ---: | ---: |")
    rows = {
        "reference": (one.reference_s, one.reference_cpu_s, one.reference_peak_bytes),
        "smelt": (one.ours_s, one.ours_cpu_s, one.ours_peak_bytes),
    }
    for name, (seconds, cpu, peak) in rows.items():
        print(f"| {name} | {seconds:.2f} | {cpu:.2f} | {peak / 1e6:,.0f} MB |")
    print(f"\n{one.ratio:.2f} times faster ({one.cpu_ratio:.2f} times in CPU seconds)")
    print(f"gradients differ by {one.difference:.1e} of the largest")


if __name__ == "__main__":
    main()
