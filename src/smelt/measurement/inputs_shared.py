"""Which linear layers are given one and the same input, judged by their names: what a header can tell.

What is measured on a real network finds this out by looking (inputs.py); a plan has names only.
"""

from __future__ import annotations

from collections.abc import Mapping

from smelt.files.natural_order import natural
from smelt.formats.architecture.layout import Layout

__all__ = ["inputs_of"]

_TOGETHER = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("wq", "wk", "wv"),
    ("gate_proj", "up_proj"),
    ("w1", "w3"),
)


def inputs_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """For every different input of a linear layer its width, by the name of the first layer that is given it."""
    found: dict[tuple[str, str], str] = {}
    for name in sorted(shapes, key=natural):
        if Layout.is_matrix(name, shapes[name]):
            found.setdefault(_input(name), name)
    return {name: int(shapes[name][1]) for name in found.values()}


def _input(name: str) -> tuple[str, str]:
    owner, _, layer = name.removesuffix(".weight").rpartition(".")
    return owner, next((some[0] for some in _TOGETHER if layer in some), layer)
