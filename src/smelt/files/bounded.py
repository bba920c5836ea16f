"""Files as bytes or text, within bounds: a plain file, not too large, that this user may read; packed ones too.

In: a path that somebody gave, or that a folder holds. Out: its content, or a `CorruptFile` in one line. A pipe, a
socket or a device where a file should be is refused before anything waits for it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from smelt.errors import CorruptFile, SmeltError, shortened

__all__ = [
    "MOST_BYTES",
    "check_name",
    "check_plain",
    "gunzip",
    "is_there",
    "machine_fault",
    "names_in",
    "open_plain",
    "os_reason",
    "read_bytes",
    "read_text",
]

MOST_BYTES = 128 << 20
"""Of a file that is read whole, unless its reader knows better: four times the largest tokenizer.json there is."""

_PACKED, _LEAST_UNPACKED = 100, 64 << 20
"""How many times its size a file may unpack to, and what any may: a text shrinks to a tenth, a bomb to a thousandth."""

_GROWN = 1 << 16
"""Bytes that a file may have beyond its size: some say that they have none."""

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
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
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
