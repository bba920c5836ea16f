"""Tables of texts as data sets store them: .jsonl (.gz too), .csv, .tsv and .parquet, by the same words.

A .tsv is read as it stands, without quotes: STS and BEIR write it so. A .csv has quotes where it needs them. Both begin
with the names of their columns.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from smelt.errors import CorruptFile, MissingExtra, listed, shortened
from smelt.files.reading import gunzip, is_there, read_bytes
from smelt.tasks.language.records import numbered_records
from smelt.tasks.task import TaskError

__all__ = ["TableRow", "as_name", "as_number", "as_text", "parsed_rows", "read_table_rows"]

_MOST_BYTES = 1 << 32
"""Of a table, unpacked: a corpus of millions of documents."""
_KNOWN = (".jsonl", ".csv", ".tsv", ".parquet")
_SHOWN = 8

Parsed = TypeVar("Parsed")
TableRow = tuple[int, dict[str, Any]]
"""The number of a row, as its file counts them for people, and its values by column."""


def read_table_rows(file: Path, what: str, columns: Sequence[str]) -> list[TableRow]:
    """Every row of a table that has to have these columns; `what` is the task and split, for messages."""
    kind = file.with_suffix("").suffix + ".gz" if file.suffix == ".gz" else file.suffix
    if kind.removesuffix(".gz") not in _KNOWN or kind == ".parquet.gz":
        raise TaskError(
            f"{what}: {file} is no table that is known by its name ({', '.join(_KNOWN)}; .gz but for parquet)"
        )
    if not is_there(file):
        raise TaskError(
            f"{what}: the data file {shortened(str(file))} is not there; a task's data lie in its own folder"
        )
    if kind.startswith(".jsonl"):
        found = numbered_records(file, what)
        _check_each(file, found, columns)
        return found
    rows = _parquet(file) if kind == ".parquet" else list(_separated(file, "," if kind.startswith(".csv") else "\t"))
    if not rows:
        raise TaskError(f"{what}: holds no examples ({file})")
    missing = [column for column in columns if column not in rows[0][1]]
    if missing:
        raise TaskError(f"{file}: has no column {missing[0]!r}; it has: {', '.join(map(str, rows[0][1]))}")
    return rows


def parsed_rows(file: Path, what: str, columns: Sequence[str], parse: Callable[[TableRow], Parsed]) -> list[Parsed]:
    """Every row of a table as `parse` takes it; what it says of bad ones (ValueError) is told together."""
    faults: list[str] = []
    found: list[Parsed] = []
    for row in read_table_rows(file, what, columns):
        try:
            found.append(parse(row))
        except ValueError as error:
            faults.append(str(error))
    _tell(file, faults)
    return found


def as_text(row: TableRow, column: str) -> str:
    """A text with something in it; ValueError says what is wrong with it."""
    number, values = row
    value = values.get(column)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"line {number}: {column} has to be a text, got {shortened(repr(value))}")
    return value


def as_name(row: TableRow, column: str) -> str:
    """An id: a text or a whole number."""
    number, values = row
    value = values.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"line {number}: {column} has to be an id, got {shortened(repr(value))}")
    return str(value).strip()


def as_number(row: TableRow, column: str) -> float:
    """A finite number, also where a file has it as text."""
    number, values = row
    value = values.get(column)
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"line {number}: {column} has to be a number, got {shortened(repr(value))}")
    return found


def _tell(file: Path, faults: Iterable[str]) -> None:
    """Refuse a table with faults; the first few are named."""
    some = list(faults)
    if some:
        more = [f"… and {len(some) - _SHOWN} more"] if len(some) > _SHOWN else []
        raise TaskError(f"{file}: {listed([*some[:_SHOWN], *more])}")


def _check_each(file: Path, rows: Sequence[TableRow], columns: Sequence[str]) -> None:
    _tell(file, (f"line {number}: has no {word!r}" for number, row in rows for word in columns if word not in row))


def _separated(file: Path, mark: str) -> Iterator[TableRow]:
    content = read_bytes(file, _MOST_BYTES)
    try:
        text = (gunzip(content, file) if file.suffix == ".gz" else content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{file}: cannot be read ({error})") from None
    rows = _lines(text) if mark == "\t" else _quoted(file, text)
    heading: list[str] | None = None
    for number, cells in rows:
        if heading is None:
            heading = [cell.strip() for cell in cells]
            if len(set(heading)) != len(heading):
                raise CorruptFile(f"{file}: its first line names a column twice: {shortened(', '.join(heading))}")
        elif len(cells) != len(heading):
            raise CorruptFile(f"{file}, line {number}: has {len(cells)} cells, but the first line names {len(heading)}")
        else:
            yield number, dict(zip(heading, cells, strict=True))


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.rstrip("\r").split("\t")


def _quoted(file: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise CorruptFile(f"{file}, line {reader.line_num}: cannot be read ({error})") from None


def _parquet(file: Path) -> list[TableRow]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtra(f"{file}: a parquet file needs pyarrow: pip install 'smelt[llm]'") from None
    try:
        with ParquetFile(file) as opened:
            return list(enumerate(opened.read().to_pylist(), 1))
    except (ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CorruptFile(f"{file}: cannot be read as parquet ({shortened(reason)})") from None
