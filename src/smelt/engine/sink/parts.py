"""Parts of an output file: runs of its bytes that are made, kept and written apart from each other.

Whoever writes a file in parts (those of a multipart upload, those that workers of a cluster write) cuts it here,
so that all cut it at the same places.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["FIRST_BYTES", "MOST_PARTS", "PART_BYTES", "cut_into_parts"]

PART_BYTES = 64 << 20
"""Bytes of a part, at least, but for the last of a file. Object stores take no fewer than 5 MiB."""
FIRST_BYTES = 5 << 20
"""The same of a first part that waits for the file's header until the end: as small as object stores take it."""
MOST_PARTS = 10_000
"""Parts of a file: no object store takes more."""


def cut_into_parts(
    size: int, cuts: Iterable[int], *, least: int = PART_BYTES, first: int | None = None
) -> list[tuple[int, int]]:
    """First byte and end of each part of a file of so many bytes.

    `cuts` are the places, ascending, where it may be cut. A part ends at the first of them that is at least `least`
    bytes from its beginning; where that would be too many parts, they are larger. `first` is `least` of the first one.
    """
    least = max(least, -(-size // (MOST_PARTS if first is None else MOST_PARTS - 1)))
    begins = [0]
    for cut in cuts:
        if cut - begins[-1] >= (first if first is not None and len(begins) == 1 else least) and size - cut > 0:
            begins.append(cut)
    return list(zip(begins, [*begins[1:], size], strict=True))
