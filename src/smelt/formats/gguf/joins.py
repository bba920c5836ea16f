"""Hugging Face tensors that are made of several stored ones, or of one that is turned.

gpt-oss    gate and up of all experts lie in one tensor [experts, in, 2 * out], a column of one next to that of the
           other; GGUF has a stack [experts, out, in] of each
DeepSeek   kv_b_proj has for every head the rows of its keys and of its values; newer GGUF files have a stack of each,
           that of the keys turned, as llama.cpp multiplies them into other layers

Both are rows of matrices: `rows` makes some rows of one matrix of the wanted stack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from smelt.formats import dtype as dtypes
from smelt.formats.gguf.values import StoredValues, offered

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GGUFJoin", "Shape", "joins_among"]

Shape: TypeAlias = tuple[int, ...]
_AT_ONCE = 1 << 20
"""Numbers that are made at once."""


@dataclass(frozen=True, slots=True)
class GGUFJoin:
    """A tensor as a stack of matrices, and what their rows are made of."""

    names: tuple[str, ...]
    """In the GGUF file."""
    shape: Shape
    how: Literal["woven", "woven_vectors", "above"]
    """`woven`: columns of all parts, taken in turn, are a row. `woven_vectors`: the same of rows. `above`: the columns
    of the first, then the rows of the second."""
    stack: int
    """Matrices in it."""

    def dtype(self, values: StoredValues) -> str:
        """The format that all parts have, or F32."""
        kinds = {offered(values.kind(name)) for name in self.names}
        return kinds.pop() if len(kinds) == 1 else "F32"

    def run(self, values: StoredValues, start: int, out: NDArray[Any]) -> None:
        """Fill `out` with the elements from `start` on."""
        height, width = math.prod(self.shape[:-1]) // self.stack, self.shape[-1]
        step, done = max(1, _AT_ONCE // width), 0
        while done < len(out):
            row, skip = divmod(start + done, width)
            number, first = divmod(row, height)
            last = min(height, first + step, first - (-(skip + len(out) - done) // width))
            made = self._rows(values, number, first, last).reshape(-1)[skip:]
            count = min(len(made), len(out) - done)
            out[done : done + count] = made[:count]
            done += count

    def _rows(self, values: StoredValues, number: int, first: int, last: int) -> NDArray[Any]:
        """Rows [last - first, width] of a matrix."""
        if self.how == "woven_vectors":
            width = self.shape[-1] // len(self.names)
            return np.stack(
                [self._as(values, name, values.some(name, number * width, width)) for name in self.names], 1
            )
        if self.how == "woven":
            parts = [self._as(values, name, values.columns(name, number, first, last)).T for name in self.names]
            return np.stack(parts, axis=-1)
        keys, rest = self.names
        height, width = math.prod(self.shape[:-1]) // self.stack, self.shape[-1]
        split = height - values.shape(rest)[-2]
        made = []
        if first < split:
            made.append(self._as(values, keys, values.columns(keys, number, first, min(last, split))).T)
        if last > split:
            begin = number * (height - split) + max(first - split, 0)
            some = values.some(rest, begin * width, (last - max(first, split)) * width)
            made.append(self._as(values, rest, some).reshape(-1, width))
        return np.concatenate(made)

    def _as(self, values: StoredValues, name: str, some: NDArray[Any]) -> NDArray[Any]:
        """Numbers of a part in the format of the whole."""
        kind = offered(values.kind(name))
        if kind == self.dtype(values):
            return some
        flat = dtypes.to_float32(np.ascontiguousarray(some).reshape(-1).view(np.uint8), kind)
        return flat.reshape(some.shape)


def joins_among(architecture: str, stored: Mapping[str, Shape]) -> dict[str, GGUFJoin]:
    """The joined tensors of a model, by their Hugging Face names."""
    found: dict[str, GGUFJoin] = {}
    for name, shape in stored.items():
        block = re.match(r"blk\.(\d+)\.", name)
        if block is None:
            continue
        key = f"model.layers.{block[1]}."
        if architecture == "gpt-oss":
            found |= _gpt_oss(key, name, shape, stored)
        elif architecture == "deepseek2" and name.endswith(".attn_k_b.weight"):
            found |= _deepseek(key, name, shape, stored)
    return found


def _gpt_oss(key: str, name: str, shape: Shape, stored: Mapping[str, Shape]) -> dict[str, GGUFJoin]:
    if name.endswith(".ffn_down_exps.weight") and len(shape) == 3:
        turned = (shape[0], shape[2], shape[1])
        return {f"{key}mlp.experts.down_proj": GGUFJoin((name,), turned, "woven", shape[0])}
    other = name.replace("ffn_gate_exps", "ffn_up_exps")
    if other == name or stored.get(other) != shape:
        return {}
    if name.endswith(".weight") and len(shape) == 3:
        woven = (shape[0], shape[2], 2 * shape[1])
        return {f"{key}mlp.experts.gate_up_proj": GGUFJoin((name, other), woven, "woven", shape[0])}
    if name.endswith(".bias") and len(shape) == 2:
        both = (shape[0], 2 * shape[1])
        return {f"{key}mlp.experts.gate_up_proj_bias": GGUFJoin((name, other), both, "woven_vectors", shape[0])}
    return {}


def _deepseek(key: str, name: str, shape: Shape, stored: Mapping[str, Shape]) -> dict[str, GGUFJoin]:
    other = name.replace("attn_k_b", "attn_v_b")
    values = stored.get(other, ())
    if len(shape) != 3 or len(values) != 3 or (shape[0], shape[1]) != (values[0], values[2]):
        return {}
    rows = shape[0] * (shape[2] + values[1])
    return {f"{key}self_attn.kv_b_proj.weight": GGUFJoin((name, other), (rows, shape[1]), "above", shape[0])}
