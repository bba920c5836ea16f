"""Two operations become one only where nothing else needs what lies between."""

from __future__ import annotations

from smelt.engine.run.cpu.operations import Code
from smelt.engine.run.cpu.program import Program


def codes(program: Program) -> list[Code]:
    return [Code(code) for code in program.finish()[0]["code"]]


def changes(program: Program, models: int) -> tuple[list[int], int]:
    base = program.load(models)
    return [program.subtract(program.load(number), base) for number in range(models)], base


def test_load_subtract_cut_and_scale_are_one() -> None:
    program = Program()
    (row,), base = changes(program, 1)
    program.store(program.add(program.scale(program.cut(row, 0.5), 3.0), base))
    assert codes(program) == [Code.LOAD, Code.LOAD_CUT, Code.STORE_SUM]
    ops, _, registers = program.finish()
    assert (ops[1]["p"], ops[1]["q"], registers) == (0.5, 3.0, 2)


def test_what_is_needed_twice_is_kept() -> None:
    program = Program()
    (row,), _ = changes(program, 1)
    program.masses(row, program.cut(row, 0.5))
    assert codes(program) == [Code.LOAD, Code.LOAD_LESS, Code.ABOVE, Code.MASSES]


def test_a_product_of_two_factors_is_not_made_one() -> None:
    """(x * 0.1) * 3 and x * (0.1 * 3) are not the same number."""
    program = Program()
    (row,), _ = changes(program, 1)
    program.store(program.scale(program.scale(row, 0.1), 3.0))
    assert codes(program) == [Code.LOAD, Code.LOAD_CUT, Code.SCALE, Code.STORE]


def test_an_operation_does_not_move_past_a_change_of_what_it_reads() -> None:
    program = Program()
    a, b = program.load(0), program.load(1)
    change = program.subtract(a, b)
    program.scale(b, 2.0, into=b)
    program.store(program.add(program.square(change), b))
    assert Code.DISTANCE not in codes(program)


def test_counts_are_found_under_the_numbers_that_the_long_program_gave_them() -> None:
    program = Program()
    (row,), _ = changes(program, 1)
    op = program.equal(row, 0)
    assert (op, program.finish()[1][op]) == (3, 2)


def test_registers_are_used_again() -> None:
    """Ten models one after the other need the base, the sum, and no more."""
    program = Program()
    rows, base = changes(program, 10)
    program.store(program.add(program.weighted_sum(rows, [0.1] * 10), base))
    assert program.finish()[2] == 2


def test_a_draw_and_the_sums_over_it_are_one() -> None:
    """The change itself is needed once more only for its sum, which the same operation has."""
    program = Program()
    (row,), _ = changes(program, 1)
    program.masses(row, program.multiply(program.draw(0.5, 7, 9), row))
    assert codes(program) == [Code.LOAD, Code.LOAD_LESS, Code.DRAWN_MASSES]
    (drawn,) = (op for op in program.finish()[0] if op["code"] == Code.DRAWN_MASSES)
    assert (drawn["p"], drawn["low"], drawn["high"]) == (0.5, 7, 9)
    assert drawn["memory"] != 0


def test_sums_over_a_draw_that_was_scaled_are_not() -> None:
    """Numbers that a factor has made zero are not kept."""
    program = Program()
    (row,), _ = changes(program, 1)
    program.masses(row, program.scale(program.multiply(program.draw(0.5, 7, 9), row), 1e-40))
    assert Code.DRAWN_MASSES not in codes(program)


def test_load_subtract_draw_and_scale_are_one() -> None:
    program = Program()
    (row,), base = changes(program, 1)
    kept = program.scale(program.multiply(program.draw(0.5, 7, 9), row), 2.0)
    program.store(program.add(kept, base))
    assert codes(program) == [Code.LOAD, Code.LESS_DRAWN, Code.STORE_SUM]


def test_squares_of_what_is_selected_are_summed_as_it_is_selected() -> None:
    program = Program()
    (row, other), _ = changes(program, 2)
    program.dot(*[program.where(row, other, 0.25)] * 2)
    assert codes(program)[-1] == Code.WHERE_SQUARES
    program.dot(program.where(row, other, 0.25), other)  # another product is left as it is
    assert codes(program)[-1] == Code.DOT


def test_agreement_is_added_and_the_product_stored_in_one() -> None:
    program = Program()
    (row, other), base = changes(program, 2)
    sign = program.sign(row)
    agreed = program.total([program.agree(row, sign), program.agree(other, sign)])
    program.store(program.add(program.multiply(agreed, sign), base))
    assert codes(program)[-3:] == [Code.AGREE, Code.AGREE_PLUS, Code.STORE_PRODUCT]
