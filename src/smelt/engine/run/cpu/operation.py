"""The operations of the vector machine, by the numbers that machine.c gives them, and the registers each touches."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code", "reads", "writes"]


class Code(IntEnum):
    LOAD, STORE, SUBTRACT, ADD, MULTIPLY, DIVIDE, SCALE, ADD_SCALED, OVER, CUT, DRAW = range(11)
    SIGN, SIGN_UP, AGREE, LARGER, AT_LEAST, NO_ZERO, COARSE, FINE, EQUAL, DOT, MASSES, SQUARE = range(11, 23)
    RANKS, DRAW_RANKED, PACK, UNPACK, SHIFT, AROUND = range(23, 29)
    LOAD_LESS, LOAD_CUT, LOAD_SCALED, LOAD_ADD_SCALED, LESS_ADD_SCALED, CUT_SCALED, SIGN_SUM = range(29, 36)
    SIGN_SUM_UP, AGREE_INTO, RATIO, PRODUCT, STORE_SUM, DRAWN, DISTANCE, DISTANCE_INTO, BAND, ABOVE = range(36, 46)
    DOTS, CLAMP, ROW_DOT, ROW_SCALE, VARIANCE, WHERE = range(46, 52)
    DRAWN_MASSES, LESS_DRAWN, UNPACKED, AGREE_PLUS, STORE_PRODUCT, WHERE_SQUARES = range(52, 58)
    KEEP_WHERE, ROW_DIVERGENCE = range(58, 60)


_NO_A = {
    Code.LOAD, Code.LOAD_LESS, Code.LOAD_CUT, Code.LOAD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED,
    Code.DRAW, Code.UNPACK, Code.LESS_DRAWN,
}  # fmt: skip
_WITH_B = {
    Code.SUBTRACT, Code.ADD, Code.MULTIPLY, Code.DIVIDE, Code.AGREE, Code.LARGER, Code.DOT, Code.LOAD_LESS,
    Code.LOAD_CUT, Code.LESS_ADD_SCALED, Code.SIGN_SUM, Code.SIGN_SUM_UP, Code.AGREE_INTO, Code.RATIO, Code.PRODUCT,
    Code.STORE_SUM, Code.DISTANCE, Code.DISTANCE_INTO, Code.DOTS, Code.ROW_DOT, Code.MASSES, Code.VARIANCE, Code.WHERE,
    Code.LESS_DRAWN, Code.AGREE_PLUS, Code.STORE_PRODUCT, Code.WHERE_SQUARES, Code.KEEP_WHERE, Code.ROW_DIVERGENCE,
}  # fmt: skip
_ADDS_TO = {Code.ADD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED, Code.DISTANCE_INTO}
_GATHERS = {
    Code.STORE, Code.STORE_SUM, Code.COARSE, Code.FINE, Code.EQUAL, Code.DOT, Code.MASSES, Code.PACK, Code.AROUND,
    Code.DOTS, Code.ROW_DOT, Code.DRAWN_MASSES, Code.STORE_PRODUCT, Code.WHERE_SQUARES, Code.ROW_DIVERGENCE,
}  # fmt: skip


def reads(code: int, dst: int, a: int, b: int, second: int) -> list[int]:
    """The registers whose numbers an operation needs. `second` is -1 but where it takes one more."""
    found = [] if code in _NO_A else [a]
    if code in _WITH_B:
        found.append(b)
    if code in _ADDS_TO:
        found.append(dst)
    if code == Code.AGREE_INTO:
        found.append(dst)
    if second >= 0:
        found.append(second)
    return found


def writes(code: int, dst: int, second: int) -> list[int]:
    """The registers that it changes."""
    if code in _GATHERS:
        return []
    return [dst, second] if code == Code.AGREE_INTO else [dst]
