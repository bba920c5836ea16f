"""Results by the key of their job: `<first two letters>/<key>.json`, written whole, checked when read.

Several runs may share a folder: a file appears by a rename, and whoever comes second writes the same. A file that
cannot be read, or whose result does not match its hash, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from smelt.errors import CorruptFile, OutputError
from smelt.files.reading import read_json
from smelt.files.writing import write_file
from smelt.jobs.job import Job
from smelt.version import __version__

__all__ = ["ResultStore", "StoredResult"]


class StoredResult(NamedTuple):
    """A stored result and the seconds that it once took."""

    result: Any
    seconds: float


class ResultStore:
    """A folder of results."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.folder}: the folder for results cannot be made ({error.strerror})") from None

    def path(self, job: Job) -> Path:
        """Where the result of a job lies, or will."""
        return self.folder / job.key[:2] / f"{job.key}.json"

    def read(self, job: Job) -> StoredResult | None:
        """The result, if it is there and sound."""
        try:
            content = read_json(self.path(job))
            if content["key"] != job.key or content["sha256"] != _hash(content["result"]):
                return None
            return StoredResult(content["result"], float(content["seconds"]))
        except (CorruptFile, ValueError, KeyError, TypeError):
            return None

    def write(self, job: Job, result: Any, seconds: float) -> None:
        """Keep a result; on disk, whole, when the call returns."""
        content = {
            "key": job.key,
            "call": job.call,
            "arguments": job.arguments,
            "result": result,
            "sha256": _hash(result),
            "seconds": seconds,
            "smelt": __version__,
        }
        write_file(self.path(job), json.dumps(content), fault=f"the result of {job.label} cannot be written")


def _hash(result: Any) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()
