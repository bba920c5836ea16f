"""Run one command as a whole process and record what it cost.

In: a command, the folders it reads, the folder it writes. Out: a `Measurement`. Memory is read from /proc over the
process and its descendants every few milliseconds, so this needs Linux. Anonymous memory is the figure to compare:
pages of mapped checkpoints count as resident but the kernel takes them back at will. A forked child's pages are
counted with its parent's until it writes to them, i.e. twice; neither tool forks workers.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

INTERVAL_MS = 10
TAIL = 2000


@dataclass(frozen=True)
class Measurement:
    """The cost of one run. `error` is empty when the command succeeded."""

    wall_s: float
    user_s: float
    system_s: float
    peak_anon_bytes: int
    peak_rss_bytes: int
    output_bytes: int
    other_cpu_s: float  # spent by the rest of the machine meanwhile: how quiet the run was
    returncode: int
    error: str
    read_bytes: int = (
        0  # by the process itself through read calls, from the page cache or not; mapped files are not in it
    )
    written_bytes: int = 0


def measure(
    command: Sequence[str | Path],
    *,
    output: Path | None = None,
    inputs: Iterable[Path] = (),
    keep: bool = False,
    cold: bool = False,
    timeout: float = 3600.0,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """Run `command` with its inputs in the page cache, or out of it where it is to start `cold`.

    `output` is removed before, and after unless `keep`. `environment` has variables that are set beside those that are.
    """
    if output is not None:
        shutil.rmtree(output, ignore_errors=True)
    os.sync()  # what earlier runs left to write must not be paid by this one
    (cool if cold else warm)(inputs)
    with tempfile.TemporaryFile() as log:
        busy = _busy_seconds()
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **(environment or {})},
        )
        try:
            anon, rss, timed_out = _watch(process.pid, start + timeout)
            wall = time.perf_counter() - start
            read, written = _moved(process.pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # on time-out or Ctrl-C; after a normal end nothing is left
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        others = _busy_seconds() - busy - usage.ru_utime - usage.ru_stime
        error = f"stopped after {timeout:.0f} s" if timed_out else ""
        if process.returncode and not error:
            error = _tail(log) or f"exit status {process.returncode}"
    size = sum(path.stat().st_size for path in files([output])) if output else 0
    if output is not None and not size and not error:
        error = "ended well but wrote nothing"
    if output is not None and not keep:
        shutil.rmtree(output, ignore_errors=True)
    return Measurement(
        wall_s=wall,
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        peak_anon_bytes=anon,
        peak_rss_bytes=rss,
        output_bytes=size,
        other_cpu_s=max(0.0, others),
        returncode=process.returncode,
        error=error,
        read_bytes=read,
        written_bytes=written,
    )


def files(folders: Iterable[Path]) -> list[Path]:
    """Every file below the folders."""
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def warm(folders: Iterable[Path]) -> None:
    """Read every file once, so that the run finds it in the page cache."""
    buffer = bytearray(8 << 20)
    for path in files(folders):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def cool(folders: Iterable[Path]) -> None:
    """Have the kernel drop every file from the page cache; what was written must have reached the disk before."""
    for path in files(folders):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _moved(pid: int) -> tuple[int, int]:
    """Bytes that an ended process and the children it waited for read and wrote; it has not been waited for yet."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        counts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
        return counts["rchar"], counts["wchar"]
    return 0, 0


def _watch(pid: int, deadline: float) -> tuple[int, int, bool]:
    """Sample memory until the process ends; its end wakes the wait, so sampling does not round the wall time."""
    anon = rss = 0
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while time.perf_counter() < deadline:
            now = _memory(pid)
            anon, rss = max(anon, now[0]), max(rss, now[1])
            if poll.poll(INTERVAL_MS):
                return anon, rss, False
        return anon, rss, True
    finally:
        os.close(pidfd)


def _memory(pid: int) -> tuple[int, int]:
    """Anonymous and resident bytes of the process tree now."""
    anon = rss = 0
    for process in _tree(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "RssAnon":
                    anon += int(value.split()[0]) * 1024
                elif name == "VmRSS":
                    rss += int(value.split()[0]) * 1024
    return anon, rss


def _tree(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += _tree(int(child))
    return found


def _busy_seconds() -> float:
    """CPU seconds spent by the whole machine since it started (user, nice, system, irq, softirq, steal)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - TAIL))
    return log.read().decode(errors="replace").strip()
