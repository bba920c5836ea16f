"""Damage by the kind of a file: the structure is opened, something in it is changed, and it is put together again.

Each function takes the draw and a sound file's bytes and gives other bytes. A part of the inputs is always damaged
byte by byte instead (`mixed`).
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from fuzz.damage_bytes import damage_bytes
from fuzz.damage_tree import damage_json, damage_tree, damage_yaml, dump, tree_of

__all__ = [
    "Damage",
    "gzipped_lines",
    "json_file",
    "lines",
    "mixed",
    "npz",
    "png",
    "raw",
    "safetensors",
    "text",
    "yaml_file",
    "zipped",
]

Damage = Callable[[random.Random, bytes], bytes]

_BOMB = 400_000_000
"""Bytes that a compressed piece may unpack to."""


def mixed(inner: Damage, share: float = 0.25) -> Damage:
    """Damage of one kind, and in a share of the inputs of plain bytes."""

    def damage(draw: random.Random, content: bytes) -> bytes:
        return damage_bytes(draw, content) if draw.random() < share else inner(draw, content)

    return damage


raw: Damage = damage_bytes
json_file: Damage = mixed(damage_json)
yaml_file: Damage = mixed(damage_yaml)


def _text(draw: random.Random, content: bytes) -> bytes:
    rows = content.split(b"\n")
    at = draw.randrange(len(rows))
    new = draw.choice((rows[at] * 2, b"", rows[at][::-1], b"\xff", "é\u202e".encode(), b"x" * 5000, b" ", b"a b c d"))
    rows[at : at + draw.choice((0, 1))] = [new]
    return b"\n".join(rows)


text: Damage = mixed(_text, 0.5)


def _safetensors(draw: random.Random, content: bytes) -> bytes:
    length = struct.unpack("<Q", content[:8])[0]
    tree, data = tree_of(json.loads(content[8 : 8 + length])), content[8 + length :]
    if draw.random() < 0.2:
        data = damage_bytes(draw, data)
    if draw.random() < 0.9:
        tree = damage_tree(draw, tree)
    header = dump(tree).encode("utf-8", "surrogatepass")
    said = len(header) if draw.random() < 0.95 else draw.choice((0, 1, len(header) - 1, len(header) + 1, 2**40, 2**63))
    return struct.pack("<Q", said) + header + data


safetensors: Damage = mixed(_safetensors)


def _lines(draw: random.Random, content: bytes) -> bytes:
    rows = content.split(b"\n")
    at = draw.randrange(len(rows))
    try:
        new = damage_json(draw, rows[at])
    except ValueError:
        new = draw.choice((b"", b"{}", b"[]", b"null", b"3", b"\xff", b"{", b"[" * 100_000))
    rows[at : at + draw.choice((0, 1, 1, 1))] = [new]
    return b"\n".join(rows)


lines: Damage = mixed(_lines)


def gzipped_lines(draw: random.Random, content: bytes) -> bytes:
    """Lines of JSON in a .gz, a bomb now and then."""
    chance = draw.random()
    if chance < 0.002:
        return _bomb(gzip.compress)
    if chance < 0.3:
        return damage_bytes(draw, content)
    return gzip.compress(lines(draw, gzip.decompress(content)), compresslevel=1, mtime=0)


def _bomb(compress: Callable[[bytes], bytes], made: dict[str, bytes] = {}) -> bytes:  # noqa: B006
    key = compress.__module__ + compress.__name__
    if key not in made:
        made[key] = compress(bytes(_BOMB))
    return made[key]


def zipped(inside: dict[str, Damage], other: Damage = damage_bytes) -> Damage:
    """A zip whose entries are of known kinds by the end of their names."""

    def damage(draw: random.Random, content: bytes) -> bytes:
        chance = draw.random()
        if chance < 0.3:
            return damage_bytes(draw, content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries: list[list[Any]] = [[info, archive.read(info)] for info in archive.infolist()]
        if chance < 0.7:
            one = draw.choice(entries)
            kind = next((how for end, how in inside.items() if one[0].filename.endswith(end)), other)
            one[1] = kind(draw, one[1])
        else:
            draw.choice(_ZIP)(draw, entries)
        return _pack(draw, entries)

    return damage


def _pack(draw: random.Random, entries: list[list[Any]]) -> bytes:
    import warnings

    packed = io.BytesIO()
    method = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(packed, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that stand twice, which is the point
        for info, content in entries:
            fresh = zipfile.ZipInfo(info.filename)
            fresh.external_attr, fresh.compress_type = info.external_attr, method
            archive.writestr(fresh, content)
        if draw.random() < 0.05:
            archive.comment = b"PK\x05\x06" * 100
    whole = bytearray(packed.getvalue())
    if draw.random() < 0.2:  # a lie in the directory alone
        start = whole.find(b"PK\x01\x02")
        at = start + draw.choice((6, 8, 10, 16, 20, 24, 28, 30, 32, 38, 42))
        whole[at : at + 4] = struct.pack("<I", draw.choice((0, 1, 8, 2**16, 2**31, 2**32 - 1)))
    return bytes(whole)


def _bad_name(draw: random.Random, entries: list[list[Any]]) -> None:
    info = draw.choice(entries)[0]
    name = info.filename
    odd = (f"../{name}", f"/{name}", f"a/../../{name}", name.replace("/", "\\"), name * 60, "", "\0", f"{name}/")
    info.filename = draw.choice((*odd, "model.bin", "x.py", f"é/{name}", "CON", name.upper(), f"__MACOSX/{name}"))


def _twice(draw: random.Random, entries: list[list[Any]]) -> None:
    entries.append(list(draw.choice(entries)))


def _lost(draw: random.Random, entries: list[list[Any]]) -> None:
    del entries[draw.randrange(len(entries))]


def _link(draw: random.Random, entries: list[list[Any]]) -> None:
    draw.choice(entries)[0].external_attr = draw.choice((0o120777, 0o020666, 0o010666, 0o040755)) << 16


def _zip_bomb(draw: random.Random, entries: list[list[Any]]) -> None:
    draw.choice(entries)[1] = bytes(draw.choice((30_000_000, 0, 12_000_000)))


def _many(draw: random.Random, entries: list[list[Any]]) -> None:
    entries += [[zipfile.ZipInfo(f"model-{number}.safetensors"), b""] for number in range(draw.choice((100, 3000)))]


_ZIP = (_bad_name, _bad_name, _twice, _lost, _link, _zip_bomb, _many)


_NPY = [
    *(("'<i8'", "'<f4'"), ("'<i8'", "'<U99999999'"), ("'<i8'", "'<V8'"), ("'<i8'", "'<i8,<i8'"), ("'<f", "'>f")),
    *(("(", f"({number}, ") for number in (0, -1, 10**9, 10**12, 2**63)),
    *((",)", ", 2)"), ("False", "True"), ("{", "["), ("'shape'", "'shapes'"), ("'<i8'", "[]"), ("'<i8'", "'<i3'")),
    *(("'<i8'", "'M8[s]'"), ("'<i8'", "'|b1'"), ("'<u1'", "'<c8'")),
]


def _npy(draw: random.Random, content: bytes) -> bytes:
    """An array whose header lies."""
    length = struct.unpack("<H", content[8:10])[0]
    head, data = content[10 : 10 + length].decode("latin-1"), content[10 + length :]
    chance = draw.random()
    if chance < 0.1:
        head = head.replace(head[head.find("'descr': ") + 9 :].split(",", 1)[0], "'|O'", 1)
        data = pickle.dumps([1, 2, 3])
    else:
        old, new = draw.choice(_NPY)
        head = head.replace(old, new, 1)
    if chance > 0.8:
        data = damage_bytes(draw, data)
    return content[:8] + struct.pack("<H", len(head)) + head.encode("latin-1") + data


npz: Damage = zipped({".npy": mixed(_npy)})


def _png(draw: random.Random, content: bytes) -> bytes:
    """A picture of another size than its pixels, or with chunks lost; the checksums are right."""
    chunks, at = [], 8
    while at < len(content):
        size = struct.unpack(">I", content[at : at + 4])[0]
        chunks.append([content[at + 4 : at + 8], content[at + 8 : at + 8 + size]])
        at += size + 12
    chance = draw.random()
    if chance < 0.5:
        width, height = (draw.choice((0, 1, 8, 63, 1000, 12_000, 30_000, 2**31)) for _ in range(2))
        keep = draw.random()
        old = struct.unpack(">II", chunks[0][1][:8])
        size = struct.pack(">II", old[0] if keep < 0.3 else width, old[1] if 0.3 < keep < 0.6 else height)
        chunks[0][1] = size + chunks[0][1][8:]
    elif chance < 0.7:
        chunks[0][1] = chunks[0][1][:8] + bytes(draw.choice((0, 1, 2, 3, 4, 6, 8, 16, 255)) for _ in range(5))
    elif chance < 0.85:
        draw.choice(chunks)[1] = zlib.compress(damage_bytes(draw, b"text\0\0" + bytes(2000)))
    else:
        chunks.insert(draw.randrange(len(chunks)), [b"iTXt", b"a\0\1\0\0\0" + zlib.compress(bytes(10_000_000))])
        if draw.random() < 0.5:
            chunks.remove(draw.choice(chunks))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return content[:8] + body


png: Damage = mixed(_png, 0.4)
