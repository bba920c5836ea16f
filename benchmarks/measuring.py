"""Fisher information and Gram matrices of the zoo's experts, side by side with plain references from the formulas.

    python benchmarks/measuring.py [--tasks photos,letters,flags] [--repeat 3] [--threads N] [--json OUT]

The references do what is usual. Fisher: one backward pass per example and class, the gradients of all weights squared.
Gram: a hook on every linear layer adds x^T x, in batches of 32. Both sides are processes of their own that take turns,
with as many threads as the machine has cores unless told otherwise; the quickest of the repeats counts, by CPU time.
Times are of the collection alone, without loading. With `--threads 1` the ratio is of the arithmetic; with more it is
also of how well the cores are used, and on a busy machine the reference loses more, since its threads wait for one
another within every operation. Peak memory is what the process needed beyond the loaded model and data. The difference
is the largest one of any element, over the largest element of its tensor (or a millionth of the model's largest, which
is where gradients that are zero by their nature, of key biases, drown in rounding).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from smelt.measurement.fisher import fisher
from smelt.measurement.gram import grams
from smelt.models.families.load import load
from smelt.models.families.network import Network
from smelt.tasks.examples import ExampleStream
from smelt.tasks.registry import find_task

WORK = 2400
"""Class gradients that a side may compute in one run: examples × classes, so that no run takes minutes."""


@dataclass(frozen=True)
class Side:
    """One side's quickest run."""

    seconds_each: float
    """Wall time per example."""
    cpu_each: float
    """CPU time per example, over all threads: what stays comparable on a machine that does other things too."""
    peak_bytes: int
    examples: int


@dataclass(frozen=True)
class Outcome:
    """One statistic of one expert, both ways."""

    what: str
    task: str
    classes: int
    ours: Side
    reference: Side
    ratio: float
    cpu_ratio: float
    difference: float


