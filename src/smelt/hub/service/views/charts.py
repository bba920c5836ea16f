"""Drawings of the pages: bars and a tree, as SVG with classes only, since the pages allow no inline style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from smelt.reporting.draw.axis import Axis
from smelt.reporting.draw.svg import tag

__all__ = ["Leaf", "Tree", "bar", "heat_class", "indented", "sideways"]

_ROW, _THUMB = 34.0, 26.0


@dataclass(frozen=True)
class Leaf:
    """One node as a drawing shows it."""

    label: str
    link: str
    thumb: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Tree:
    """A node between its hypernyms and hyponyms. `more`: how many siblings and children are not shown."""

    node: Leaf
    path: Sequence[Leaf]
    """From the root down to the first parent."""
    parents: Sequence[Leaf]
    siblings: Sequence[Leaf]
    children: Sequence[Leaf]
    more: tuple[int, int] = (0, 0)


def bar(value: float, label: str, *, most: float = 1.0, colour: int = 2, marks: Sequence[float] = ()) -> Markup:
    """A bar as wide as its place on the page; `marks` are thin lines over it."""
    axis = Axis(0.0, most or 1.0, 0.0, 100.0)
    grid = [tag("line", x1=f"{at}%", x2=f"{at}%", y1=0, y2="100%", class_="grid") for at in (25, 50, 75, 100)]
    width = min(max(axis.at(value), 0.0), 100.0)
    rect = tag("rect", tag("title", label), x=0, y=4, width=f"{width:.2f}%", height=12, rx=2, class_=f"fill c{colour}")
    lines = [
        tag("line", x1=f"{axis.at(mark):.2f}%", x2=f"{axis.at(mark):.2f}%", y1=1, y2=19, class_="reference")
        for mark in marks
    ]
    return tag("svg", *grid, rect, *lines, width="100%", height=20, role="img", aria_label=label)


def heat_class(value: float, most: float = 1.0) -> str:
    """The class of a shaded cell: v0 to v10, with dark text or light."""
    step = round(10 * min(max(value / most if most else 0.0, 0.0), 1.0))
    return f"v{step} strong" if step >= 9 else f"v{step}"


def sideways(tree: Tree) -> Markup:
    """For wide screens: hypernyms to the left, siblings in the middle, hyponyms to the right."""
    width = 1060.0
    columns = (0.0, 372.0, 744.0)
    middle = [*tree.siblings[: len(tree.siblings) // 2], tree.node, *tree.siblings[len(tree.siblings) // 2 :]]
    extra = [bool(tree.more[0]), bool(tree.more[1])]
    rows = max(len(tree.parents), len(middle) + extra[0], len(tree.children) + extra[1], 1)
    height = rows * _ROW + 4

    def top(count: int) -> float:
        return (height - count * _ROW) / 2

    here = top(len(middle)) + middle.index(tree.node) * _ROW + _ROW / 2
    parts: list[Markup] = []
    box = 300.0
    for number, parent in enumerate(tree.parents):
        y = top(len(tree.parents)) + number * _ROW + _ROW / 2
        parts.append(_curve(columns[0] + box, y, columns[1], here, "edge own"))
        if number == 0:
            start = top(len(middle)) + _ROW / 2
            parts += [
                _curve(columns[0] + box, y, columns[1], start + place * _ROW, "edge")
                for place, leaf in enumerate(middle)
                if leaf is not tree.node
            ]
        parts.append(_item(parent, columns[0], y, box, "leaf"))
    for place, leaf in enumerate(middle):
        y = top(len(middle)) + place * _ROW + _ROW / 2
        parts.append(_item(leaf, columns[1], y, box, "leaf own" if leaf is tree.node else "leaf"))
    if tree.more[0]:
        y = top(len(middle)) + len(middle) * _ROW + 18
        parts.append(tag("text", f"and {tree.more[0]} more", x=columns[1] + 40, y=y, class_="more"))
    for place, leaf in enumerate(tree.children):
        y = top(len(tree.children)) + place * _ROW + _ROW / 2
        parts.append(_curve(columns[1] + box, here, columns[2], y, "edge own"))
        parts.append(_item(leaf, columns[2], y, box, "leaf"))
    if tree.more[1]:
        y = top(len(tree.children)) + len(tree.children) * _ROW + 18
        parts.append(tag("text", f"and {tree.more[1]} more", x=columns[2] + 40, y=y, class_="more"))
    name = f"{tree.node.label} between its hypernyms and hyponyms"
    size = f"0 0 {width:g} {height + 16:g}"
    return tag("svg", tag("title", name), *parts, viewBox=size, role="group", aria_label=name, class_="tree sideways")


def indented(tree: Tree) -> Markup:
    """For phones: one line each, from the root down, every step a little further in."""
    width, step = 340.0, 11.0
    shown = [(place, leaf) for place, leaf in enumerate(tree.path)]
    depth = len(shown)
    lines = [*shown, (depth, tree.node), *((depth + 1, leaf) for leaf in tree.children)]
    parts: list[Markup] = []
    for row, (level, leaf) in enumerate(lines):
        x, y = level * step, row * _ROW + _ROW / 2
        if level:
            above = max(at for at, (other, _) in enumerate(lines[:row]) if other == level - 1)
            from_y = above * _ROW + _ROW - 2
            path = f"M{x - step + 6:.1f} {from_y:.1f}V{y:.1f}H{x:.1f}"
            parts.append(tag("path", d=path, class_="edge own"))
        parts.append(_item(leaf, x, y, width - x, "leaf own" if leaf is tree.node else "leaf"))
    height = len(lines) * _ROW
    if tree.more[1]:
        parts.append(tag("text", f"and {tree.more[1]} more", x=(depth + 1) * step + 8, y=height + 14, class_="more"))
        height += 22
    name = f"{tree.node.label} below its hypernyms"
    size = f"0 0 {width:g} {height:g}"
    return tag("svg", tag("title", name), *parts, viewBox=size, role="group", aria_label=name, class_="tree indented")


def _item(leaf: Leaf, x: float, y: float, width: float, kind: str) -> Markup:
    """A box with thumbnail, name and note, all of it one link."""
    half = (_ROW - 4) / 2
    room = width - 10 - (_THUMB + 8 if leaf.thumb else 4) - 7.0 * len(leaf.note)
    letters = max(4, int(room / 7.6))
    label = leaf.label if len(leaf.label) <= letters else leaf.label[: letters - 1].rstrip() + "…"
    parts = [tag("title", leaf.label), tag("rect", x=x, y=y - half, width=width, height=2 * half, rx=7)]
    at = x + 10
    if leaf.thumb:
        size = {"width": _THUMB, "height": _THUMB}
        parts.append(tag("image", href=leaf.thumb, x=x + 4, y=y - _THUMB / 2, **size))
        at = x + _THUMB + 12
    parts.append(tag("text", label, x=at, y=y + 5, class_="name"))
    if leaf.note:
        parts.append(tag("text", leaf.note, x=x + width - 8, y=y + 4.5, text_anchor="end", class_="note"))
    return tag("a", *parts, href=leaf.link, class_=kind)


def _curve(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    bend = (x1 + x2) / 2
    path = f"M{x1:.1f} {y1:.1f}C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return tag("path", d=path, class_=kind)
