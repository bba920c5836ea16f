"""Records: the examples of a language task, one JSON object per line, read by ourselves.

So the same file always gives the same examples, nothing is written to a cache, and no network is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import gunzip, is_there, parse_json, read_bytes
from smelt.tasks.task import TaskError

__all__ = ["as_dataset", "count_records", "numbered_records", "read_records"]

_MOST_BYTES = 1 << 30
"""Of a file of records, unpacked."""


def read_records(files: Sequence[Path], what: str) -> list[dict[str, Any]]:
    """Every record of .jsonl and .jsonl.gz files, in order; `what` is the task and split, for messages."""
    records = [record for file in files for _, record in _of_file(file, what)]
    if not records:
        raise TaskError(f"{what}: holds no examples ({', '.join(map(str, files)) or 'no file'})")
    return records


def numbered_records(file: Path, what: str) -> list[tuple[int, dict[str, Any]]]:
    """Every record of one file with the number of its line, from 1 on."""
    found = _of_file(file, what)
    if not found:
        raise TaskError(f"{what}: holds no examples ({file})")
    return found


def count_records(files: Sequence[Path]) -> int | None:
    """How many there are; nothing where a file is not there."""
    if not all(is_there(file) for file in files):
        return None
    return sum(sum(1 for line in _lines(file) if line.strip()) for file in files)


def as_dataset(records: Sequence[dict[str, Any]]) -> Any:
    """Records as the harness takes them: a table in memory, a column per word that any record has."""
    import datasets

    words = dict.fromkeys(word for record in records for word in record)
    return datasets.Dataset.from_dict({word: [record.get(word) for record in records] for word in words})


def _of_file(file: Path, what: str) -> list[tuple[int, dict[str, Any]]]:
    if not is_there(file):
        raise TaskError(
            f"{what}: the data file {shortened(str(file))} is not there; a task's data lie in its own folder"
        )
    records = []
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        record = parse_json(line, f"{file}, line {number}")
        if not isinstance(record, dict):
            raise CorruptFile(f"{file}, line {number}: a record is a table, got {type(record).__name__}")
        records.append((number, record))
    return records


def _lines(file: Path) -> list[str]:
    content = read_bytes(file, _MOST_BYTES)
    try:
        text = (gunzip(content, file) if file.suffix == ".gz" else content).decode()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{file}: cannot be read ({error})") from None
    return text.split("\n")  # splitlines would also split inside JSON strings
