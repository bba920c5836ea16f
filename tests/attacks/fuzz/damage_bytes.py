"""Damage that knows nothing of what a file means: bytes flipped, cut out, put in, copied about, cut off."""

from __future__ import annotations

import random
import struct

__all__ = ["damage_bytes"]

_NUMBERS = [
    *(struct.pack("<Q", number) for number in (0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)),
    *(struct.pack("<I", number) for number in (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)),
    struct.pack("<f", float("nan")),
    struct.pack("<f", float("inf")),
]
_PIECES = [
    b"\0", b"\xff", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"'", b"\\",
    b"{", b"}", b"[", b"]", b":", b",", b"-", b"*a", b"&a ", b"#", b"null", b"NaN", b"1e999", b"\\ud800", b"\x1f\x8b",
    b"PK\x03\x04", b"PK\x01\x02", b"GGUF", b"\x80\x02", b"\x89PNG\r\n\x1a\n", b"<html>", b"%YAML 9.9\n---\n",
]  # fmt: skip


def damage_bytes(draw: random.Random, content: bytes) -> bytes:
    """One to four wounds, most often one."""
    wounded = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice(_WAYS)(draw, wounded)
    return bytes(wounded)


def _place(draw: random.Random, content: bytearray) -> int:
    """Half of the time near the beginning, where headers are."""
    end = len(content) if draw.random() < 0.5 else min(len(content), 64)
    return draw.randrange(end + 1)


def _flip(draw: random.Random, content: bytearray) -> None:
    if content:
        content[_place(draw, content) % len(content)] ^= 1 << draw.randrange(8)


def _overwrite(draw: random.Random, content: bytearray) -> None:
    at, piece = _place(draw, content), draw.choice(_NUMBERS + _PIECES)
    content[at : at + len(piece)] = piece


def _insert(draw: random.Random, content: bytearray) -> None:
    at = _place(draw, content)
    content[at:at] = draw.choice(_NUMBERS + _PIECES) * draw.choice((1, 1, 1, 50))


def _remove(draw: random.Random, content: bytearray) -> None:
    at = _place(draw, content)
    del content[at : at + draw.choice((1, 1, 4, 8, 40, 400))]


def _cut_off(draw: random.Random, content: bytearray) -> None:
    del content[_place(draw, content) :]


def _copy(draw: random.Random, content: bytearray) -> None:
    start, at = _place(draw, content), _place(draw, content)
    piece = content[start : start + draw.choice((1, 8, 40, 400))]
    content[at : at + (len(piece) if draw.random() < 0.5 else 0)] = piece


def _noise(draw: random.Random, content: bytearray) -> None:
    at = _place(draw, content)
    count = draw.choice((1, 4, 16, 256))
    content[at : at + count] = draw.randbytes(count)


def _append(draw: random.Random, content: bytearray) -> None:
    content += draw.randbytes(draw.choice((1, 8, 1000)))


_WAYS = (_flip, _flip, _overwrite, _insert, _remove, _cut_off, _copy, _noise, _append)
