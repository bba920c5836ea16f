"""The machine's floors: how fast bytes can be read, copied and written here, whatever the merge.

In: a folder to write into. Out: bandwidths, and from them the seconds that a merge of given bytes takes when it reads
its inputs once, writes its output once and does nothing else: no arithmetic, no start-up. The best of one thread and
of one thread per core counts, in the best of three tries.

    python benchmarks/floor.py [--scratch DIR]
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

PIECE = 4 << 20
SPAN = 512 << 20  # bytes per try: enough to leave the caches, little enough to be quick
TRIES = 3


@dataclass(frozen=True)
class Floor:
    """Bytes per second."""

    read: float  # from the page cache into a buffer
    write: float  # into a new file, to the page cache
    memcpy: float
    disk: float = 0.0  # from the disk, of a file that has left the page cache

    def seconds(self, read_bytes: int, write_bytes: int, *, cold: bool = False) -> float:
        """The least time to read the one and write the other.

        A mapped file needs no copy, so reading goes at memcpy's speed where that is higher; `cold`, at the disk's.
        Reading and writing are added, not overlapped: both are work of the same cores.
        """
        return read_bytes / (self.disk if cold else max(self.read, self.memcpy)) + write_bytes / self.write


def measure_floor(scratch: Path) -> Floor:
    """Measure with a new file in `scratch`, which is removed again."""
    scratch.mkdir(parents=True, exist_ok=True)
    target = scratch / "floor.tmp"
    try:
        write = _best(lambda threads: _write(target, threads), SPAN)
        read = _best(lambda threads: _read(target, threads), SPAN)
        disk = _best(lambda threads: _read(target, threads, cold=True), SPAN)
    finally:
        target.unlink(missing_ok=True)
    return Floor(read=read, write=write, memcpy=_best(_Copy(SPAN // 2), SPAN // 2), disk=disk)


def _best(work: Callable[[int], float], size: int) -> float:
    cores = len(os.sched_getaffinity(0))
    return max(size / work(threads) for threads in sorted({1, cores}) for _ in range(TRIES))


def _spread(threads: int, size: int, work: Callable[[int, int], object]) -> float:
    """Seconds for `work` on pieces of [0, size), shared between threads."""
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        for _ in pool.map(lambda start: work(start, min(start + PIECE, size)), range(0, size, PIECE)):
            pass
        return time.perf_counter() - begin


def _write(target: Path, threads: int) -> float:
    target.unlink(missing_ok=True)
    os.sync()
    data = memoryview(os.urandom(PIECE))
    fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        return _spread(threads, SPAN, lambda start, stop: os.pwrite(fd, data[: stop - start], start))
    finally:
        os.close(fd)


def _read(target: Path, threads: int, *, cold: bool = False) -> float:
    own = threading.local()

    def piece(start: int, stop: int) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = memoryview(bytearray(PIECE))
        os.preadv(fd, [own.buffer[: stop - start]], start)

    fd = os.open(target, os.O_RDONLY)
    try:
        if cold:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return _spread(threads, SPAN, piece)
    finally:
        os.close(fd)


class _Copy:
    def __init__(self, size: int) -> None:
        self.source, self.target = (torch.ones(size, dtype=torch.uint8) for _ in range(2))

    def __call__(self, threads: int) -> float:
        def piece(start: int, stop: int) -> None:
            self.target[start:stop].copy_(self.source[start:stop])

        return _spread(threads, self.source.numel(), piece)


def main() -> None:
    """Command line: print the bandwidths."""
    parser = argparse.ArgumentParser(description="Measure the read, write and memcpy bandwidth of this machine.")
    parser.add_argument("--scratch", type=Path, default=Path(".bench"), help="where a file of 512 MB may be written")
    floor = measure_floor(parser.parse_args().scratch)
    print(
        f"page-cache read {floor.read / 1e9:.2f} GB/s, new-file write {floor.write / 1e9:.2f} GB/s, "
        f"memcpy {floor.memcpy / 1e9:.2f} GB/s, disk read {floor.disk / 1e9:.2f} GB/s"
    )


if __name__ == "__main__":
    main()