def main() -> None:
    """Run all pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="photos,letters,flags")
    parser.add_argument("--what", default="gram,exact,empirical")
    parser.add_argument("--examples", type=int, default=256, help="of Gram and empirical; exact takes fewer")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--save", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.side:
        print(json.dumps(_one_side(args.side, args.what, args.tasks, args.examples, args.save)))
        return
    outcomes = []
    print(
        "| statistic | task (classes) | ours ms | reference ms | ratio | CPU ratio | ours MB | ref. MB | difference |"
    )
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: |")
    for what in args.what.split(","):
        for task in args.tasks.split(","):
            outcomes.append(_compare(what, task, args.examples, args.repeat, args.threads))
            print(_line(outcomes[-1]), flush=True)
    if args.json:
        about = {"threads": torch.get_num_threads(), "load": os.getloadavg(), "torch": torch.__version__}
        args.json.write_text(json.dumps({**about, "outcomes": [asdict(one) for one in outcomes]}, indent=2) + "\n")


def _line(one: Outcome) -> str:
    return (
        f"| {one.what} | {one.task} ({one.classes}) | {1e3 * one.ours.seconds_each:.1f} "
        f"| {1e3 * one.reference.seconds_each:.1f} | {one.ratio:.2f} | {one.cpu_ratio:.2f} "
        f"| {one.ours.peak_bytes / 1e6:.0f} | {one.reference.peak_bytes / 1e6:.0f} | {one.difference:.1e} |"
    )


def _compare(what: str, task: str, examples: int, repeat: int, threads: int) -> Outcome:
    classes = len(find_task(task).classes)
    counts = {"ours": examples, "reference": examples}
    if what == "exact":
        counts = {"ours": _count(classes, 16, 128), "reference": _count(10 * classes, 2, 8)}
    best: dict[str, Side] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeat):
            for side, count in counts.items():
                run = _run(side, what, task, count, threads, Path(folder) / f"{side}.pt")
                best[side] = min(best.get(side, run), run, key=lambda one: one.cpu_each)
        if counts["ours"] != counts["reference"]:  # equal examples for equal numbers, this time without the clock
            _run("ours", what, task, counts["reference"], threads, Path(folder) / "ours.pt")
        ours, wanted = (torch.load(Path(folder) / f"{side}.pt", weights_only=True) for side in counts)
    left, right = best["ours"], best["reference"]
    ratio, cpu = right.seconds_each / left.seconds_each, right.cpu_each / left.cpu_each
    return Outcome(what, task, classes, left, right, ratio, cpu, _difference(ours, wanted))


def _count(classes: int, least: int, most: int) -> int:
    return max(least, min(most, WORK // classes // least * least))


def _run(side: str, what: str, task: str, examples: int, threads: int, save: Path) -> Side:
    words = ["--side", side, "--what", what, "--tasks", task, "--examples", str(examples), "--save", str(save)]
    words += ["--threads", str(threads)]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
    return Side(**json.loads(done.stdout))


def _difference(ours: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> float:
    floor = 1e-6 * max(float(tensor.abs().max()) for tensor in wanted.values())
    return max(
        float((ours[key].double() - tensor.double()).abs().max()) / max(float(tensor.abs().max()), floor)
        for key, tensor in wanted.items()
    )


def _one_side(side: str, what: str, task: str, examples: int, save: Path) -> dict[str, float]:
    classifier = load(f"zoo:clip-tiny-{task}", "classifier")
    network: Network = classifier.network()  # type: ignore[attr-defined]
    stream = find_task(task).examples(classifier, split="train", count=examples)
    work: dict[tuple[str, str], Callable[[], dict[str, Tensor]]] = {
        ("ours", "gram"): lambda: dict(grams(network, stream)),
        ("ours", "exact"): lambda: fisher(network, stream, estimator="exact"),
        ("ours", "empirical"): lambda: fisher(network, stream, estimator="empirical"),
        ("reference", "gram"): lambda: plain_gram(network, stream),
        ("reference", "exact"): lambda: plain_fisher(network, stream, every_class=True),
        ("reference", "empirical"): lambda: plain_fisher(network, stream, every_class=False),
    }
    before, cpu, began = _peak(), time.process_time(), time.perf_counter()
    sums = work[side, what]()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = _peak() - before
    torch.save({key: tensor.clone() for key, tensor in sums.items()}, save)
    return {"seconds_each": seconds / examples, "cpu_each": cpu / examples, "peak_bytes": peak, "examples": examples}


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def plain_fisher(network: Network, stream: ExampleStream, *, every_class: bool) -> dict[str, Tensor]:
    """sum_n sum_c p_c (d log p_c)^2 as it is written, or sum_n (d log p_label)^2."""
    weights = {key: tensor.clone().requires_grad_() for key, tensor in network.weights().items()}
    totals = {key: torch.zeros_like(tensor, requires_grad=False) for key, tensor in weights.items()}
    for place in range(len(stream)):
        batch = stream.batch([place])
        scores = network.logits(weights, batch.inputs, batch.head)[0].log_softmax(dim=-1)
        chances = scores.detach().exp().tolist()
        for label in range(len(chances)) if every_class else [int(batch.labels[0])]:
            found = torch.autograd.grad(scores[label], list(weights.values()), retain_graph=every_class)
            for total, gradient in zip(totals.values(), found, strict=True):
                total.addcmul_(gradient, gradient, value=chances[label] if every_class else 1.0)
    return totals


def plain_gram(network: Network, stream: ExampleStream) -> dict[str, Tensor]:
    """x^T x at every linear layer, batch by batch."""
    totals: dict[str, Tensor] = {}

    def hook(key: str) -> Callable[[nn.Module, tuple[Tensor]], None]:
        def add(module: nn.Module, given: tuple[Tensor]) -> None:
            rows = given[0].reshape(-1, given[0].shape[-1])
            totals[key] = totals[key] + rows.T @ rows if key in totals else rows.T @ rows

        return add

    for name, module in network.module.named_modules():
        if isinstance(module, nn.Linear) and f"{name}.weight" in network.keys:
            module.register_forward_pre_hook(hook(f"{name}.weight"))
    with torch.no_grad():
        for batch in stream.batches(32):
            network.logits({}, batch.inputs, batch.head)
    return totals


if __name__ == "__main__":
    main()
