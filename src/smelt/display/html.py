"""Blocks as HTML for notebooks, on a light page or a dark one: its colours are the page's own, or lie thinly over it.

Every text is escaped: names of models and tasks come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from smelt.display.blocks import Block, Cell, Code, Facts, Table

__all__ = ["as_html"]

_LINE = "rgba(128,128,128,.35)"
_STYLE = f"""<style>
.smelt {{ font-variant-numeric:tabular-nums; max-width:100%; overflow-x:auto; }}
.smelt table {{ border-collapse:collapse; margin:.2em 0 .6em; font-size:13px; }}
.smelt caption {{ text-align:left; font-weight:600; padding:.2em 0; color:inherit; }}
.smelt table th, .smelt table td {{ text-align:right; padding:.2em .7em; background:none; border:0; white-space:nowrap;
  vertical-align:top; }}
.smelt table .l {{ text-align:left; white-space:normal; }}
.smelt table thead th {{ border-bottom:1px solid {_LINE}; font-weight:600; }}
.smelt table tbody th {{ font-weight:400; opacity:.75; }}
.smelt table tr.rule > * {{ border-top:1px solid {_LINE}; }}
.smelt pre {{ margin:.2em 0 .6em; padding:.5em .8em; border:1px solid {_LINE}; border-radius:4px;
  background:none; }}
.smelt p {{ margin:.2em 0; }}
</style>"""
_ABOVE, _BELOW, _MOST = "0,114,178", "213,94,0", 0.65
"""Blue and orange, and how much of them covers the page at most: texts stay readable on either."""


def as_html(blocks: Iterable[Block]) -> str:
    """One element with all of them, and the style that it needs."""
    return f'{_STYLE}<div class="smelt">{"".join(map(_block, blocks))}</div>'


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Facts):
        pairs = "".join(
            f'<tr><th class="l">{_text(word)}</th><td class="l">{_text(v)}</td></tr>' for word, v in block.pairs
        )
        return f"<table><tbody>{pairs}</tbody></table>"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text.rstrip())}</pre>"
    return "".join(f"<p>{_text(line)}</p>" for line in block.lines)


def _table(block: Table) -> str:
    title = f"<caption>{_text(block.title)}</caption>" if block.title else ""
    head = "".join(f"<th{_side(block, at)}>{_text(text)}</th>" for at, text in enumerate(block.headings))
    body = "".join(_row(block, row, number in block.rules) for number, row in enumerate(block.rows))
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(block: Table, row: Sequence[str | Cell], rule: bool) -> str:
    whole = (cell if isinstance(cell, Cell) else Cell(cell) for cell in row)
    cells = "".join(_cell(cell, _side(block, at)) for at, cell in enumerate(whole))
    return f'<tr class="rule">{cells}</tr>' if rule else f"<tr>{cells}</tr>"


def _cell(cell: Cell, side: str) -> str:
    share = round(_MOST * min(1.0, abs(cell.shade)), 3)
    colour = f' style="background:rgba({_ABOVE if cell.shade > 0 else _BELOW},{share})"' if share else ""
    text = f"<b>{_text(cell.text)}</b>" if cell.best else _text(cell.text)
    return f"<td{side}{colour}>{text}</td>"


def _side(block: Table, column: int) -> str:
    return ' class="l"' if column in block.left else ""


def _text(text: str) -> str:
    return escape(text).replace("\n", "<br>")
