"""How long a selection takes in a hub of a thousand models on the paper's graph: 9,055 nodes of 75 pictures.

    python benchmarks/hub_scale.py --folder /somewhere [--models 1000] [-o OUT.json]

The labels are made up, straight in the index's format: a hidden tree over the nodes, in which a node is beaten mostly
by its relatives (by numbers near its own, as 1 over the distance), and on the more pictures the nearer they are.
One such model with twice as many entries as wanted is drawn; every model of the hub is a thinning of it with its own
share and its own pictures, so all files differ. The mean length of a list is in the result. The folder takes 13 MB a
model and is removed afterwards, unless `--keep` is given.

Then, in processes of their own: open all indexes, match a task of 100 classes (384 numbers a caption, 5 nodes a class,
so at most 500 nodes), ask every model for its right answers, and choose. `cold`: the files were dropped from the page
cache before; `first`: they are in it, but the process has not looked at them yet; `warm`: the median of further tasks.
Peak memory is anonymous (pages of mapped files are not in it), beyond what the process had after its imports.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from provenance import provenance
from smelt.hub.labels.index import Index, right_of_many
from smelt.hub.labels.index_file import Columns, save_columns
from smelt.hub.labels.label import LabelKey
from smelt.hub.matching.match import match
from smelt.hub.selection.select import choose, class_precision, reuse_metric

NODES, PICTURES, WIDTH = 9055, 75, 10
NUMBERS = 384
PER_CLASS = 5


def main() -> None:
    """Make the hub, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the made-up hub; must not exist")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--length", type=int, default=96, help="mean length of a list")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=5, help="warm repeats, each another task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--child", nargs=3, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        models, classes, cold = args.child
        print(json.dumps(asked(args.folder, models, classes, bool(cold), args.threads, args.tasks)))
        return
    args.folder.mkdir(parents=True)
    try:
        made = make_hub(args.folder, args.models, args.length, args.seed)
        sizes = sorted({size for size in (100, 200, 500, args.models) if size <= args.models})
        plan = [(size, 100, cold) for size in sizes for cold in (0, 1)]
        plan += [(args.models, classes, 0) for classes in (25, 50)]
        rows = [in_child(args, *step) for step in plan]
    finally:
        if not args.keep:
            shutil.rmtree(args.folder, ignore_errors=True)
    result = {"provenance": provenance([], args.seed), "hub": made, "threads": args.threads, "rows": rows}
    text = json.dumps(result, indent=1)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(text + "\n")
    for row in rows:
        print(json.dumps(row))


def make_hub(folder: Path, models: int, length: int, seed: int) -> dict[str, float]:
    """Write the nodes' vectors and one index file for every model."""
    began = time.perf_counter()
    draw = np.random.default_rng(seed)
    np.save(folder / "nodes.npy", tree_vectors(draw))
    base = base_columns(draw, 2 * length)
    lengths, sizes = [], []
    for number in range(models):
        columns = thinned(base, np.random.default_rng((seed, number)), f"model {number}")
        path = save_columns(columns, folder / f"{number:05d}.index")
        lengths.append(len(columns.ids) / NODES)
        sizes.append(path.stat().st_size)
    return {
        "models": models,
        "nodes": NODES,
        "pictures_per_node": PICTURES,
        "mean_list_length": round(statistics.fmean(lengths), 1),
        "mean_bits_per_entry": round(float(np.bitwise_count(columns.masks).sum(axis=1).mean()), 2),
        "bytes": sum(sizes),
        "seconds_to_make": round(time.perf_counter() - began, 1),
    }


