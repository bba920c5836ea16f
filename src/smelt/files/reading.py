"""Files that others wrote, read within bounds: as bytes, as text or as JSON, packed ones too.

In: a path that somebody gave, or that a folder holds. Out: its content, or a `CorruptFile` in one line. A pipe, a
socket or a device where a file should be is refused before anything waits for it. This is the one place where Smelt
reads JSON: what comes out is plain data that is not deep, has no endless numbers and no halves of characters, so that
whoever walks through it, prints it or writes it again can do so without care of its own.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from smelt.errors import CorruptFile, SmeltError, shortened
from smelt.files.positioned import BINARY
from smelt.system.process import gc_paused

__all__ = [
    "MOST_BYTES",
    "check_name",
    "check_plain",
    "find_json_table",
    "gunzip",
    "is_there",
    "machine_fault",
    "names_in",
    "natural",
    "open_plain",
    "os_reason",
    "parse_json",
    "parse_json_lines",
    "read_bytes",
    "read_json",
    "read_json_table",
    "read_text",
]

MOST_BYTES = 128 << 20
"""Of a file that is read whole, unless its reader knows better: four times the largest tokenizer.json there is."""

_PACKED, _LEAST_UNPACKED = 100, 64 << 20
"""How many times its size a file may unpack to, and what any may: a text shrinks to a tenth, a bomb to a thousandth."""

_GROWN = 1 << 16
"""Bytes that a file may have beyond its size: some say that they have none."""

Pairs = Callable[[list[tuple[str, Any]]], Any]

_DEEPEST = 64
"""Tables and lists within one another. Real files stay below 20."""
_MOST_PARTS = 8_000_000
"""A part takes 3 bytes in a file and up to 64 in memory; the largest tokenizers have 2 million."""
_MOST_DIGITS = 64
"""Of a whole number. Real files have one of 31: a tokenizer without a limit writes int(1e30)."""

_COARSE = bytes.maketrans(b"123456789D", b"0" * 9 + b"d")
_MANY_DIGITS = b"0" * (_MOST_DIGITS + 1)
_MAYBE_HALF = b"\\ud"
"""What stands before an escaped half of a character."""

_KINDS = {
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of its path is no folder",
    errno.EACCES: "this user may not open it (permission denied)",
    errno.EPERM: "this user may not open it (permission denied)",
    errno.EISDIR: "is a folder; a file is expected",
    errno.ENXIO: "is a socket or a device; a file is expected",
    errno.ELOOP: "is a link that leads back to itself",
    errno.ENAMETOOLONG: "this is longer than a file's name can be",
    errno.EFBIG: "it would be larger than a file may become here (ulimit -f)",
}
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def os_reason(error: OSError) -> str:
    """What the operating system refused, in words that need no manual."""
    return _REASONS.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__


def machine_fault(error: BaseException) -> str:
    """What the machine refused, where nothing of Smelt foresaw it. Any other exception is a mistake of Smelt's own and
    keeps its traceback.
    """
    if isinstance(error, OSError):
        where = f"{shortened(str(error.filename))}: " if error.filename is not None else ""
        return f"{where}{os_reason(error)}"
    if isinstance(error, RecursionError):
        return "something that was given is nested too deep to be worked with"
    if isinstance(error, MemoryError):
        return "this machine has not enough memory for that; `smelt plan` tells what a merge needs"
    return f"a name or a text is not valid Unicode ({shortened(str(error))})"


def is_there(path: str | Path) -> bool:
    """Whether a path leads to anything; where that cannot be found out (permission, a loop of links), it is said."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise CorruptFile(f"{shortened(str(path))}: {os_reason(error)}") from None
    except ValueError:  # a name with a zero byte in it
        return False
    return True


def names_in(folder: str | Path) -> list[str]:
    """The names of all that lies in a folder."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise CorruptFile(f"{shortened(str(folder))}: {os_reason(error)}") from None


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key of names in the order in which people count: layers.2 before layers.10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def check_name(path: Path, kind: type[SmeltError] = CorruptFile) -> None:
    """Refuse a name that is not text: nothing that Smelt writes could say it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        said = shortened(str(path).encode(errors="backslashreplace").decode())
        raise kind(f"{said}: a part of the name is not text in UTF-8; rename it") from None


def check_plain(path: Path) -> None:
    """Refuse what is no plain file, or one that this user may not read, before it is needed."""
    open_plain(path).close()


def open_plain(path: str | Path, kind: type[SmeltError] = CorruptFile) -> BinaryIO:
    """A plain file, open for reading. Nothing waits, whatever lies there."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes into it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | BINARY)
    except (OSError, ValueError) as error:
        raise kind(f"{shortened(str(path))}: {_reason(error)}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise kind(f"{shortened(str(path))}: {_KINDS.get(stat.S_IFMT(mode), 'is no plain file')}; a file is expected")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: str | Path, most: int = MOST_BYTES, kind: type[SmeltError] = CorruptFile) -> bytes:
    """The whole content of a plain file of at most so many bytes; every failure is a `kind` of error."""
    with open_plain(path, kind) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            # Memory is taken for all that is asked for, so no more is asked for than may be there.
            content = file.read(min(most, size + _GROWN) + 1) if size <= most else b""
        except OSError as error:
            raise kind(f"{shortened(str(path))}: {_reason(error)}") from None
    if max(size, len(content)) > most:
        raise kind(f"{shortened(str(path))}: has {size:,} bytes; a file of this kind has at most {most:,}")
    return content


def read_text(path: str | Path, most: int = MOST_BYTES, kind: type[SmeltError] = CorruptFile) -> str:
    """The same as text, which is UTF-8."""
    try:
        return read_bytes(path, most, kind).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(f"{shortened(str(path))}: is not text in UTF-8 ({error.reason} at byte {error.start:,})") from None


def gunzip(packed: bytes, where: str | Path) -> bytes:
    """What a .gz file holds; `where` is what errors begin with."""
    import gzip
    import io
    import zlib

    most = max(_PACKED * len(packed), _LEAST_UNPACKED)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFile(f"{shortened(str(where))}: cannot be unpacked ({error})") from None
    if len(content) > most:
        raise CorruptFile(f"{shortened(str(where))}: unpacks to more than {most:,} bytes, as no text does")
    return content


def _reason(error: OSError | ValueError) -> str:
    return os_reason(error) if isinstance(error, OSError) else f"is no name of a file ({error})"


def read_json(path: str | Path, most: int = MOST_BYTES) -> Any:
    """The content of a JSON file; whatever keeps it from being read is one error that names it."""
    return parse_json(read_bytes(path, most), str(path))


def read_json_table(path: str | Path) -> dict[str, Any]:
    """The same, of a file that has to hold a table."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise CorruptFile(f"{shortened(str(path))}: should hold a table, has {type(content).__name__}")
    return content


def find_json_table(path: Path) -> dict[str, Any] | None:
    """The table in a JSON file that need not be there; None where it is missing, damaged or no table."""
    try:
        content = read_json(path) if is_there(path) else None
    except CorruptFile:
        return None
    return content if isinstance(content, dict) else None


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
    if len(text) > _MOST_DIGITS:
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
