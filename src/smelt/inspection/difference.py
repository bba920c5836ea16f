"""How two models differ, as data that shows itself: sizes first, then tensors, files, and a heat map over depth."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smelt.display.blocks import Block, Cell, Facts, Table
from smelt.display.shown import Shown
from smelt.errors import shortened
from smelt.inspection.depth_map import DepthMap
from smelt.inspection.file_differences import FileDifference, KeyDifference
from smelt.inspection.tensor_changes import Sums, TensorChange

__all__ = ["Difference", "HeaderDifference", "small"]

_SHOWN = 3
_CHANGES = 5
_LONGEST = 40


@dataclass(frozen=True)
class HeaderDifference:
    """A tensor that both models have, in two shapes or two dtypes."""

    name: str
    first: str
    second: str


@dataclass(frozen=True)
class Difference(Shown):
    """What `smelt.diff` found. `same` says that nothing differs but what `tolerance` allows."""

    first: str
    second: str
    tolerance: float
    sizes: tuple[KeyDifference, ...]
    """What headers and configs say of the models as a whole: family, hidden_size, layers, vocabulary."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    shapes: tuple[HeaderDifference, ...]
    """Tensors of another shape: their numbers are not compared."""
    dtypes: tuple[HeaderDifference, ...]
    """Tensors of another dtype: their numbers are compared all the same."""
    compared: int
    tensors: tuple[TensorChange, ...] = field(repr=False)
    """Those that were compared number by number; none where all bytes are the same."""
    files: tuple[FileDifference, ...]
    depth: DepthMap = field(repr=False)
    notes: tuple[str, ...]

    @cached_property
    def changed(self) -> tuple[TensorChange, ...]:
        """The tensors whose numbers differ by more than the tolerance, the largest relative change first."""
        found = [one for one in self.tensors if one.sums.odd or one.sums.largest > self.tolerance]
        return tuple(sorted(found, key=lambda one: -one.sums.relative))

    @cached_property
    def total(self) -> Sums:
        """Over all tensors that were compared."""
        return sum((one.sums for one in self.tensors), Sums())

    @property
    def same(self) -> bool:
        found = (self.sizes, self.only_first, self.only_second, self.shapes, self.dtypes, self.changed, self.files)
        return not any(found)

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is no number becomes null."""
        plain = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        plain |= {
            "same": self.same,
            "tensors": [_tensor(one) for one in self.tensors],
            "changed": len(self.changed),
            "total": _numbers(self.total),
        }
        found: dict[str, Any] = _plain(plain)
        return found

    def shown(self) -> Iterator[Block]:
        yield Facts(list(self._facts()))
        if self.changed:
            rows = [_row(one) for one in self.changed[:_CHANGES]]
            yield Table(("relative", "largest", "cosine", "differing", "tensor"), rows, left=(4,), cut=True)
            yield self.heat_table()

    def heat_table(self) -> Table:
        """The depth map: |b - a| / |a|, the largest shaded in full, a dot where all is equal; without equal layers."""
        known = [value for row in self.depth.values for value in row if value is not None and math.isfinite(value)]
        most = max(known, default=0.0) or 1.0
        rows = [
            [layer, *("" if value is None else Cell(small(value), min(1.0, value / most)) for value in values)]
            for layer, values in zip(self.depth.layers, self.depth.values, strict=True)
            if any(values)
        ]
        return Table(("|b - a| / |a|", *self.depth.kinds), rows)

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "a", self.first
        yield "b", self.second
        yield from _under("sizes", [_told(one) for one in self.sizes])
        yield "tensors", self._tensors()
        for where, names in (("a", self.only_first), ("b", self.only_second)):
            if names:
                yield from _under(f"only in {where}", _grouped(names))
        for what, found in (("shapes", self.shapes), ("dtypes", self.dtypes)):
            yield from _under(what, _headers(found))
        if self.changed:
            total = self.total
            yield "change", f"relative {small(total.relative)}, largest {total.largest:.3g}, cosine {total.cosine:.6f}"
            if total.odd:
                yield "", f"{total.odd:,} numbers are infinite or NaN in one model and not in the other"
            equal = [name for name, row in zip(self.depth.layers, self.depth.values, strict=True) if not any(row)]
            if equal:
                more = ", ..." if len(equal) > _CHANGES else ""
                yield "equal", f"{len(equal)} layer{'s' * (len(equal) > 1)}: {', '.join(equal[:_CHANGES])}{more}"
        yield from _under("files", [line for one in self.files for line in _file(one)])
        yield from _under("note", self.notes)
        if self.same:
            yield "result", "the same" + (f" within {self.tolerance:g}" if self.tolerance else "")

    def _tensors(self) -> str:
        if not self.changed:
            within = f" within {self.tolerance:g}" if self.tolerance else ""
            return f"{self.compared:,} compared, all equal{within}" if self.compared else "none that can be compared"
        beyond = f" by more than {self.tolerance:g}" if self.tolerance else ""
        equal = self.compared - len(self.changed)
        return f"{self.compared:,} compared: {len(self.changed):,} differ{beyond}, {equal:,} equal"


def small(value: float) -> str:
    """A relative difference in five letters at most."""
    if value == 0:
        return "·"
    if not math.isfinite(value):
        return "∞"
    if value >= 0.01:
        return f"{value:.3f}" if value < 10 else f"{value:.0f}"
    return f"{value:.0e}".replace("e-0", "e-")


def _tensor(one: TensorChange) -> dict[str, Any]:
    return {"name": one.name, "parameters": one.parameters, **_numbers(one.sums)}


def _numbers(sums: Sums) -> dict[str, Any]:
    told = {"differing": sums.differing, "largest": sums.largest, "odd": sums.odd}
    return {**told, "relative": sums.relative, "cosine": sums.cosine}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _row(one: TensorChange) -> list[str]:
    sums = one.sums
    return [small(sums.relative), f"{sums.largest:.3g}", f"{sums.cosine:.6f}", f"{sums.differing:,}", one.name]


def _under(word: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((word if number == 0 else "", text) for number, text in enumerate(texts))


def _told(one: KeyDifference) -> str:
    return f"{one.key}: {_value(one.first)} and {_value(one.second)}"


def _value(value: Any) -> str:
    return "nothing" if value is None else shortened(str(value), _LONGEST)


def _file(one: FileDifference) -> Iterator[str]:
    if one.where != "both":
        yield f"{one.name}: only in {'a' if one.where == 'first' else 'b'}"
    elif not one.keys:
        yield f"{one.name}: differs"
    else:
        for key in one.keys[:_SHOWN]:
            yield f"{one.name}: {_told(key)}"
        if len(one.keys) > _SHOWN:
            yield f"{one.name}: {len(one.keys) - _SHOWN} more keys"


def _headers(found: Sequence[HeaderDifference]) -> list[str]:
    """Tensors that differ in the same way are told together."""
    ways: dict[tuple[str, str], list[str]] = {}
    for one in found:
        ways.setdefault((one.first, one.second), []).append(one.name)
    lines = []
    for (ours, theirs), names in ways.items():
        first = _grouped(names[:1])[0]
        more = f" and {len(names) - 1} more tensors" if len(names) > 1 else ""
        lines.append(f"{ours} and {theirs}: {first}{more}")
    return lines[:_SHOWN] + ([f"and {len(lines) - _SHOWN} other pairs"] if len(lines) > _SHOWN else [])


def _grouped(names: Sequence[str]) -> list[str]:
    """Names that differ in the number of their block are one: `model.layers.*.mlp.up_proj.weight (12)`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"(?<=\.)\d+(?=\.)", "*", name, count=1), []).append(name)
    lines = [f"{stem} ({len(one)})" if len(one) > 1 else one[0] for stem, one in groups.items()]
    left = sum(len(one) for one in list(groups.values())[_SHOWN:])
    return lines[:_SHOWN] + ([f"and {left} more tensors"] if left else [])
