"""Rows: one line of JSON per number, with everything that made it. No number in a report without its row.

An accuracy row is one model on one task; a cost row is the time and memory of one merge and its evaluation.
Lines are appended in one write under a lock, so that two processes and a kill leave whole lines behind, or one
torn line at the end, which reading leaves out and the next append removes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from smelt.display.blocks import Facts, Table
from smelt.display.shown import Shown, ShownList
from smelt.errors import CorruptFile, OutputError
from smelt.files.positioned import read_at
from smelt.files.reading import parse_json, read_bytes
from smelt.files.schema import Strict, first_fault
from smelt.files.writing import locked
from smelt.recipe.schema import DataBudget
from smelt.version import __version__

__all__ = [
    "UNITS",
    "Combination",
    "CostRow",
    "Level",
    "Row",
    "Rows",
    "Variant",
    "append_rows",
    "code_version",
    "now",
    "read_rows",
]

Variant = Literal["reference", "published", "tuned", "curve", "path", "single"]
"""Why a model was evaluated: as a point of reference, at published or tuned settings, along a curve, or alone."""

UNITS = ("picture", "example", "question")
"""What examples of Smelt's own kinds of tasks are; rows of others say what theirs are."""

Combination = Literal["merge", "mix", "ensemble"]
Level = Literal["merged", "ensembled"]

_Bound = Annotated[float, Field(ge=-10, le=10)]
"""Of an interval around a score, which is between 0 and 1; a bootstrap may lie a little beside it."""
_Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0)]
_MOST_BYTES = 1 << 30
"""Of a file of rows: half a million of them."""


class Row(Shown, Strict, allow_inf_nan=False):
    """The score of one model on one split of one task."""

    kind: Literal["accuracy"] = "accuracy"
    suite: str | None = None
    entry: str
    """What was evaluated, for programs: `ties`, `expert-photos`, `pretrained`."""
    variant: Variant = "single"
    label: str
    """The same for people: `TIES`."""
    setting: dict[str, Any] = {}
    task: str
    task_version: int
    split: str
    corruption: str | None = None
    """What was done to the pictures first: `motion_blur@3`, or nothing."""
    n: int = Field(ge=1)
    metric: str = "accuracy"
    """What the score is: `accuracy`, or a language task's own (`exact_match`, `chrf`)."""
    correct: _Count | None = None
    """How many are right, where an example is either right or wrong."""
    accuracy: float = Field(ge=-1, le=1)
    """The score, whatever the metric: a mean over examples, 0 to 1; a correlation may be negative."""
    low: _Bound
    """Its 95 % interval, this and `high`: Wilson's for a share, else a bootstrap over examples."""
    high: _Bound
    loss: float | None = None
    """The mean over examples, where the task has one."""
    model: str
    """The model's reference, or `merged`; the address where a server holds it."""
    model_hash: str
    """Over its numbers; empty where a server holds them and nobody else can say."""
    served: Annotated[dict[str, Any] | None, Field(exclude_if=lambda served: served is None)] = None
    """Of a model that a server holds: the address, the name there, and what the server tells of itself and of it."""
    recipe: dict[str, Any] | None = None
    recipe_hash: str | None = None
    seed: int = 0
    data_budget: DataBudget = DataBudget()
    way: Combination = "merge"
    """How it was made: one model of the parts' size, one larger model, or several models asked together."""
    part: str | None = None
    """The part of a suite that it belongs to, where a suite repeats its entries on several pools."""
    seen: bool | None = None
    """Whether the task's own expert was among the models, where a suite leaves some out."""
    level: Level | None = None
    """Where several models met, in a suite that compares the two: in their weights, or in what they predict."""
    unit: Annotated[str | None, Field(exclude_if=lambda unit: unit is None)] = None
    """What one example is, where it is none of those that rows are usually about; not written where it is nothing."""
    sandbox: str | None = None
    """What held programs that the model wrote while they were judged: `landlock+seccomp`, `seccomp`, `python`."""
    code: str
    device: str
    dtype: str
    command: str
    when: str
    """When it was measured: ISO 8601, UTC."""

    @property
    def example(self) -> str:
        """What one of its `n` examples is called: a picture where they are told apart, else an example."""
        return self.unit or ("picture" if self.metric == "accuracy" else "example")

    def shown(self) -> list[Facts]:
        from smelt.evaluation.tables import row_facts

        return [row_facts(self)]


