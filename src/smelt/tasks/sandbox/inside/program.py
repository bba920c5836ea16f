"""The program's end of a channel: calls come in with plain arguments, plain results go out.

It knows nothing of tests: not what is expected, not how many calls there will be. It needs no protection from the
program, which may answer for it if it likes: an answer is data, and whether it is right is found out elsewhere.
"""

from __future__ import annotations

import builtins
import os

from .channel import NO_MEMORY, Channel
from .plain import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["serve"]


def serve(space: dict[str, Any], channel: Channel) -> None:
    """Answer calls of what the program has defined until nobody asks any more."""
    kept = _Objects(space)
    channel.send(encode("loaded", kept.refer))
    while (request := channel.receive()) is not None:
        channel.send(_answer(request, kept))


def _answer(request: bytes, kept: _Objects) -> bytes:
    """The value and how arguments were changed; or what was raised."""
    try:
        function, given, named = decode(request, kept.find)
        before = [_changeable(one, kept) for one in given]
        value = given[0] if function is None else function(*given, **named)
        after = [_changeable(one, kept) for one in given]
        changed = [(at, one) for at, one in enumerate(given) if before[at] != after[at]]
        return encode(("value", value, changed), kept.refer)
    except MemoryError:
        os._exit(NO_MEMORY)
    except Exception as error:
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        return encode(("raised", kind.__name__, str(error)), kept.refer)


def _changeable(value: Any, kept: _Objects) -> bytes | None:
    return encode(value, kept.refer) if isinstance(value, list | dict | set | bytearray) else None


class _Objects:
    """What stays in the program: by name, or by a number where it was the result of a call."""

    def __init__(self, space: dict[str, Any]):
        self._space = space
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def refer(self, value: Any) -> tuple[str, str]:
        name = getattr(value, "__name__", "") if isinstance(value, type) else ""
        if vars(builtins).get(name) is value:
            return "p", name
        if id(value) not in self._numbers:  # it is kept, so that nothing else will have its id
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return "k", str(self._numbers[id(value)])

    def find(self, tag: str, text: str) -> Any:
        if tag == "k":
            return self._objects[int(text)]
        if tag == "p":
            return getattr(builtins, text)
        if text not in self._space:
            raise NameError(f"name {text!r} is not defined")
        return self._space[text]
