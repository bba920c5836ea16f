"""One input: a sound folder, one file of it damaged, read as a user would; and what came of it.

An input is known by its format, seed and number, and by nothing else. Numbers from 0 down are the sound folder itself.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fuzz.format import Format

__all__ = ["LIMIT_BYTES", "LIMIT_SECONDS", "Outcome", "Place", "keep_within"]

LIMIT_SECONDS = 5.0
LIMIT_BYTES = 1_000_000_000
LONGEST_TEXT = 21_000
"""Letters of a refusal: more than that nobody reads."""


@dataclass(frozen=True)
class Outcome:
    """What came of one input: `accepted`, `refused`, or a fault with its kind and traceback."""

    format: str
    seed: int
    index: int
    file: str
    result: str
    fault: str = ""
    detail: str = ""
    milliseconds: float = 0.0
    megabytes: float = 0.0

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    def as_fault(self, fault: str) -> Outcome:
        return replace(self, result="fault", fault=fault)


class Place:
    """The folder in which the inputs of one format are tried, one after the other."""

    def __init__(self, format: Format, folder: Path):  # noqa: A002 - it is one
        self.format, self.folder = format, folder
        folder.mkdir(parents=True, exist_ok=True)
        format.make(folder)
        self._sound = {name: (folder / name).read_bytes() for name in format.files}

    def damaged(self, seed: int, index: int) -> tuple[str, bytes]:
        """The file that this input damages, and its content then; of number -n nothing, the n-th file is read."""
        names = sorted(self._sound)
        if index <= 0:
            name = names[-index % len(names)]
            return name, self._sound[name]
        draw = random.Random(f"{self.format.name} {seed} {index}")
        name = draw.choice(names)
        return name, self.format.files[name](draw, self._sound[name])

    def attempt(self, seed: int, index: int, save: Path | None = None) -> Outcome:
        """Try one input; the folder is sound again afterwards. `save`: a folder that gets a copy of it as it was."""
        name, content = self.damaged(seed, index)
        path = self.folder / name
        self._write(path, content)
        if save is not None:
            shutil.copytree(self.folder, save, dirs_exist_ok=True)
        before, began, used = _memory(), time.perf_counter(), time.process_time()
        detail = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result, fault, detail = self._read(name)
            if index <= 0 and result != "accepted":
                result, fault = "fault", fault or "the sound files are refused"
            if time.process_time() - used > LIMIT_SECONDS:
                result, fault = "fault", f"no answer after {LIMIT_SECONDS:.0f} s"
        finally:
            spent, peak = time.perf_counter() - began, _memory(peak=True)
            self._write(path, self._sound[name])
        return Outcome(
            self.format.name,
            seed,
            index,
            name,
            result,
            fault,
            detail,
            round(1000 * spent, 1),
            round(max(0, peak - before) / 1e6, 1),
        )

    def _read(self, name: str) -> tuple[str, str, str]:
        try:
            found = self.format.read(self.folder, name)
            wrong = self.format.wrong(self.folder, found)
        except self.format.refusals as error:
            text = str(error)
            if len(text) > LONGEST_TEXT:
                return "fault", f"a refusal of {len(text):,} letters", text[:400]
            return "refused", "", f"{type(error).__name__}: {text[:400]}"
        except Exception as error:
            return "fault", _where(error), "".join(traceback.format_exception(error, limit=-12))[-6000:]
        return ("fault", "wrong result", wrong) if wrong else ("accepted", "", "")

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        """As a file of its own: nothing that remembers the file of before may take it for that one."""
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def _where(error: BaseException) -> str:
    """The class of a fault: the error and the last lines of Smelt that it went through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if f"{os.sep}smelt{os.sep}" in one.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).parent.name}/{Path(last.filename).name}:{last.name}"


def keep_within(limit: int = LIMIT_BYTES) -> None:
    """Bound this process: from now on it gets that many bytes more than it has."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            most = int(line.split()[1]) * 1024 + limit
            resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _memory(peak: bool = False) -> int:
    """Resident bytes of this process, or the most since the last time it was asked for the present ones."""
    try:
        if not peak:
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:" if peak else "VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no Linux, or it is not allowed: then memory is bounded, not measured
        pass
    return 0