class Rows(ShownList[Row]):
    """Rows that show themselves as a table; those of several models are compared."""

    def shown(self) -> list[Table]:
        from smelt.evaluation.tables import rows_table

        return [rows_table(self)] if self else []


class CostRow(Shown, Strict, allow_inf_nan=False):
    """What one model of a suite cost to make and to evaluate."""

    kind: Literal["cost"] = "cost"
    suite: str | None = None
    entry: str
    variant: Variant = "single"
    setting: dict[str, Any] = {}
    part: str | None = None
    prepare_seconds: _Seconds = 0.0
    """What measuring or learning took when it was done; it is kept and not done again."""
    prepare_device: str = "cpu"
    prepare_peak_bytes: _Count = 0
    """The most memory of measuring or learning: of `prepare_device` where that is a GPU, else of the process.

    0 where it is not known: nothing was looked at, or it had been before.
    """
    merge_seconds: _Seconds
    validate_seconds: _Seconds = 0.0
    """What choosing the setting on validation data took: the merges and evaluations of all trials."""
    trials: _Count = 0
    """Settings that were tried."""
    evaluate_seconds: _Seconds
    peak_bytes: _Count
    """The most memory of the merge: of the process that it runs in, alone. Where nothing merges, that of learning."""
    threads: int = Field(ge=1)
    device: str
    """Where it was evaluated; a suite merges on the CPU."""
    code: str
    command: str
    when: str

    @property
    def most_bytes(self) -> int:
        """The larger peak of the two: what a machine needs for one after the other, wherever each of them runs."""
        return max(self.peak_bytes, self.prepare_peak_bytes)

    def shown(self) -> list[Facts]:
        from smelt.evaluation.tables import cost_facts

        return [cost_facts(self)]


_KINDS: dict[str, type[Row] | type[CostRow]] = {"accuracy": Row, "cost": CostRow}


def append_rows(path: str | Path, rows: Iterable[Row | CostRow]) -> None:
    """Add rows at the end of a file, which is made if needed; on disk when the call returns."""
    lines = b"".join(row.model_dump_json().encode() + b"\n" for row in rows)
    if not lines:
        return
    path = Path(path)
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+b", buffering=0) as file, locked(file.fileno()):
            _end_last_line(file.fileno())
            _write_or_leave(file.fileno(), lines)
    except OSError as error:
        with contextlib.suppress(OSError):
            if new and not path.stat().st_size:
                path.unlink()
        raise OutputError(f"{path}: the rows cannot be written ({error.strerror})") from None


def _write_or_leave(descriptor: int, lines: bytes) -> None:
    """All of the lines at the end of a file, on disk; or the file as it was."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def read_rows(path: str | Path) -> list[Row | CostRow]:
    """Every row of a file. A torn last line is left out; any other line that is no row is an error."""
    path = Path(path)
    *lines, last = read_bytes(path, _MOST_BYTES).split(b"\n")
    rows = [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    with contextlib.suppress(CorruptFile):  # after the last end of line: nothing, or what a killed process left
        rows.append(_parse(last, str(path)))
    return rows


def _parse(line: bytes, where: str) -> Row | CostRow:
    content = parse_json(line, where)
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CorruptFile(f"{where}: not a row (its kind is {kind!r}; there is: {', '.join(_KINDS)})")
    try:
        return _KINDS[kind].model_validate(content)
    except ValidationError as error:
        raise CorruptFile(f"{where}: not a row ({first_fault(error)})") from None


def _end_last_line(descriptor: int) -> None:
    """Cut off a torn last line; a whole one that lacks only its end gets it."""
    size = start = os.lseek(descriptor, 0, os.SEEK_END)
    while start and read_at(descriptor, 1, start - 1) != b"\n":
        start -= 1
    if start == size:
        return
    try:
        _parse(read_at(descriptor, size - start, start), "the last line")
    except CorruptFile:
        os.ftruncate(descriptor, start)
    else:
        os.write(descriptor, b"\n")


def now() -> str:
    """The present moment as rows write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@functools.cache
def code_version() -> str:
    """Smelt's version, and the commit where it runs from a working tree: `0.1.0+ga4f364f`, `.dirty` if edited."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "--short=7", "HEAD")
        tracked = _git(here, "ls-files", "row.py")
        dirty = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__}+g{commit}{'.dirty' if dirty else ''}" if tracked else __version__


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
