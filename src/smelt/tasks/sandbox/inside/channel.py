"""Messages over two pipes: a length, then so many bytes. And what a process says of itself by its mark, and its end."""

from __future__ import annotations

import os

__all__ = ["BEGIN", "END", "NO_MEMORY", "Channel"]

BEGIN = b"begin\n"
END = b"end\n"
NO_MEMORY = 97
"""The exit code that says the memory was not enough."""


class Channel:
    """One end of it. What is said at the other end may be anything, or nothing."""

    def __init__(self, hears: int, says: int, most: int):
        self._hears, self._says, self._most = hears, says, most

    def send(self, message: bytes) -> None:
        """All of it, or an OSError where nobody listens."""
        rest = memoryview(len(message).to_bytes(8, "big") + message)
        while rest:
            rest = rest[os.write(self._says, rest) :]

    def receive(self) -> bytes | None:
        """The next message; None where there will be no more, or where it is longer than the most that is taken."""
        head = self._exactly(8)
        length = None if head is None else int.from_bytes(head, "big")
        return None if length is None or length > self._most else self._exactly(length)

    def _exactly(self, size: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < size:
            piece = os.read(self._hears, min(size - len(pieces), 1 << 20))
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)
