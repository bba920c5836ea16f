"""Bytes from a program are read by the judge: whatever they are, it gets plain data or an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from smelt.tasks.sandbox.inside.plain import NotPlain, decode, encode


def refuse(*_: Any) -> Any:
    raise ValueError("nothing but plain data")


def test_bytes_are_as_the_page_says() -> None:
    assert encode([7, None, "hi"], refuse) == b"l12:i1:7N0:s2:hi"
    assert decode(b"l12:i1:7N0:s2:hi", refuse) == [7, None, "hi"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"i1:",
        b"i-1:7",
        b"i1:7i1:7",
        b"l5:i9:7",
        b"?0:",
        b"k1:0",
        b"S3:l0:",
        b"d3:N0:",
        b"s1:\xff",
        b"r0:",
        b"Q6:i1:1i1:0",
        b"D1:x",
        b"f1:x",
        b"i9999999999999999999999:1",
    ],
)
def test_what_is_no_plain_data_is_refused(content: bytes) -> None:
    with pytest.raises(NotPlain):
        decode(content, refuse)


def test_deep_nesting_is_refused() -> None:
    content = b"N0:"
    for _ in range(50_000):
        content = b"l%d:%s" % (len(content), content)
        if len(content) > 400_000:
            break
    with pytest.raises(NotPlain):
        decode(content, refuse)


def test_damaged_bytes_give_plain_data_or_an_error() -> None:
    chance = random.Random(19)
    whole = encode([{"a": (1, 2.5)}, {3}, b"x", range(3), 1j, "é"], refuse)
    plain = (int, float, str, bytes, bytearray, list, tuple, set, frozenset, dict, complex, range, type(None))
    for _ in range(5_000):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            found = decode(bytes(content), refuse)
        except NotPlain:
            continue
        assert isinstance(found, plain)
