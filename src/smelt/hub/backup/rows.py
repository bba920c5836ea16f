"""Rows as lines of JSON, one file for each table: the same whichever database they come from or go to.

Times are written in UTC, bytes in hexadecimal. What clients may still ask for (`limits`) is worth nothing elsewhere and
stays. Of tokens there are only the hashes that the database has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Column, insert, select, text
from sqlalchemy.orm import Session

from smelt.errors import CorruptFile
from smelt.files.reading import parse_json
from smelt.hub.store.schema import Base, Moment

__all__ = ["TABLES", "read_rows", "save_rows", "write_rows"]

TABLES = ("graphs", "hub", "models", "files", "labels", "jobs", "tokens")
"""In an order in which every row finds those that it speaks of."""
_NUMBERED = ("models", "jobs", "tokens")
"""Their numbers are given by the database, which on Postgres has to be told where to go on."""
_LONGEST = 4_000_000
"""Bytes of a line."""
_AT_ONCE = 500


def save_rows(session: Session, table: str, file: BinaryIO) -> int:
    """Write a table; gives the number of its rows."""
    columns = Base.metadata.tables[table].columns
    query = select(*columns).order_by(*Base.metadata.tables[table].primary_key)
    count = 0
    for row in session.execute(query).yield_per(_AT_ONCE):
        words = {column.name: _plain(value) for column, value in zip(columns, row, strict=True)}
        file.write(json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        count += 1
    return count


def read_rows(path: Path, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, each with all columns of the table and no other, and each value of its column's kind."""
    columns = {column.name: column for column in Base.metadata.tables[table].columns}
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST + 1):
            number += 1
            where = f"{path.name}, line {number}"
            if len(line) > _LONGEST:
                raise CorruptFile(f"{where}: is longer than {_LONGEST:,} bytes")
            words = parse_json(line, where)
            if not isinstance(words, dict) or words.keys() != columns.keys():
                raise CorruptFile(f"{where}: is no row of {table}, which has {', '.join(columns)}")
            yield {name: _value(words[name], column, where) for name, column in columns.items()}


def write_rows(session: Session, table: str, rows: Iterator[dict[str, Any]]) -> int:
    """Put rows into an empty table; gives how many there were."""
    count = 0
    while some := list(islice(rows, _AT_ONCE)):
        session.execute(insert(Base.metadata.tables[table]), some)
        count += len(some)
    if table in _NUMBERED and session.get_bind().dialect.name == "postgresql":
        last = f"(SELECT coalesce(max(id), 0) + 1 FROM {table})"
        session.execute(text(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {last}, false)"))
    return count


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


def _value(value: Any, column: Column[Any], where: str) -> Any:
    if value is None and column.nullable:
        return None
    kind: type[Any] = datetime if isinstance(column.type, Moment) else column.type.python_type
    try:
        if kind is datetime:
            found: Any = datetime.fromisoformat(value)
            if found.tzinfo is None:
                raise ValueError("it has no zone")
            return found
        if kind is bytes:
            return bytes.fromhex(value)
        if kind is float and type(value) is int:
            return float(value)
        longest = getattr(column.type, "length", None)
        if type(value) is kind and (longest is None or len(value) <= longest):
            return value
    except (TypeError, ValueError):
        pass
    raise CorruptFile(f"{where}: {column.name} cannot be {str(value)[:60]!r}")
