"""The layers of a model: its blocks, and the modules outside of them, in the order in which data flows through them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smelt.files.reading import natural
from smelt.formats.architecture.layout import Layout

__all__ = ["layers_in_order"]


def layers_in_order(keys: Iterable[str]) -> dict[str, str]:
    """The layer of every tensor: a block of the network, or a module outside the blocks."""
    layout = Layout.of(keys)
    towers = {stack.split(".")[0] for stack in layout.stacks}

    def position(key: str) -> tuple[Any, ...]:
        tower = key.split(".")[0]
        before, block = layout.before_blocks(key), layout.block(key)
        inside = 0 if before and not block else 1 if block else 2
        if tower not in towers:
            return (0 if before else 2, "", inside, natural(key))
        return (1, tower, inside, natural(key))

    return {key: _layer(key) for key in sorted(layout.names, key=position)}


def _layer(key: str) -> str:
    """`text_model.encoder.layers.3` for a tensor inside a block, else the first two parts of its module's name."""
    block = Layout.block(key)
    if block is not None:
        stack, index, _ = block
        return f"{stack}.{index}" if stack else str(index)
    *module, last = key.split(".")
    return ".".join(module[:2]) or last
