"""The layers of a model that have experts: how many, the tensors of each, of their router, and of shared experts.

By names and shapes alone, so that any model is understood whose tensors are in the groups that recipes know
(`recipe/groups.py`). In: the tensors of a Source. Out: one `ExpertLayer` for each module that has experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from smelt.files.reading import natural
from smelt.formats.architecture.expert_names import ONE_EXPERT
from smelt.formats.source import TensorInfo
from smelt.recipe.groups import group_of

__all__ = ["ExpertLayer", "expert_layers"]

_ONE_ROW_EACH = ("router.layer.weight", "router.weight", "gate.weight", "gate.wg.weight")
_ROW_TABLES = (*_ONE_ROW_EACH, "router.classifier.weight")
"""The last is LongCat's, which also has rows for experts that compute nothing."""


@dataclass
class ExpertLayer:
    """One module with experts, by the names of its tensors."""

    name: str
    """What the names of all of them begin with: model.layers.0.mlp"""
    apart: dict[int, dict[str, str]] = field(default_factory=dict)
    """Of experts that have tensors of their own: by number, what follows it in a name -> the name."""
    stacked: list[str] = field(default_factory=list)
    """Tensors that hold something of every expert."""
    routers: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What lies in the module and is none of these."""
    count: int = 0
    """How many experts a token may be routed to."""

    @property
    def experts(self) -> list[str]:
        """All tensors of the experts."""
        return [*self.stacked, *(name for one in self.apart.values() for name in one.values())]

    def faults(self, tensors: Mapping[str, TensorInfo]) -> Iterator[str]:
        """What experts one by one lack, or have of another shape, and a router of another size."""
        if not self.apart:
            return
        if len(self.apart) < self.count:
            missing = next(number for number in range(self.count) if number not in self.apart)
            yield f"{self.name} lacks expert {missing} of {self.count}; the model is not whole"
            return
        usual = Counter((rest, tensors[name].shape) for one in self.apart.values() for rest, name in one.items())
        shapes = {rest: shape for (rest, shape), _ in reversed(usual.most_common())}
        for number, one in sorted(self.apart.items()):
            if lost := next((rest for rest in shapes if rest not in one), None):
                yield f"{self.name}: expert {number} has no {lost!r}, which the others have; the model is not whole"
                return
            if odd := next((rest for rest in shapes if tensors[one[rest]].shape != shapes[rest]), None):
                yield f"{one[odd]!r} is {tensors[one[odd]].shape}, but those of other experts are {shapes[odd]}"
                return
        for name in self.routers:
            shape = tensors[name].shape
            if name.endswith(_ONE_ROW_EACH) and len(shape) == 2 and self.count not in shape:
                yield f"{name!r} is {shape}, which is no router of the {self.count} experts that are there"


def expert_layers(tensors: Mapping[str, TensorInfo]) -> list[ExpertLayer]:
    """All layers with experts, in the order of their names."""
    found: dict[str, ExpertLayer] = {}
    others: list[tuple[str, str | None]] = []
    for name in tensors:
        group = group_of(name)
        match = ONE_EXPERT.match(name) if group == "experts" else None
        if match is not None:
            layer = found.setdefault(match["block"], ExpertLayer(match["block"]))
            layer.apart.setdefault(int(match["number"]), {})[match["rest"]] = name
        elif group == "experts" and (block := _block(name)) is not None:
            found.setdefault(block, ExpertLayer(block)).stacked.append(name)
        else:
            others.append((name, group))
    for name, group in others:
        module = name
        while "." in module:
            module = module.rpartition(".")[0]
            if (home := found.get(module)) is not None:
                (home.routers if group == "routers" else home.shared if group else home.others).append(name)
                break
        else:
            _beside(found, name, group)
    for layer in found.values():
        layer.count = _count(layer, tensors)
    return sorted((layer for layer in found.values() if layer.count), key=lambda layer: natural(layer.name))


def _block(name: str) -> str | None:
    """The module of a tensor that holds all experts: what stands before `experts`, else before its own name."""
    parts = name.split(".")
    inner = next((number for number, part in enumerate(parts) if part.endswith("experts")), None)
    if inner is None and parts[-2:-1] in (["input_linear"], ["output_linear"]):
        inner = len(parts) - 2
    return ".".join(parts[:inner]) if inner else None


def _beside(found: Mapping[str, ExpertLayer], name: str, group: str | None) -> None:
    """Shared experts and routers that lie in the block, and not in the module of its experts."""
    if group not in ("routers", "shared_experts"):
        return
    module = name
    while "." in module:
        module = module.rpartition(".")[0]
        inside = [layer for block, layer in found.items() if block.rpartition(".")[0] == module]
        if len(inside) == 1 and any(part.isdigit() for part in module.split(".")):
            (inside[0].routers if group == "routers" else inside[0].shared).append(name)
            return


def _count(layer: ExpertLayer, tensors: Mapping[str, TensorInfo]) -> int:
    """How many experts: by their numbers and the router's rows, or by the first axis of a stack."""
    rows = [tensors[name].shape[0] for name in layer.routers if name.endswith(_ROW_TABLES) and tensors[name].shape]
    if layer.apart:
        return max(layer.apart) + 1
    counts = {tensors[name].shape[0] for name in layer.stacked if len(tensors[name].shape) == 3}
    return counts.pop() if len(counts) == 1 else rows[0] if rows else 0
