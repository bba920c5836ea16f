"""What an adapter in a single file changes in its base: kohya's and LyCORIS's names, diffusers', PEFT's.

In: the header, the numbers `alpha`, the base's header. Out: an `AdapterPlan`. The scaling of a layer is alpha / rank,
and 1 where the file has no alpha, as in the tools that load such files; diffusers may write a config into the header
(`lora_adapter_metadata`), which then says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from smelt.errors import IncompatibleModels
from smelt.formats import dtype as dtypes
from smelt.formats.lora.adapter_plan import AdapterPlan
from smelt.formats.lora.changes import Full, Stored
from smelt.formats.lora.config import AdapterConfig
from smelt.formats.lora.description import describe_adapter
from smelt.formats.lora.edits import Added, Directed
from smelt.formats.lora.keys import AdapterKey, read_key
from smelt.formats.lora.layer_changes import PartsError, ScalingOf, Shape, change_of, kind_of
from smelt.formats.lora.names.modules import ModuleNames
from smelt.formats.lora.names.segment import Segment
from smelt.formats.source import TensorInfo

__all__ = ["FileAdapter", "gather_modules", "plan_file"]

_SHOWN = 3
_SHIFTS = {"diff_b": "bias", "w_norm": "weight", "b_norm": "bias", "bias": "bias"}
"""Parts that are added to a vector as they are, and which vector of the module that is."""


@dataclass(frozen=True)
class FileAdapter:
    """What is known of an adapter's file before its base is."""

    infos: Mapping[str, TensorInfo]
    alphas: Mapping[str, float] = field(default_factory=dict)
    """By the names of their tensors."""
    configs: Mapping[str, AdapterConfig] = field(default_factory=dict)
    """What diffusers wrote into the header, by component."""