def tree_vectors(draw: np.random.Generator) -> np.ndarray:
    """Unit vectors of the nodes: each is its tree's branches above it and something of its own."""
    vectors = np.zeros((NODES, NUMBERS))
    for width in (1024, 256, 64, 16, 4, 1):  # nodes that share a branch
        branches = draw.normal(size=(-(-NODES // width), NUMBERS))
        vectors += np.repeat(branches, width, axis=0)[:NODES]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def base_columns(draw: np.random.Generator, length: int) -> Columns:
    """A model that every other is a thinning of: relatives beat a node, the nearer the more often."""
    ids, masks = [], []
    counts = np.clip(draw.lognormal(np.log(length), 0.6, NODES) * 0.84, 1, NODES // 2).astype(np.int64)
    for number, count in enumerate(counts.tolist()):
        # distances fall off as 1 / distance, to both sides
        distance = np.exp(draw.random(3 * count) * np.log(NODES / 2)).astype(np.int64)
        found = (number + distance * draw.choice([-1, 1], 3 * count)) % NODES
        found = np.unique(found[found != number])
        found = np.sort(draw.permutation(found)[:count])
        gap = np.abs(found - number)
        share = 0.5 / (1 + np.minimum(gap, NODES - gap)) ** 0.35
        bits = draw.random((len(found), PICTURES), dtype=np.float32) < share[:, None]
        bits[np.arange(len(found)), draw.integers(0, PICTURES, len(found))] = True
        ids.append(found)
        masks.append(np.packbits(bits, axis=1, bitorder="little"))
    lengths = [0, *(len(part) for part in ids)]
    return Columns(
        LabelKey("base", "made up", "none", "caption"),
        NODES * PICTURES,
        np.cumsum(lengths).astype(np.uint64),
        np.arange(0, NODES * PICTURES + 1, PICTURES, dtype=np.uint32),
        np.arange(NODES * PICTURES, dtype=np.uint32),
        np.concatenate(ids).astype(np.uint16),
        np.concatenate(masks),
    )


def thinned(base: Columns, draw: np.random.Generator, name: str) -> Columns:
    """A model of its own: a share of the entries, on its own pictures."""
    kept = draw.random(len(base.ids), dtype=np.float32) < draw.uniform(0.35, 0.65)
    turned = np.append(draw.permutation(WIDTH - 1), WIDTH - 1)  # other pictures; the last byte is not full
    totals = np.concatenate([[0], np.cumsum(kept)])
    return Columns(
        LabelKey(name, "made up", "none", "caption"),
        base.graph_pictures,
        totals[base.offsets.astype(np.int64)].astype(np.uint64),
        base.numbered,
        base.pictures,
        base.ids[kept],
        base.masks[kept][:, turned],
    )


def in_child(args: argparse.Namespace, models: int, classes: int, cold: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--folder", args.folder, "--threads", args.threads, "--tasks", args.tasks]
    command += ["--child", models, classes, cold]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def asked(folder: Path, models: int, classes: int, cold: bool, threads: int, tasks: int) -> dict[str, float]:
    """Open the hub and select for several tasks, one after another."""
    paths = sorted(folder.glob("*.index"))[:models]
    for path in paths:
        with path.open("rb") as file:
            if cold:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            else:
                while file.read(1 << 22):
                    pass
    nodes = np.load(folder / "nodes.npy")
    with Peak() as peak:
        began = time.perf_counter()
        indexes = [Index.open(path) for path in paths]
        opened = time.perf_counter() - began
        times, selected = [], 0
        for task in range(1 if cold else tasks + 1):
            draw = np.random.default_rng((classes, task))
            truth = (np.arange(classes) * (NODES // classes) + draw.integers(0, NODES // classes)) % NODES
            words = nodes[truth] + 0.02 * draw.normal(size=(classes, NUMBERS)).astype(np.float32)
            words /= np.linalg.norm(words, axis=1, keepdims=True)
            began = time.perf_counter()
            selected = select(indexes, words, nodes, threads)
            times.append(time.perf_counter() - began)
    found = {"models": models, "classes": classes, "selected_nodes": selected, "open_s": round(opened, 4)}
    if cold:
        found["cold_s"] = round(times[0], 4)
    else:
        found |= {"first_s": round(times[0], 4), "warm_s": round(statistics.median(times[1:]), 4)}
    return {**found, "peak_anonymous_bytes": peak.most}


def select(indexes: list[Index], classes: np.ndarray, nodes: np.ndarray, threads: int) -> int:
    """One selection, from the captions' vectors to the models of every class; gives the number of nodes it took."""
    found = match(classes, nodes, nodes=PER_CLASS)
    right, pictures = right_of_many(indexes, found.selected, threads=threads)
    reuse = reuse_metric(class_precision(right / np.maximum(pictures, 1), found.transfer))
    choose(reuse, 3)
    return len(found.selected)


class Peak:
    """The most anonymous memory of this process while it is open, beyond what it had before; every 5 ms."""

    def __enter__(self) -> Peak:
        self.most, self._before, self._over = 0, _anonymous(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, _anonymous() - self._before)


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
