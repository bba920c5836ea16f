"""What the tensors of a GGUF file are written from: the way back from Hugging Face names.

In: the architecture, and a model's tensors by name and shape. Out: for each tensor of the file the runs of the model's
that fill it, one after the other, and what llama.cpp's converter does to them. The experts of a layer become one stack,
whether the model stores them one by one or together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from smelt.formats.gguf.joins import Shape
from smelt.formats.gguf.names import ARCHITECTURES, OUTER, Architecture

__all__ = ["GGUFContent", "Run", "contents_of"]

_NAME = re.compile(r"(?:model\.layers\.(?P<block>\d+)\.)?(?P<module>.+?)(?:\.(?P<leaf>weight|bias))?")
_NUMBERED = re.compile(r"(?P<before>.*\.experts\.)(?P<number>\d+)(?P<after>\..+)")


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of a model's tensor."""

    key: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class GGUFContent:
    """A tensor that is to be written."""

    shape: Shape
    runs: tuple[Run, ...]
    heads: str | None = None
    """The metadata field with the number of heads whose row pairs are interleaved."""
    offset: float = 0.0
    """Added to every number."""


def contents_of(architecture: str, tensors: Mapping[str, Shape]) -> tuple[dict[str, GGUFContent], list[str]]:
    """Contents by the names in the file, and the tensors that have no place there."""
    known = ARCHITECTURES[architecture]
    contents: dict[str, GGUFContent] = {}
    stacks: dict[str, dict[int, tuple[Run, Shape]]] = {}
    homeless = []
    for key, shape in tensors.items():
        experts = list(_experts(known, key, shape))
        for name, number, run, matrix in experts:
            stacks.setdefault(name, {})[number] = (run, matrix)
            contents.setdefault(name, GGUFContent((), ()))  # its place in the file is where its first expert is
        plain = None if experts else _plain(known, key, shape)
        if plain is not None:
            contents[plain[0]] = plain[1]
        elif not experts:
            homeless.append(key)
    for name, stack in stacks.items():
        shapes = {matrix for _, matrix in stack.values()}
        if sorted(stack) != list(range(len(stack))) or len(shapes) != 1:
            homeless += [run.key for run, _ in stack.values()]
            continue
        contents[name] = GGUFContent((len(stack), *shapes.pop()), tuple(stack[number][0] for number in sorted(stack)))
    return contents, list(dict.fromkeys(homeless))


def _plain(known: Architecture, key: str, shape: Shape) -> tuple[str, GGUFContent] | None:
    part = _NAME.fullmatch(key)
    if part is None:
        return None
    prefix, leaf = f"blk.{part['block']}." if part["block"] else "", part["leaf"]
    runs = (Run(key, 0, math.prod(shape)),)
    whole = {own: name for name, own in known.whole.items()}
    if part["block"] and (own := key.partition(f"layers.{part['block']}.")[2]) in whole:
        return f"{prefix}{whole[own]}", GGUFContent(shape, runs)
    table = known.block if part["block"] else OUTER
    module = {own: name for name, own in table.items()}.get(part["module"])
    if module is None or leaf is None:
        return None
    heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}.get(module)
    lifted = known.norms_plus_one and module.endswith("norm") and leaf == "weight"
    if module == "ffn_gate_inp_shexp" and len(shape) == 2 and shape[0] == 1:
        shape = shape[1:]
    content = GGUFContent(shape, runs, heads if known.rotary_pairs else None, 1.0 if lifted else 0.0)
    return f"{prefix}{module}.{leaf}", content


def _experts(known: Architecture, key: str, shape: Shape) -> Iterator[tuple[str, int, Run, Shape]]:
    """The matrices of experts in a tensor: the stack's name in the file, whose they are, where they lie."""
    part = _NAME.fullmatch(key)
    if part is None or not part["block"] or not known.experts:
        return
    block, module = f"blk.{part['block']}.", part["module"]
    own = {own: name for name, own in known.experts.items()}
    if (single := _NUMBERED.fullmatch(module)) is not None and len(shape) == 2 and part["leaf"] == "weight":
        if (name := own.get(f"{single['before']}{{}}{single['after']}")) is not None:
            yield f"{block}{name}.weight", int(single["number"]), Run(key, 0, math.prod(shape)), shape
        return
    place, _, which = module.rpartition(".")
    stacked = {"gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"), "down_proj": ("ffn_down_exps",)}.get(which, ())
    if not place.endswith(".experts") or len(shape) != 3 or not stacked or shape[1] % len(stacked):
        return
    matrix = (shape[1] // len(stacked), shape[2])
    size = math.prod(matrix)
    for number in range(shape[0]):
        for at, name in enumerate(stacked):
            yield f"{block}{name}.weight", number, Run(key, (number * len(stacked) + at) * size, size), matrix
