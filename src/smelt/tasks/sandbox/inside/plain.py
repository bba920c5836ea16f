"""Plain data as bytes: all that crosses between a program and its judge. Reading it runs nobody's code.

    value = tag, length, ":", content                       i1:7   s2:hi   l7:i1:7N0:

Numbers, texts, bytes, lists, tuples, sets, tables, ranges, decimals and fractions, nested as one likes. What is a kind
of these (a named tuple, a counter) crosses as its plain kind. Anything else stays where it is: `refer` gives it a tag
and a text to go by, `find` looks it up at the other end.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Refer = Callable[[Any], tuple[str, str]]
    Find = Callable[[str, str], Any]

__all__ = ["NotPlain", "decode", "encode"]


class NotPlain(ValueError):
    """Bytes that are no plain data."""


def encode(value: Any, refer: Refer) -> bytes:
    """A value as bytes; what cannot cross is asked of `refer`, which may refuse it."""
    tag, content = _apart(value, refer)
    return b"%s%d:%s" % (tag.encode(), len(content), content)


def _apart(value: Any, refer: Refer) -> tuple[str, bytes]:
    if value is None or value is True or value is False:
        return {None: "N", True: "T", False: "F"}[value], b""
    if isinstance(value, int):
        return "i", int.__format__(value, "x").encode()
    if isinstance(value, float):
        return "f", float.hex(value).encode()
    if isinstance(value, str):
        return "s", str.encode(value, "utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray):
        return "B" if isinstance(value, bytearray) else "b", bytes(value)
    for kind, tag in _SEVERAL.items():
        if isinstance(value, kind):
            return tag, b"".join(encode(one, refer) for one in kind.__iter__(value))
    if isinstance(value, dict):
        return "d", b"".join(encode(one, refer) for pair in dict.items(value) for one in pair)
    if isinstance(value, complex):
        return "c", encode(value.real, refer) + encode(value.imag, refer)
    if isinstance(value, range):
        return "r", b"".join(encode(one, refer) for one in (value.start, value.stop, value.step))
    kind = type(value)
    if kind.__module__ == "decimal" and kind.__name__ == "Decimal":
        return "D", str(value).encode()
    if kind.__module__ == "fractions" and kind.__name__ == "Fraction":
        return "Q", encode(value.numerator, refer) + encode(value.denominator, refer)
    tag, text = refer(value)
    return tag, text.encode()


_SEVERAL: dict[Any, str] = {list: "l", tuple: "t", set: "S", frozenset: "z"}


def decode(content: bytes, find: Find) -> Any:
    """The value that bytes stand for. Whatever they are, the worst is `NotPlain`."""
    try:
        values = _values(content, find)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise NotPlain(f"not plain data ({type(error).__name__})") from None
    if len(values) != 1:
        raise NotPlain("not one value")
    return values[0]


def _values(content: bytes, find: Find) -> list[Any]:
    found, at = [], 0
    while at < len(content):
        colon = content.index(b":", at)
        tag, size = content[at : at + 1].decode("ascii"), int(content[at + 1 : colon])
        end = colon + 1 + size
        if size < 0 or end > len(content):
            raise ValueError("cut off")
        found.append(_together(tag, content[colon + 1 : end], find))
        at = end
    return found


def _together(tag: str, content: bytes, find: Find) -> Any:
    simple = _SIMPLE.get(tag)
    if simple is not None:
        return simple(content)
    build = _BUILT.get(tag)
    if build is not None:
        return build(_values(content, find))
    if tag == "D":
        from decimal import Decimal

        return Decimal(content.decode())
    if tag == "Q":
        from fractions import Fraction

        numerator, denominator = _values(content, find)
        return Fraction(int(numerator), int(denominator))
    return find(tag, content.decode())


_SIMPLE: dict[str, Callable[[bytes], Any]] = {
    "N": lambda _: None,
    "T": lambda _: True,
    "F": lambda _: False,
    "i": lambda content: int(content, 16),
    "f": lambda content: float.fromhex(content.decode()),
    "s": lambda content: content.decode("utf-8", "surrogatepass"),
    "b": bytes,
    "B": bytearray,
}
_BUILT: dict[str, Callable[[list[Any]], Any]] = {
    "l": list,
    "t": tuple,
    "S": set,
    "z": frozenset,
    "d": lambda values: dict(zip(values[::2], values[1::2], strict=True)),
    "c": lambda values: complex(*values),
    "r": lambda values: range(*values),
}
