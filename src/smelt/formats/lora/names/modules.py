"""The modules of a base, found by whatever name an adapter has for them.

In: the base's tensors. Out: for a module as an adapter calls it, the `Segment`s of the base's tensors that it is.
Nothing is guessed: names joined by underscores are looked up among the names of the base itself and those that it has
in the other layouts of its family, and a name that could mean two modules is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from smelt.errors import IncompatibleModels
from smelt.formats.lora.names.components import LANGUAGE, component_of, components_in
from smelt.formats.lora.names.segment import Aliases, Segment, whole
from smelt.formats.lora.names.text_encoders import text_encoder_aliases
from smelt.formats.lora.names.transformers import transformer_aliases
from smelt.formats.lora.names.unet import unet_aliases
from smelt.formats.source import TensorInfo

__all__ = ["ModuleNames", "module_name"]

_FUSED = ".in_proj_weight"
"""How torch's own attention calls its weight."""


class ModuleNames:
    """Every name is looked up in the same table, which is made when the first is asked for."""

    def __init__(self, base: Mapping[str, TensorInfo], tied: Mapping[str, str]):
        self._base, self._tied = base, tied

    def find(self, module: str) -> tuple[Segment, ...]:
        """The segments of a module's weight; none where the base has no such module."""
        module = module.removeprefix("base_model.model.")
        if (key := self._own.get(module)) is not None:
            return whole(self._segment(key))
        found = self._table.get(module, [])
        if len(found) > 1:
            keys = " and ".join(repr(segments[0].key) for segments in found)
            raise IncompatibleModels([f"{module!r} can mean {keys} of the base"])
        return found[0] if found else ()

    def find_beside(self, module: str, leaf: str) -> tuple[Segment, ...]:
        """The same of what stands beside the weight, as a bias does."""
        found = []
        for segment in self.find(module):
            key = segment.key.removesuffix("weight") + leaf
            if key not in self._base:
                return ()
            found.append(Segment(key, segment.at, segment.start, segment.count))
        return tuple(found)

    @cached_property
    def _own(self) -> dict[str, str]:
        """The tensors by the names of their modules as the base has them."""
        return {
            module: self._tied.get(name, name)
            for name in (*self._base, *self._tied)
            if (module := _module_of(name)) is not None and self._tied.get(name, name) in self._base
        }

    def _segment(self, key: str) -> Segment:
        shape = self._base[key].shape
        return Segment(key, 0, 0, shape[0] if shape else 1)

    @cached_property
    def _table(self) -> dict[str, list[tuple[Segment, ...]]]:
        table: dict[str, list[tuple[Segment, ...]]] = {}
        for name, segments in self._spellings():
            known = table.setdefault(name, [])
            if segments not in known:
                known.append(segments)
        return table

    def _spellings(self) -> Iterator[tuple[str, tuple[Segment, ...]]]:
        components = components_in(self._base)
        modules: dict[str, dict[str, Segment]] = {root: {} for root in components}
        for module, key in self._own.items():
            if (root := component_of(module, components)) is not None:
                modules[root][module.removeprefix(root)] = self._segment(key)
        for root, component in components.items():
            names = _names_within(modules[root])
            for inner, segments in names.items():
                for prefix in component.dotted:
                    yield prefix + inner, segments
                for prefix in component.joined:
                    yield prefix + inner.replace(".", "_"), segments
        if components.get("") is LANGUAGE:
            yield from self._without_outer(modules[""])

    def _without_outer(self, modules: Mapping[str, Segment]) -> Iterator[tuple[str, tuple[Segment, ...]]]:
        """A checkpoint of the bare model lacks the outer name that one with a head has, and the reverse."""
        for module, segment in modules.items():
            _, dot, inner = module.partition(".")
            if dot:
                yield inner, whole(segment)
            for prefix in ("model.", "transformer."):
                yield prefix + module, whole(segment)


def _names_within(modules: Mapping[str, Segment]) -> Aliases:
    """The modules of one component by all their names in it; their own names come before those of other layouts."""
    names: Aliases = {name: whole(segment) for name, segment in modules.items()}
    for aliases in (unet_aliases(modules), transformer_aliases(modules), text_encoder_aliases(modules)):
        names = {**aliases, **names}
    return names


def module_name(key: str) -> str:
    """The module of a weight, or of what stands beside it."""
    for leaf in ("weight", "bias"):
        if key.endswith(f".in_proj_{leaf}"):
            return key.removesuffix(f"_{leaf}")
    return key.rpartition(".")[0]


def _module_of(name: str) -> str | None:
    """The module whose weight a tensor is."""
    if name.endswith(_FUSED):
        return name.removesuffix("_weight")
    return name.removesuffix(".weight") if name.endswith(".weight") else None
