"""How long a selection takes among up to 100,000 models on the paper's graph: 9,055 nodes of 75 pictures.

    python benchmarks/hub_scale.py --folder /somewhere [--models 1000 10000 100000] [--whole 1000] [-o OUT.json]

The labels are made up, straight in the form of a hub's index (labels/segment_file.py), 4,096 models to a file: a
hidden tree over the nodes, in which a node is beaten mostly by its relatives (by numbers near its own, as 1 over the
distance), and on the more pictures the nearer they are. One such model with twice as many entries as wanted is drawn;
every model of the hub is a thinning of it with its own share (0.35 to 0.65) and its own pictures, so that all differ.
The mean length of a list is in the result.

The whole index of 100,000 models takes a terabyte. Where `--whole` is less than the models, the files have holes: of
all that a selection does not read, which are the pairs of nodes that are not both among those of one of the tasks here.
Where the files have both forms (1,000 models) the times are in the result side by side. The folder is removed
afterwards, unless `--keep` is given.

Then, in processes of their own: open the index, match a task of 100 classes (384 numbers a caption, 5 nodes a class, so
500 nodes), ask every model for its right answers, and choose three models for each class. `cold`: the files were
dropped from the page cache before; `first`: they are in it, but the process has not looked at them yet; `warm`: tasks
by turns after that. Each is the best of some runs, with its processor time beside it, since others may use the machine;
all runs are in the result. Peak memory is anonymous (pages of mapped files are not in it), beyond what the process had
after its imports.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from provenance import provenance
from smelt.hub.labels.index_table import IndexTable
from smelt.hub.labels.label import LabelKey
from smelt.hub.labels.segment import MOST
from smelt.hub.labels.segment_file import BLOCKS_AT, SPARE, foot_of, pair_type
from smelt.hub.matching.match import match
from smelt.hub.selection.select import TaskWords, select_models
from smelt.hub.store.index_files import IndexFiles

NODES, PICTURES, WIDTH = 9055, 75, 10
ENTRY = 2 + WIDTH
NUMBERS = 384
PER_CLASS, CLASSES, CHOSEN = 5, 100, 3


def main() -> None:
    """Make the hubs, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for the made-up hubs; must not exist")
    parser.add_argument("--models", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--whole", type=int, default=1000, help="make indexes without holes for so many models")
    parser.add_argument("--length", type=int, default=96, help="mean length of a list")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=2, help="tasks, each of other nodes")
    parser.add_argument("--runs", type=int, default=3, help="processes for each number, and warm repeats in each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(asked(args, Path(args.child[0]), args.child[1] == "cold")))
        return
    args.folder.mkdir(parents=True)
    hubs, rows = [], []
    try:
        draw = np.random.default_rng(args.seed)
        np.save(args.folder / "nodes.npy", tree_vectors(draw))
        base = Base(draw, 2 * args.length)
        forms = [(args.whole, True)] if args.whole else []
        for models, whole in [*forms, *((models, False) for models in args.models)]:
            place = args.folder / f"{models}-{'whole' if whole else 'holes'}"
            hubs.append(make_hub(args, place, base, models, whole))
            rows.append({**hubs[-1], **measured(args, place)})
            print(json.dumps({key: value for key, value in rows[-1].items() if key != "runs"}), flush=True)
            if not args.keep:
                shutil.rmtree(place)
    finally:
        if not args.keep:
            shutil.rmtree(args.folder, ignore_errors=True)
    settings = {"nodes": NODES, "pictures_per_node": PICTURES, "classes": CLASSES, "threads": args.threads}
    result = {"provenance": provenance([], args.seed), **settings, "rows": rows}
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(result, indent=1) + "\n")


