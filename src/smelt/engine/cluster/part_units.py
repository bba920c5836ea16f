"""Units of work where the output lies in a store: neighbouring parts of a file, so that each part has one owner.

What cannot be cut (a span, or a tensor whose stages need a number about all of it) may lie in the parts of two units.
Both make it then, and each keeps its own share; so units end where nothing is made twice, if that comes soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from smelt.engine.cluster.units import Piece, looks_at_all
from smelt.engine.plan.plan import Item, Span
from smelt.engine.sink.objects.upload import FileUpload
from smelt.formats.dtype import item_size

__all__ = ["PartUnit", "part_units"]

_MOST = 4
"""How many times larger a unit may be than it should, so that nothing is made twice."""


@dataclass(frozen=True)
class PartUnit:
    """Some parts of a file, and the pieces that fill them."""

    file: FileUpload
    parts: Sequence[tuple[int, int, int]]
    """Number, first byte and end of each."""
    pieces: Sequence[Piece]
    where: Mapping[str, int]
    """Where each tensor begins in the file."""

    def words(self) -> dict[str, Any]:
        """As jobs carry it."""
        return {**self.file.words(), "parts": [list(part) for part in self.parts], "where": dict(self.where)}


def part_units(
    files: Sequence[FileUpload],
    file_of: Callable[[Item], FileUpload],
    items: Sequence[Item],
    spans_of: Callable[[Item], list[Span]],
    size: int,
) -> Iterator[PartUnit]:
    """All parts that are missing, as units of about `size` bytes of input, file after file."""
    homes: dict[int, list[tuple[int, Item]]] = {}
    for number, item in enumerate(items):
        homes.setdefault(id(file_of(item)), []).append((number, item))
    for file in files:
        parts = file.to_bring()
        if not parts:
            continue
        atoms = [atom for number, item in homes[id(file)] for atom in _atoms(file, number, item, spans_of(item))]
        atoms.sort(key=attrgetter("start"))
        for first, stop in _runs(parts, atoms, size):
            own = parts[first:stop]
            pieces = _pieces(items, atoms, own[0][1], own[-1][2])
            where = {items[piece.item].key: file.start(items[piece.item].key) for piece in pieces}
            yield PartUnit(file, own, pieces, where)


@dataclass(frozen=True, slots=True)
class _Atom:
    """What is made at once: a span, or an item as a whole; where it lies in the file, and its bytes of input."""

    start: int
    end: int
    item: int
    first: int
    stop: int
    bytes: int
    is_all: bool


def _atoms(file: FileUpload, number: int, item: Item, spans: list[Span]) -> Iterator[_Atom]:
    size = item_size(item.info.dtype)
    begin = file.start(item.key) + item.first * size
    if not item.info.count:
        return
    if len(spans) < 2 or looks_at_all(item):
        yield _Atom(begin, begin + item.info.count * size, number, 0, len(spans), item.bytes_in, is_all=True)
        return
    for at, span in enumerate(spans):
        taken = item.bytes_of(span.stop - span.start)
        yield _Atom(begin + span.start * size, begin + span.stop * size, number, at, at + 1, taken, is_all=False)


def _runs(parts: Sequence[tuple[int, int, int]], atoms: Sequence[_Atom], size: int) -> Iterator[tuple[int, int]]:
    """The parts of each unit, as places in the list of parts."""
    begun, taken, at = 0, 0, 0
    for place, (number, start, end) in enumerate(parts):
        while at < len(atoms) and atoms[at].start < end:
            taken += atoms[at].bytes if atoms[at].end > start else 0
            at += 1
        is_last = place + 1 == len(parts) or parts[place + 1][0] != number + 1
        shared = at > 0 and atoms[at - 1].end > end
        if is_last or (taken >= size and not shared) or taken >= _MOST * size:
            yield begun, place + 1
            begun, taken = place + 1, 0


def _pieces(items: Sequence[Item], atoms: Sequence[_Atom], start: int, end: int) -> list[Piece]:
    """What has bytes between these places, the spans of an item in one piece."""
    found: list[Piece] = []
    for atom in atoms:
        if atom.start >= end:
            break
        if atom.end <= start:
            continue
        last = found[-1] if found else None
        if last is not None and last.item == atom.item:
            found[-1] = Piece(atom.item, last.first, atom.stop, last.bytes + atom.bytes, is_all=False)
        else:
            found.append(Piece(atom.item, atom.first, atom.stop, atom.bytes, atom.is_all))
    return found
