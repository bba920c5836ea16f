"""Programs whose cuts are filled in: tensors that differ in what was found for them, but not in form, share one.

A rule is called once with cuts whose numbers are stand-ins. Where these turn up in the shortened program, the numbers
of other cuts of the same form are written. A stand-in is no number, so that arithmetic on one is noticed: such a
program is no template. What a rule may ask of a cut is what makes its form: whether its value is 0, and whether of its
ties all, none or some may stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.engine.run.cpu.machine import CompiledProgram
from smelt.engine.run.cpu.operations import OP
from smelt.ops.order import Cut

if TYPE_CHECKING:
    from smelt.engine.run.cpu.program import Program
    from smelt.ops.block import Place

__all__ = ["KnownResult", "Template", "form_of_cuts"]

Cuts: TypeAlias = Mapping[int, Sequence[Sequence[Cut]]]
"""What was found for a place, by the position of the stage: for every row its cuts."""
Form: TypeAlias = tuple[object, ...]
_FIELDS = ("p", "q", "count")
_NO_COUNT = 1 << 40


class KnownResult:
    """A fold's result that is known already."""

    def __init__(self, found: Any):
        self._found = found

    def at(self, place: Place) -> Any:
        return self._found


class _Number(float):
    """Stands for a number of a cut: the `order`-th of all."""

    order: int


class _Count(int):
    """The same for a count."""

    order: int


def form_of_cuts(found: Mapping[int, Any]) -> Form | None:
    """What decides the form of a program; None where something else than cuts was found."""
    form: list[object] = []
    for position, rows in found.items():
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            return None
        for row in rows:
            if not all(isinstance(cut, Cut) for cut in row):
                return None
            form.append((position, *((cut.value == 0, cut.ties if not cut.ties else 1) for cut in row)))
    return tuple(form)


class Template:
    """A program for all cuts of one form."""

    def __init__(self, found: Cuts, build: Callable[[Mapping[int, KnownResult]], Program]):
        """`build` makes the program from what folds have found."""
        self._orders = 0
        stand_ins = {
            position: KnownResult([[self._stand_in(cut) for cut in row] for row in rows])
            for position, rows in found.items()
        }
        program = build(stand_ins)
        ops, _, registers = program.short()
        self._prepared = CompiledProgram(program, np.array(ops, OP), registers)
        self._places = [
            (place, name, value.order)
            for place, op in enumerate(ops)
            for name, value in zip(_FIELDS, op[4:7], strict=True)
            if isinstance(value, _Number | _Count)
        ]
        odd = sum(math.isnan(number) for op in ops for number in op[4:6]) + sum(op[6] > _NO_COUNT // 2 for op in ops)
        self.works = odd == len(self._places)

    def filled(self, found: Cuts) -> CompiledProgram:
        """The program with the numbers of these cuts."""
        numbers = [
            n for rows in found.values() for row in rows for cut in row for n in (cut.value, cut.below, cut.ties)
        ]
        ops = self._prepared.ops.copy()
        fields = {name: ops[name] for name in _FIELDS}
        for place, name, order in self._places:
            fields[name][place] = numbers[order]
        return self._prepared._replace(ops=ops)

    def _stand_in(self, cut: Cut) -> Cut:
        value, below, ties = _Number("nan"), _Number("nan"), _Count(_NO_COUNT)
        value.order, below.order, ties.order = range(self._orders, self._orders + 3)
        self._orders += 3
        return Cut(0.0 if cut.value == 0 else value, below, ties if cut.ties else cut.ties)