def tree_vectors(draw: np.random.Generator) -> np.ndarray:
    """Unit vectors of the nodes: each is its tree's branches above it and something of its own."""
    vectors = np.zeros((NODES, NUMBERS))
    for width in (1024, 256, 64, 16, 4, 1):  # nodes that share a branch
        branches = draw.normal(size=(-(-NODES // width), NUMBERS))
        vectors += np.repeat(branches, width, axis=0)[:NODES]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Base:
    """A model that every other is a thinning of: relatives beat a node, the nearer the more often."""

    def __init__(self, draw: np.random.Generator, length: int):
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
        self.offsets = np.cumsum([0, *(len(part) for part in ids)])
        self.ids, self.masks = np.concatenate(ids), np.concatenate(masks)


def make_hub(args: argparse.Namespace, place: Path, base: Base, models: int, whole: bool) -> dict[str, object]:
    """Write the files of a hub's index."""
    began = time.perf_counter()
    place.mkdir()
    read = np.zeros(len(base.ids), dtype=bool)
    for task in range(args.tasks):
        among = np.zeros(NODES, dtype=bool)
        among[task_match(args.folder, task).selected] = True
        read |= np.repeat(among, np.diff(base.offsets)) & among[base.ids]
    read |= whole
    entries, used = 0, 0
    for number, first in enumerate(range(0, models, MOST)):
        count = min(MOST, models - first)
        path = place / f"{number + 1:012d}-{number:012x}.segment"
        entries += write_segment(path, base, read, first, count, args.seed)
        used += path.stat().st_blocks * 512
    apparent = sum(path.stat().st_size for path in place.iterdir())
    return {
        "models": models,
        "form": "whole" if whole else "with holes",
        "files": len(list(place.iterdir())),
        "mean_list_length": round(entries / models / NODES, 1),
        "bytes": apparent,
        "bytes_per_model": round(apparent / models),
        "bytes_on_disk": used,
        "seconds_to_make": round(time.perf_counter() - began, 1),
    }


def write_segment(path: Path, base: Base, read: np.ndarray, first: int, count: int, seed: int) -> int:
    """One file; the blocks of pairs that are not to be read are holes. Gives the number of entries."""
    draw = np.random.default_rng((seed, first))
    share = draw.uniform(0.35, 0.65, count).astype(np.float32)
    turned = np.argsort(draw.random((count, WIDTH - 1)), axis=1)  # other pictures; the last byte is not full
    turned = np.hstack([turned, np.full((count, 1), WIDTH - 1)])
    lengths = draw.binomial(count, 0.5, len(base.ids))
    made: dict[int, np.ndarray] = {}
    written = np.flatnonzero(read)
    at = np.zeros(len(lengths) + 1, dtype=np.int64)
    with path.open("wb") as file:
        if len(written) == len(read):  # in order, since a block's place follows from all before it
            file.write(b"SMELTSG1".ljust(BLOCKS_AT, b"\0"))
            for pair in range(len(lengths)):
                block = block_of(base, pair, share, turned, draw)
                lengths[pair] = len(block) // ENTRY
                file.write(block.data)
        else:
            for pair in written.tolist():
                made[pair] = block_of(base, pair, share, turned, draw)
                lengths[pair] = len(made[pair]) // ENTRY
            places = BLOCKS_AT + ENTRY * np.concatenate([[0], np.cumsum(lengths)])
            file.write(b"SMELTSG1".ljust(BLOCKS_AT, b"\0"))
            for pair, block in made.items():
                file.seek(int(places[pair]))
                file.write(block.data)
        at[1:] = np.cumsum(lengths)
        file.truncate(BLOCKS_AT + ENTRY * int(at[-1]) + SPARE)
        finish(file, base, at, first, count)
    return int(at[-1])


def block_of(base: Base, pair: int, share: np.ndarray, turned: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """A pair's models and masks, as a segment has them."""
    models = np.flatnonzero(draw.random(len(share), dtype=np.float32) < share)
    return np.concatenate([models.astype("<u2").view(np.uint8), base.masks[pair][turned[models]].ravel()])


def finish(file: object, base: Base, at: np.ndarray, first: int, count: int) -> None:
    """The other columns, the foot and the tail. The digest of the blocks is left out: nobody verifies a hole."""
    keys = [
        LabelKey(f"model {number}", "made up", "none", "caption").dump().encode()
        for number in range(first, first + count)
    ]
    pairs = np.zeros(len(base.ids), pair_type(NODES))
    pairs["beater"] = base.ids
    pairs["start"] = at[:-1] - np.repeat(at[base.offsets[:-1]], np.diff(base.offsets))
    columns = {
        "standing": np.broadcast_to(np.uint32(0), (count, NODES + 1)),
        "digests": np.frombuffer(b"".join(hashlib.sha256(key).digest() for key in keys), np.uint8).reshape(-1, 32),
        "keys": np.frombuffer(b"".join(keys), np.uint8),
        "key_ends": np.cumsum([0, *map(len, keys)]).astype("<u8"),
        "numbered": np.arange(0, NODES * PICTURES + 1, PICTURES, dtype="<u4"),
        "pictures": np.arange(NODES * PICTURES, dtype="<u4"),
        "offsets": base.offsets.astype("<u8"),
        "entries": at[base.offsets].astype("<u8"),
        "pairs": pairs,
    }
    size = ENTRY * int(at[-1]) + SPARE
    places: dict[str, list[object]] = {"blocks": [BLOCKS_AT, "|u1", [size]]}
    position = BLOCKS_AT + size
    for name, array in columns.items():
        position += -position % 64
        code = array.dtype.str if array.dtype.names is None else "<u2<u4"
        places[name] = [position, code, list(array.shape)]
        file.seek(position)
        if name != "standing":  # a hole; no selection reads it
            file.write(array.tobytes())
        position += array.nbytes
    position += -position % 64
    file.seek(position)
    file.write(foot_of(places, {"graph_pictures": NODES * PICTURES}, ""))


def task_match(folder: Path, task: int) -> object:
    """The nodes that a task of a hundred classes meets."""
    nodes = np.load(folder / "nodes.npy", mmap_mode="r")
    draw = np.random.default_rng((CLASSES, task))
    truth = (np.arange(CLASSES) * (NODES // CLASSES) + draw.integers(0, NODES // CLASSES)) % NODES
    words = nodes[truth] + 0.02 * draw.normal(size=(CLASSES, NUMBERS)).astype(np.float32)
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    return match(words, nodes, nodes=PER_CLASS)


def measured(args: argparse.Namespace, place: Path) -> dict[str, object]:
    """The best of some processes, cold and not."""
    runs = [in_child(args, place, kind) for _ in range(args.runs) for kind in ("cold", "warm")]
    best: dict[str, object] = {"selected_nodes": runs[0]["selected_nodes"]}
    for word in ("cold", "first", "warm"):
        some = [one for run in runs for one in run[word]]
        best |= {f"{word}_s": min(one[0] for one in some), f"{word}_cpu_s": min(one[1] for one in some)}
    read = min(run["read_bytes"] for run in runs if run["cold"])
    peak = max(run["peak_anonymous_bytes"] for run in runs)
    return {**best, "cold_read_bytes": read, "peak_anonymous_bytes": peak, "runs": runs}


def in_child(args: argparse.Namespace, place: Path, kind: str) -> dict[str, list[list[float]]]:
    command = [sys.executable, __file__, "--folder", args.folder, "--threads", args.threads, "--tasks", args.tasks]
    command += ["--runs", args.runs, "--child", place, kind]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def asked(args: argparse.Namespace, place: Path, cold: bool) -> dict[str, object]:
    """Open the hub and select for several tasks, one after another; every time is [wall, processor] seconds."""
    if cold:
        for path in place.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        asked_once(args, open_table(place), 0)
        asked_once(args, open_table(place), 1 % args.tasks)
    task_match(args.folder, 0)
    before = read_bytes()
    with Peak() as peak:
        began = time.perf_counter(), time.process_time()
        table = open_table(place)
        selected = asked_once(args, table, 0)
        first = since(began)
        read = read_bytes() - before
        warm = []
        for run in range(0 if cold else args.runs * args.tasks):
            began = time.perf_counter(), time.process_time()
            asked_once(args, table, (run + 1) % args.tasks)
            warm.append(since(began))
    found = {"selected_nodes": selected, "read_bytes": read, "peak_anonymous_bytes": peak.most}
    return {**found, "cold": [first] if cold else [], "first": [] if cold else [first], "warm": warm}


def since(began: tuple[float, float]) -> list[float]:
    return [round(time.perf_counter() - began[0], 4), round(time.process_time() - began[1], 4)]


def open_table(place: Path) -> IndexTable:
    files = IndexFiles(place).open()
    homes = list(files.homes.values())
    names = [f"model {number}" for number in range(len(homes))]
    return IndexTable.placed(names, files.segments, [home for home, _ in homes], [at for _, at in homes])


def asked_once(args: argparse.Namespace, table: IndexTable, task: int) -> int:
    """One selection, from the captions' vectors to the models of every class; gives the number of nodes it took."""
    found = task_match(args.folder, task)
    words = TaskWords(tuple(f"class {number}" for number in range(CLASSES)))
    chosen = select_models(table, found, words, k=CHOSEN)
    assert len(chosen.chosen[0]) == CHOSEN
    return len(found.selected)


class Peak:
    """The most anonymous memory of this process while it is open, beyond what it had before; every 5 ms."""

    def __enter__(self) -> Peak:
        self.most, self._before, self._over = 0, _status("RssAnon"), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, _status("RssAnon") - self._before)


def _status(word: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(word))


def read_bytes() -> int:
    """What this process had read from the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


if __name__ == "__main__":
    main()
