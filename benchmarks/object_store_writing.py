"""A merge into an object store beside a plain upload of the same bytes: `python benchmarks/object_store_writing.py`.

The server is moto's S3 in a process of its own. In every round, one after the other, each in a fresh process:

    local    the merge into a folder on the disk
    store    the same merge into the store
    upload   the folder's files sent by the same client: parts cut at the same places, as many threads, the same checks

What counts is the ratio of `store` to `upload` in a round, and to the larger of `upload` and `local`, as neither can be
faster than that. The peak of memory is the process's own (VmHWM), with Python, boto3 and what the merge itself takes.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from provenance import provenance
from result_file import save, say

HERE = Path(__file__).parent
SENDERS = 8
METHODS = {"linear": {"method": "task_arithmetic"}, "ties": {"method": "ties", "density": 0.2}}
SHARD = "200MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=512, help="size of a model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default=None, help="limit for work memory of the merges")
    parser.add_argument("-o", "--out", type=Path, default=HERE.parent / "results" / "object_store_writing.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        measure(*given.child, memory=given.memory)
        return
    results = {"provenance": provenance([], 0), "model_mb": given.mb, "memory": given.memory, "rounds": []}
    with tempfile.TemporaryDirectory(prefix="store-") as folder, store() as environment:
        write_models(Path(folder), given.mb)
        for number in range(given.rounds):
            for method in METHODS:
                times = {}
                for what in ("local", "store", "upload"):
                    words = [sys.executable, __file__, "--child", what, method, folder]
                    words += ["--memory", given.memory] if given.memory else []
                    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
                    times[what] = json.loads(done.stdout.splitlines()[-1])
                row = {"round": number, "method": method, **times, **ratios(times)}
                results["rounds"].append(row)
                say(f"{number} {method}: " + ", ".join(f"{what} {one['seconds']:.2f} s" for what, one in times.items()))
                say(f"    over upload {row['over_upload']:.2f}, over the slower of both {row['over_slower']:.2f}")
                save(given.out, results)
    results["medians"] = {
        method: {
            word: statistics.median(row[word] for row in results["rounds"] if row["method"] == method)
            for word in ("over_upload", "over_slower", "extra_memory_mb")
        }
        for method in METHODS
    }
    save(given.out, results)


def ratios(times: dict[str, dict[str, float]]) -> dict[str, float]:
    """How much longer than a plain upload, and than the slower of it and the local merge; memory beyond the local."""
    seconds = {what: one["seconds"] for what, one in times.items()}
    return {
        "over_upload": seconds["store"] / seconds["upload"],
        "over_slower": seconds["store"] / max(seconds["upload"], seconds["local"]),
        "extra_memory_mb": (times["store"]["peak"] - times["local"]["peak"]) / 1e6,
    }


@contextmanager
def store() -> Iterator[dict[str, str]]:
    """The server; the environment of its clients."""
    support = HERE.parent / "tests" / "support"
    server = subprocess.Popen(
        [sys.executable, support / "s3_server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        sys.path.insert(0, str(support))
        from s3_server import S3Server

        known = S3Server(server.stdout.readline().strip())
        known.make_bucket("models")
        yield {**os.environ, **known.variables}
    finally:
        server.communicate("", timeout=60)


def write_models(folder: Path, mb: int) -> None:
    """A base and two models near to it, in bfloat16."""
    import torch
    from safetensors.torch import save_file

    layers = max(1, mb // 32)
    for seed, name in enumerate(("base", "cars", "birds")):
        home = folder / name
        home.mkdir()
        generator = torch.Generator().manual_seed(seed)
        shape = (4096, 4096)
        tensors = {f"layers.{n}.weight": torch.randn(shape, generator=generator).bfloat16() for n in range(layers)}
        save_file(tensors, home / "model.safetensors")


def measure(what: str, method: str, folder: str, memory: str | None) -> None:
    """One of the three, in this process; seconds and peak of memory as a line of JSON."""
    home = Path(folder)
    local = home / f"local-{method}"
    began = time.perf_counter()
    if what == "upload":
        upload(local)
    else:
        import smelt

        out = local if what == "local" else f"s3://models/{method}"
        models = {name: str(home / name) for name in ("cars", "birds")}
        words = {**METHODS[method], "shard_size": SHARD, "memory": memory, "force": True}
        smelt.merge(models, base=str(home / "base"), out=out, **words)
    seconds = time.perf_counter() - began
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(json.dumps({"seconds": seconds, "peak": int(peak.split()[1]) * 1024}) + "\n")


def upload(folder: Path) -> None:
    """All files of a folder, the large ones in parts."""
    from smelt.engine.sink.objects.upload import places_to_cut
    from smelt.engine.sink.parts import FIRST_BYTES, cut_into_parts
    from smelt.files.object_store.place import object_place
    from smelt.files.object_store.store import open_store
    from smelt.formats.safetensors import read_header

    store = open_store(object_place("s3://models/plain"))
    with ThreadPoolExecutor(SENDERS) as threads:
        for path in sorted(folder.iterdir()):
            key = f"plain/{folder.name}/{path.name}"
            if path.suffix != ".safetensors":
                store.put(key, path.read_bytes())
                continue
            head = read_header(path)
            size = path.stat().st_size
            begin = size - sum(info.nbytes for info in head.tensors.values())
            parts = cut_into_parts(size, places_to_cut([(begin, size - begin)]), first=FIRST_BYTES)
            number = store.create_upload(key)
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                view = memoryview(content)
                sent = [
                    threads.submit(store.put_part, key, number, at, view[start:end])
                    for at, (start, end) in enumerate(parts, 1)
                ]
                store.complete(key, number, [one.result() for one in sent])
                view.release()
                del sent


if __name__ == "__main__":
    main()
