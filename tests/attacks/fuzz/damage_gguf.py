"""Damage to a GGUF file: fields, arrays, tensor names, sizes, types and offsets that lie, in a file that is laid out.

magic, version (u32), tensors (u64), fields (u64); each field: key, type, value; each tensor: name, dimensions,
type, offset; then the data from the next multiple of the alignment on
"""

from __future__ import annotations

import random
import struct
from typing import Any

from fuzz.damage_files import Damage, mixed

__all__ = ["gguf"]

_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_HUGE = (0, 1, 2, 3, 7, 2**16, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1)


class _Reader:
    def __init__(self, content: bytes):
        self.content, self.at = content, 0

    def take(self, code: str) -> Any:
        value = struct.unpack_from("<" + code, self.content, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> bytes:
        length = self.take("Q")
        self.at += length
        return self.content[self.at - length : self.at]

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, count = self.take("I"), self.take("Q")
            return [inner, [self.value(inner) for _ in range(count)]]
        return self.take(_SIZES[kind])


def _string(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _value(kind: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return _string(value)
    if isinstance(value, list):
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(_value(value[0], one) for one in value[1])
    code = _SIZES.get(kind, "Q")
    if code in "fd":
        return struct.pack("<" + code, value)
    size = struct.calcsize(code)
    return (int(value) & (256**size - 1)).to_bytes(size, "little")


def _gguf(draw: random.Random, content: bytes) -> bytes:
    file = _Reader(content)
    head = [file.take("I"), file.take("I"), file.take("Q"), file.take("Q")]
    fields, tensors = [], []
    for _ in range(head[3]):
        key, kind = file.string(), file.take("I")
        fields.append([key, kind, file.value(kind)])
    for _ in range(head[2]):
        name, count = file.string(), file.take("I")
        tensors.append([name, [file.take("Q") for _ in range(count)], file.take("I"), file.take("Q")])
    data = content[file.at + -file.at % 32 :]
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(_WAYS)(draw, head, fields, tensors)
    packed = struct.pack("<I", head[0] & 0xFFFFFFFF) + struct.pack("<I", head[1] & 0xFFFFFFFF)
    if head[2:] == [len(tensors), len(fields)] or draw.random() < 0.5:
        head[2:] = [len(tensors), len(fields)]  # a count that lies breaks all that comes after it
    packed += struct.pack("<QQ", head[2], head[3])
    packed += b"".join(_string(key) + struct.pack("<I", kind) + _value(kind, value) for key, kind, value in fields)
    for name, shape, kind, offset in tensors:
        packed += (
            _string(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", one % 2**64) for one in shape)
        )
        packed += struct.pack("<IQ", kind, offset % 2**64)
    return packed + bytes(-len(packed) % 32) + data


gguf: Damage = mixed(_gguf, 0.35)


def _count(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    head[draw.randrange(4)] = draw.choice(_HUGE)


def _field(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    field = draw.choice(fields)
    if isinstance(field[2], bytes):
        odd = (
            b"",
            b"\xff\xfe",
            b"llama\0",
            b"x" * 70_000,
            b"qwen2",
            b"gemma3",
            b"phi3",
            b"clip",
            field[2][:-1],
            b"../..",
        )
        field[2] = draw.choice(odd)
    elif isinstance(field[2], list):
        inner, values = field[2]
        ways = (
            [inner, values[:-1]],
            [inner, values * 2],
            [inner, []],
            [4, [1, 2]],
            [12, []],
            [99, []],
            [9, [[4, [1]]] * 3],
        )
        field[2] = draw.choice(ways)
    else:
        field[2] = draw.choice((field[2] + 1, field[2] * 2, 0, 1, 3, 5, 2**31, 2**63, -1))
        if field[1] in (6, 12):
            field[2] = draw.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))


def _key(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    field = draw.choice(fields)
    odd = (b"general.alignment", b"split.count", b"", b"\xff", field[0] + b"x", draw.choice(fields)[0], b"a" * 70_000)
    field[0] = draw.choice(odd)


def _kind(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    field = draw.choice(fields)
    if not isinstance(field[2], bytes | list):
        field[1] = draw.choice((0, 1, 5, 7, 10, 11, 13, 99, 2**31))
        field[2] = int(field[2]) if field[2] == field[2] and abs(field[2]) < 2**60 else 0
    else:
        field[1] = draw.choice((0, 4, 13, 99))


def _alignment(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    fields.append([b"general.alignment", 4, draw.choice((0, 1, 3, 8, 64, 2**20, 2**31, 2**32 - 1))])


def _deep(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    deep: list[Any] = [4, [1]]
    for _ in range(draw.choice((3, 60, 200))):
        deep = [_ARRAY, [deep]]
    fields.append([b"deep", _ARRAY, deep])


def _lost(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    some = draw.choice((fields, tensors))
    if len(some) > 1:  # the other ways look for one
        some.remove(draw.choice(some))


def _twice(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    some = draw.choice((fields, tensors))
    some.append(list(draw.choice(some)))


def _name(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    one = draw.choice(tensors)
    odd = (
        b"",
        b"\xff\xfe",
        b"x" * 300,
        one[0] + b"x",
        draw.choice(tensors)[0],
        b"blk.99.attn_q.weight",
        b"a\0b",
        b"..",
    )
    one[0] = draw.choice(odd)


def _shape(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    one = draw.choice(tensors)
    number = draw.randrange(len(one[1])) if one[1] else 0
    if not one[1] or draw.random() < 0.3:
        one[1] = draw.choice(([], one[1] + [1], one[1][::-1], one[1][:-1], [1] * 5, [2**40, 2**40]))
    else:
        one[1][number] = draw.choice((*_HUGE, one[1][number] + 1, one[1][number] // 2))


def _type(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    draw.choice(tensors)[2] = draw.choice((*range(42), 99, 2**31))


def _offset(draw: random.Random, head: list[int], fields: list[Any], tensors: list[Any]) -> None:
    one = draw.choice(tensors)
    one[3] = draw.choice((*_HUGE, one[3] + 32, one[3] + 1, draw.choice(tensors)[3]))


_WAYS = (_count, _field, _field, _key, _kind, _alignment, _deep, _lost, _twice, _name, _shape, _shape, _type, _offset)
