"""Experts of a layer in one tensor: which models store them so, and where each matrix of each expert lies in it.

Two such layouts are the same experts one below the other, each as [out, in], gate above up:

    modules of transformers 5       mlp.experts.gate_up_proj [experts, 2 inner, width], mlp.experts.down_proj
    Granite's files                 block_sparse_moe.input_linear.weight, block_sparse_moe.output_linear.weight

They are read as matrices one by one, under the names that files with experts one by one have, and a result that is to
be stored so is put together again. What no contiguous run of numbers gives is left as it is, to `Orientation`: experts
as [in, out] (Llama 4), gate and up in turns (gpt-oss). All checkpoints of those models share the one layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.reading import natural
from smelt.formats.architecture.expert_names import ONE_EXPERT, ExpertNames, model_types_in, naming_of
from smelt.formats.architecture.stored_layouts import EXPERTS_TRANSPOSED
from smelt.formats.source import TensorInfo

__all__ = ["StackForm", "StoredTensor", "stack_form"]

_MODULE = ("experts.gate_up_proj", "experts.down_proj")
_LINEAR = ("input_linear.weight", "output_linear.weight")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a file has it, and the tensors it is put together from: each name with its first element."""

    key: str
    info: TensorInfo
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class StackForm:
    """One layout with the experts of a layer in two tensors."""

    naming: ExpertNames
    module: bool
    """Whether all names are those of a module of transformers 5; else of Granite's files."""

    @property
    def leaves(self) -> tuple[str, str]:
        """What stands behind the name of the block: of gate and up, and of down."""
        return _MODULE if self.module else _LINEAR

    def common(self, stored: str) -> str:
        """The name that a tensor has where experts lie one by one; of a stack that of its block."""
        return self.naming.to_files(stored) if self.module else stored

    def is_known(self, name: str) -> bool:
        """Whether other libraries know this tensor by its name here."""
        return self.naming.known or ONE_EXPERT.match(name) is None

    def split(self, tensors: Mapping[str, TensorInfo]) -> dict[str, tuple[str, int, TensorInfo]]:
        """Every matrix of every expert, and all other tensors: where each lies (stored name, first element, shape)."""
        fused, down = self.leaves
        blocks = {name.removesuffix(f".{fused}") for name in tensors if name.endswith(f".{fused}")}
        found: dict[str, tuple[str, int, TensorInfo]] = {}
        for block in blocks:
            both, back = tensors[f"{block}.{fused}"], tensors[f"{block}.{down}"]
            count, width, inner = back.shape
            size, names = inner * width, self.naming
            into, out_of = TensorInfo(both.dtype, (inner, width)), TensorInfo(back.dtype, (width, inner))
            for number in range(count):
                one = f"{self.common(block + '.').removesuffix('.')}.experts.{number}"
                found[f"{one}.{names.gate}.weight"] = (f"{block}.{fused}", 2 * number * size, into)
                found[f"{one}.{names.up}.weight"] = (f"{block}.{fused}", (2 * number + 1) * size, into)
                found[f"{one}.{names.down}.weight"] = (f"{block}.{down}", number * size, out_of)
        stacks = {f"{block}.{leaf}" for block in blocks for leaf in self.leaves}
        rest = {name: info for name, info in tensors.items() if name not in stacks}
        for name, info in rest.items():
            if (common := self.common(name)) in found:
                raise CorruptFile(f"{name!r} is stored on its own and in {found[common][0]!r} too; remove one of them")
            found[common] = (name, 0, info)
        return {name: found[name] for name in sorted(found, key=natural)}

    def joined(self, tensors: Mapping[str, TensorInfo]) -> tuple[StoredTensor, ...]:
        """The tensors that a file in this layout holds for these, which are one by one."""
        fused, down = self.leaves
        names = self.naming
        slots = {
            f"{names.gate}.weight": (fused, 0),
            f"{names.up}.weight": (fused, 1),
            f"{names.down}.weight": (down, 0),
        }
        stacks: dict[str, dict[int, str]] = {}
        made: list[StoredTensor] = []
        for name, info in tensors.items():
            match = ONE_EXPERT.match(name)
            if match is None or match["rest"] not in slots:
                made.append(StoredTensor(self.naming.to_module(name) if self.module else name, info, ((name, 0),)))
                continue
            leaf, place = slots[match["rest"]]
            block = f"{match['block']}."
            key = (self.naming.to_module(block) if self.module else block) + leaf
            stacks.setdefault(key, {})[int(match["number"]) * (2 if leaf == fused else 1) + place] = name
        made += (_stack(key, found, tensors, 2 if key.endswith(fused) else 1) for key, found in stacks.items())
        return tuple(sorted(made, key=lambda one: natural(one.key)))


def stack_form(tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None) -> StackForm | None:
    """The layout that these tensors have; None where no experts are stacked, or not in a way that can be cut."""
    for leaves in (_MODULE, _LINEAR):
        blocks = [name.removesuffix(f".{leaves[0]}") for name in tensors if name.endswith(f".{leaves[0]}")]
        if blocks and _cuts(blocks, leaves, tensors, config):
            return StackForm(naming_of(config), leaves is _MODULE)
    return None


def _cuts(
    blocks: Iterable[str], leaves: tuple[str, str], tensors: Mapping[str, TensorInfo], config: Mapping[str, Any] | None
) -> bool:
    """Whether all of these are stacks of [out, in], by their shapes and the config's word."""
    words = {EXPERTS_TRANSPOSED[kind] for kind in model_types_in(config or {}) if kind in EXPERTS_TRANSPOSED}
    if words == {True}:
        return False
    for block in blocks:
        fused, down = (tensors.get(f"{block}.{leaf}") for leaf in leaves)
        if fused is not None and f"{block}.{leaves[0]}_bias" in tensors:
            return False
        if fused is not None and down is not None and _is_stack(fused.shape, down.shape):
            continue
        if words == {False} and leaves is _MODULE:
            there = f"{block}.{leaves[1]} is {down.shape}" if down is not None else f"there is no {block}.{leaves[1]}"
            shape = fused.shape if fused is not None else ()
            raise CorruptFile(
                f"{block}.{leaves[0]} is {shape} but {there}: these are not the experts of one layer; "
                "save the model again"
            )
        return False
    return True


def _is_stack(fused: tuple[int, ...], down: tuple[int, ...]) -> bool:
    """[experts, 2 inner, width] and [experts, width, inner]."""
    return len(fused) == len(down) == 3 and fused == (down[0], 2 * down[2], down[1]) and 0 not in fused


def _stack(key: str, found: Mapping[int, str], tensors: Mapping[str, TensorInfo], each: int) -> StoredTensor:
    """The parts of a stack one after the other; `each` of them belong to one expert."""
    first = tensors[found[min(found)]]
    whole = sorted(found) == list(range(len(found))) and len(found) % each == 0
    if not whole or any(tensors[name] != first for name in found.values()):
        raise CorruptFile(f"{key!r} cannot be put together: its experts lack matrices, or have others' shapes or types")
    rows, columns = first.shape
    info = TensorInfo(first.dtype, (len(found) // each, each * rows, columns))
    return StoredTensor(key, info, tuple((found[number], number * first.count) for number in sorted(found)))
