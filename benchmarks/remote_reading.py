"""Reading models from a server: obstore and fsspec by plain parallel ranges, and a streamed merge beside them.

    python benchmarks/remote_reading.py [--out results/remote_reading.json] [--megabytes 256] [--rounds 3]

Three models lie on a server of this machine (tests/support/range_server.py, a process of its own), once as fast as the
machine is, and once behind a line of 100 MB/s with 20 ms before each answer, as a server elsewhere has. In turns, every
byte of them is read

    obstore     by ranges of 8 MiB over 16 connections, and dropped
    fsspec      the same through its HTTP file system (aiohttp)
    average     by `smelt.merge` of the three, which hashes them, merges and writes
    ties        by `smelt.merge` of two over the third, which reads everything three times: a sample, a count, the merge

and what counts is bytes received a second, and each as a share of obstore's in the same turn.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import smelt
from provenance import provenance
from result_file import save, say

PIECE, CONNECTIONS = 8 << 20, 16
LINES = {"this machine": (0.0, 0.0), "100 MB/s, 20 ms": (100e6, 0.02)}
SERVER = Path(__file__).parents[1] / "tests/support/range_server.py"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path)
    words.add_argument("--megabytes", type=int, default=256, help="of each of the three models")
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    results: dict[str, Any] = {**provenance([], 0), "megabytes": given.megabytes, "rounds": given.rounds, "lines": {}}
    with tempfile.TemporaryDirectory(prefix="smelt-remote-") as folder:
        root, out = Path(folder, "served"), Path(folder, "out")
        files = write(root, given.megabytes)
        smelt.merge([str(root / "m0")], out=out)  # loads what every merge loads
        for line, (rate, latency) in LINES.items():
            with served(root, rate, latency) as url:
                turns = [turn(url, files, out) for _ in range(given.rounds)]
            results["lines"][line] = summary(turns)
            say(f"{line}: {results['lines'][line]}")
            save(given.out, results)


def write(root: Path, megabytes: int) -> dict[str, int]:
    """Three models of random BF16 numbers; their files' sizes by name."""
    import torch
    from safetensors.torch import save_file

    generator, rows = torch.Generator().manual_seed(0), 2048
    count = max(1, megabytes * 10**6 // (2 * rows * rows))
    base = [torch.randn(rows, rows, generator=generator) for _ in range(count)]
    found = {}
    for number in range(3):
        (root / f"m{number}").mkdir(parents=True)
        state = {
            f"layers.{n}.weight": (one + 0.05 * number * torch.randn(one.shape, generator=generator)).bfloat16()
            for n, one in enumerate(base)
        }
        file = root / f"m{number}/model.safetensors"
        save_file(state, file, metadata={"format": "pt"})
        found[f"m{number}/model.safetensors"] = file.stat().st_size
    return found


@contextmanager
def served(root: Path, rate: float, latency: float) -> Iterator[str]:
    command = [sys.executable, str(SERVER), str(root), str(rate), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def turn(url: str, files: dict[str, int], out: Path) -> dict[str, float]:
    """Bytes a second of each, one after the other."""
    total = sum(files.values())
    models = {"a": f"{url}/m1", "b": f"{url}/m2"}

    def merged(**words: Any) -> None:
        shutil.rmtree(out, ignore_errors=True)
        smelt.merge(out=out, **words)

    ways: dict[str, tuple[Callable[[], object], int]] = {
        "obstore": (lambda: by_obstore(url, files), total),
        "fsspec": (lambda: asyncio.run(by_fsspec(url, files)), total),
        "average": (lambda: merged(models={**models, "c": f"{url}/m0"}, method="average"), total),
        "ties": (lambda: merged(models=models, base=f"{url}/m0", method="ties"), 3 * total),
    }
    found = {}
    for name, (work, count) in ways.items():
        began = time.perf_counter()
        work()
        found[name] = count / (time.perf_counter() - began)
    return found


def ranges(files: dict[str, int]) -> list[tuple[str, int, int]]:
    return [(name, at, min(at + PIECE, size)) for name, size in files.items() for at in range(0, size, PIECE)]


def by_obstore(url: str, files: dict[str, int]) -> None:
    import obstore
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(url, client_options={"allow_http": True})

    def read(one: tuple[str, int, int]) -> int:
        return len(obstore.get_range(store, one[0], start=one[1], end=one[2]))

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        assert sum(threads.map(read, ranges(files))) == sum(files.values())


async def by_fsspec(url: str, files: dict[str, int]) -> None:
    from fsspec.implementations.http import HTTPFileSystem

    system, turn = HTTPFileSystem(asynchronous=True, skip_instance_cache=True), asyncio.Semaphore(CONNECTIONS)
    session = await system.set_session()

    async def read(one: tuple[str, int, int]) -> int:
        async with turn:
            return len(await system._cat_file(f"{url}/{one[0]}", start=one[1], end=one[2]))

    assert sum(await asyncio.gather(*map(read, ranges(files)))) == sum(files.values())
    await session.close()


def summary(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Medians, and shares of obstore's in the same turn."""
    return {
        name: {
            "megabytes_per_second": round(statistics.median(one[name] for one in turns) / 1e6, 1),
            "share_of_obstore": [round(one[name] / one["obstore"], 3) for one in turns],
        }
        for name in turns[0]
    }


if __name__ == "__main__":
    main()
