"""Templates: a program is made once for cuts of one form, and the numbers of others are filled in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smelt.engine.run.cpu.machine import CompiledProgram
from smelt.engine.run.cpu.program import Program
from smelt.engine.run.cpu.template import Template, form_of_cuts
from smelt.ops.order import Cut

SOME = {0: [[Cut(2.0, 1.9, None)], [Cut(3.0, 2.9, 4)]]}
OTHER = {0: [[Cut(7.0, 6.9, None)], [Cut(math.inf, 5.0, 2)]]}


def trimmed(found: Any) -> Program:
    """Two models, each cut at what was found for it, and summed."""
    program = Program()
    first, second = (row[0] for row in found[0].at(None))
    left = program.cut(program.load(0), first.below)
    right = program.cut(program.load(1), second.below, second.value, second.ties)
    program.store(program.add(left, right))
    return program


class Given:
    def __init__(self, found: Any):
        self.at = lambda place: found


def test_filled_in_it_is_the_program_that_the_rule_would_have_written() -> None:
    template = Template(SOME, trimmed)
    assert template.works
    for found in (OTHER, SOME):
        expected = CompiledProgram.of(trimmed({0: Given(found[0])}))
        assert np.array_equal(template.filled(found).ops, expected.ops)
        assert template.filled(found).registers == expected.registers


def test_arithmetic_with_what_was_found_makes_no_template() -> None:
    def halved(found: Any) -> Program:
        program = Program()
        program.store(program.cut(program.load(0), found[0].at(None)[0][0].below / 2))
        return program

    def doubled(found: Any) -> Program:
        program = Program()
        cut = found[0].at(None)[1][0]
        program.store(program.cut(program.load(0), cut.below, cut.value, max(1, cut.ties - 1)))
        return program

    assert not Template(SOME, halved).works
    assert not Template(SOME, doubled).works


def test_forms_tell_apart_what_rules_tell_apart() -> None:
    cuts = [Cut(0.0, 0.0, None), Cut(2.0, 1.0, None), Cut(2.0, 1.0, 0), Cut(2.0, 1.0, 3)]
    forms = [form_of_cuts({0: [[cut]]}) for cut in cuts]
    assert len(set(forms)) == 4
    assert form_of_cuts({0: [[Cut(5.0, 4.0, 9)]]}) == forms[3]
    assert form_of_cuts({1: [[cuts[3]]]}) != forms[3]
    assert form_of_cuts({}) == ()


def test_what_is_no_cut_has_no_form() -> None:
    assert form_of_cuts({0: [0.25, 0.75]}) is None
    assert form_of_cuts({0: ([[cut] for cut in SOME[0][0]], [1.0])}) is None
