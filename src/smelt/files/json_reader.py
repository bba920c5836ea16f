"""JSON that others wrote, read within bounds: the one place where Smelt does so.

In: a file, or text and a word for where it came from. Out: plain data that is not deep, has no endless numbers and no
halves of characters, so that whoever walks through it, prints it or writes it again can do so without care of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, SmeltError, shortened
from smelt.files.bounded import MOST_BYTES, read_bytes
from smelt.system.garbage_collection import gc_paused

__all__ = ["parse_json", "parse_json_lines", "read_json", "read_json_table"]

Pairs = Callable[[list[tuple[str, Any]]], Any]

_DEEPEST = 64
"""Tables and lists within one another. Real files stay below 20."""
_MOST_PARTS = 8_000_000
"""A part takes 3 bytes in a file and up to 64 in memory; the largest tokenizers have 2 million."""
_LONGEST = 64
"""Digits of a whole number. Real files have one of 31: a tokenizer without a limit writes int(1e30)."""

_COARSE = bytes.maketrans(b"123456789D", b"0" * 9 + b"d")
_MANY_DIGITS = b"0" * (_LONGEST + 1)
_MAYBE_HALF = b"\\ud"
"""What stands before an escaped half of a character."""


def read_json(path: str | Path, most: int = MOST_BYTES, kind: type[SmeltError] = CorruptFile) -> Any:
    """The content of a JSON file; whatever keeps it from being read is one `kind` of error that names it."""
    return parse_json(read_bytes(path, most, kind), str(path), kind=kind)


def read_json_table(path: str | Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """The same, of a file that has to hold a table."""
    content = read_json(path, most)
    if not isinstance(content, dict):
        raise CorruptFile(f"{shortened(str(path))}: should hold a table, has {type(content).__name__}")
    return content


def parse_json_lines(text: bytes, where: str) -> Iterator[Any]:
    """The lines of a file that holds one piece of JSON in each; empty ones are passed over."""
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            yield parse_json(line, f"{where}, line {number}")


def parse_json(
    text: bytes | str,
    where: str,
    *,
    pairs: Pairs | None = None,
    finite: bool = False,
    kind: type[SmeltError] = CorruptFile,
) -> Any:
    """Plain data; `pairs` may judge every table as it is read (ValueError), `where` is what errors begin with.

    NaN and Infinity, which are no JSON and which Python writes all the same, are read unless numbers have to be
    `finite`.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        if len(raw) > _MOST_PARTS and sum(map(raw.count, (b",", b"[", b"{"))) > _MOST_PARTS:
            raise ValueError(f"more than {_MOST_PARTS:,} parts")
        # Asked of the bytes first: a call for every number, or a look at every name, would take longest of all.
        coarse = raw.translate(_COARSE)
        whole = _whole_number if _MANY_DIGITS in coarse else None
        with gc_paused():
            content = json.loads(
                raw.decode("utf-8-sig"),
                object_pairs_hook=pairs,
                parse_int=whole,
                parse_constant=_no_number if finite else None,
            )
        if type(content) is dict or type(content) is list:
            _check_depth(content)
        if _MAYBE_HALF in coarse:
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except UnicodeEncodeError:
        raise _unreadable(kind, where, "half of a character stands alone: \\ud800 to \\udfff come in pairs") from None
    except RecursionError:
        raise _unreadable(kind, where, f"nested deeper than {_DEEPEST} levels") from None
    except ValueError as error:
        raise _unreadable(kind, where, str(error)) from None


def _unreadable(kind: type[SmeltError], where: str, reason: str) -> SmeltError:
    return kind(f"{shortened(where)}: not readable as JSON ({shortened(reason)})")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _whole_number(text: str) -> int:
    if len(text) > _LONGEST:
        raise ValueError(f"a number of {len(text):,} digits")
    return int(text)


def _check_depth(content: Any) -> None:
    """Level by level: a fifth of the time that reading took, where calls that call themselves would take all of it."""
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise RecursionError