def gather_modules(names: Mapping[str, object]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """{module: {part: tensor}} and a fault for each tensor that is no part of a module."""
    modules: dict[str, dict[str, str]] = {}
    faults = [] if names else ["the adapter holds no tensors"]
    for name in names:
        key = read_key(name)
        if not isinstance(key, AdapterKey):
            faults.append(key)
            continue
        parts = modules.setdefault(key.module, {})
        if key.part in parts:
            faults.append(f"{name!r} stands for the same as {parts[key.part]!r}")
        parts[key.part] = name
    return modules, faults


def plan_file(adapter: FileAdapter, base: Mapping[str, TensorInfo], tied: Mapping[str, str]) -> AdapterPlan:
    modules, faults = gather_modules(adapter.infos)
    planner = _Planner(adapter, base, ModuleNames(base, tied))
    planner.planned.faults += faults
    for module, parts in modules.items():
        try:
            planner.add(module, parts)
        except PartsError as error:
            planner.planned.faults.append(f"{module!r} {error}")
        except IncompatibleModels as error:
            planner.planned.faults += error.faults
    if planner.missing:
        planner.planned.faults.insert(0, _missing(planner.missing, len(modules), adapter))
    planner.judge_overlaps()
    return planner.planned


def _missing(found: list[str], modules: int, adapter: FileAdapter) -> str:
    """Hundreds of names say no more than a few."""
    if len(found) == 1:
        return f"{found[0]!r} matches no module of the base"
    names = f"{', '.join(map(repr, found[:_SHOWN]))}{', ...' if len(found) > _SHOWN else ''}"
    family = describe_adapter(adapter.infos).family
    told = f"; by its names it is for {family}" if family and len(found) == modules else ""
    return f"{len(found)} of the {modules} layers that it changes match no module of the base ({names}){told}"


class _Planner:
    def __init__(self, adapter: FileAdapter, base: Mapping[str, TensorInfo], names: ModuleNames):
        self.adapter, self.base, self.names = adapter, base, names
        self.planned = AdapterPlan()
        self.missing: list[str] = []
        """Modules that the base does not have."""

    def add(self, module: str, parts: dict[str, str]) -> None:
        """Every part of a module becomes an edit or a fault."""
        parts = dict(parts)
        segments = self.names.find(module)
        if not segments:
            self.missing.append(module)
            return
        alpha, magnitude = parts.pop("alpha", None), parts.pop("magnitude", None)
        shifts = {part: parts.pop(part) for part in _SHIFTS if part in parts}
        scaling = self._scaling(module, alpha)
        for part, name in shifts.items():
            self._shift(module, part, name, scaling(self._rank(parts)) if part == "bias" else 1.0)
        if kind_of(parts) == "none":
            if parts or not shifts or alpha is not None or magnitude is not None:
                stray = next(iter((*parts.values(), alpha, magnitude)), None)
                raise PartsError(f"has {stray!r}, but no change that it belongs to")
            return
        shape = self._shape(module, segments)
        change = change_of(parts, self.adapter.infos, shape, scaling)
        by_input = magnitude is not None and self._is_by_input(module, magnitude, shape)
        if by_input and (len(segments) > 1 or segments[0].count != self.base[segments[0].key].shape[0]):
            raise PartsError("has a dora_scale by inputs, and is stored in pieces in the base; that is not read")
        for segment in segments:
            added = Added(change, segment.count, segment.at, segment.start)
            self.planned.add(segment.key, added if magnitude is None else Directed(added, magnitude, by_input))

    def _shape(self, module: str, segments: tuple[Segment, ...]) -> Shape:
        """Of the module's weight: the rows of all its segments."""
        shapes = {self.base[segment.key].shape[1:] for segment in segments}
        if odd := next((s.key for s in segments if self.base[s.key].dtype not in dtypes.WRITABLE), None):
            raise PartsError(f"adapts {odd!r}, which is {self.base[odd].dtype} in the base: codes, not numbers")
        if len(shapes) > 1:
            raise PartsError(f"is several tensors of the base ({_keys(segments)}), whose inputs differ")
        return (sum(segment.count for segment in segments), *shapes.pop())

    def _scaling(self, module: str, alpha: str | None) -> ScalingOf:
        """What says the scaling for a rank."""
        if alpha is not None:
            if (value := self.adapter.alphas.get(alpha)) is None:
                raise PartsError(f"has an alpha {self.adapter.infos[alpha].shape} that is no number")
            return lambda rank: value / rank if rank else 1.0  # what the tools do with two whole matrices of LoKr
        component, _, inner = module.partition(".")
        config = self.adapter.configs.get(component)
        if config is None:
            return lambda rank: 1.0
        said_rank, scaling = config.rank_and_scaling(inner)

        def told(rank: int) -> float:
            if rank != said_rank:
                raise PartsError(f"has the rank {rank}, but the file's lora_adapter_metadata gives it {said_rank}")
            return scaling

        return told

    def _rank(self, parts: Mapping[str, str]) -> int:
        shape = self.adapter.infos[parts["down"]].shape if "down" in parts else ()
        return shape[0] if shape and shape[0] else 1

    def _shift(self, module: str, part: str, name: str, scaling: float) -> None:
        segments = self.names.find_beside(module, _SHIFTS[part])
        info, count = self.adapter.infos[name], sum(segment.count for segment in segments)
        vectors = all(len(self.base[segment.key].shape) == 1 for segment in segments)
        if not segments or not vectors or info.count != count:
            raise PartsError(f"has {part} {info.shape}, and the base no {_SHIFTS[part]} of that shape to add it to")
        change = Full(Stored(name, 1), scaling)
        for segment in segments:
            self.planned.add(segment.key, Added(change, segment.count, segment.at, segment.start))

    def _is_by_input(self, module: str, magnitude: str, shape: Shape) -> bool:
        """LyCORIS learns a length for each output, or for each input; the shape says which."""
        stored = self.adapter.infos[magnitude].shape
        rows, inputs = shape[0], shape[1]
        if stored in ((rows,), (rows, *(1,) * (len(stored) - 1))):
            return False
        if stored == (1, inputs, *(1,) * (len(stored) - 2)):
            return True
        raise PartsError(f"has a dora_scale {stored} for a layer {shape}; one number for each output is expected")

    def judge_overlaps(self) -> None:
        """DoRA takes a direction from the base, so that nothing else may change the same rows."""
        for key, edits in self.planned.edits.items():
            if not any(isinstance(edit, Directed) for edit in edits):
                continue
            spans = sorted(_span(edit) for edit in edits if isinstance(edit, Added | Directed))
            if any(first[1] > second[0] for first, second in pairwise(spans)):
                self.planned.faults.append(f"{key!r} is changed twice, once as DoRA; which is first is not told")


def _span(edit: Added | Directed) -> tuple[int, int]:
    added = edit.added if isinstance(edit, Directed) else edit
    return added.at, added.at + added.count


def _keys(segments: tuple[Segment, ...]) -> str:
    return ", ".join(repr(segment.key) for segment in segments)
