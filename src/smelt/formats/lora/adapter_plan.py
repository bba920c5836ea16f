"""What a PEFT adapter changes in its base, worked out from its config and from headers alone.

In: the `AdapterConfig`, the adapter's header, the base's header. Out: an `AdapterPlan`, which says for every base
tensor what replaces it, which low-rank products are added to it and what is added to it as a bias. Every adapter tensor
ends up in the plan or in the list of faults; no tensor data is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Orientation
from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

if TYPE_CHECKING:
    from smelt.formats.lora.config import AdapterConfig
    from smelt.formats.source import TensorInfo

__all__ = ["AdapterPlan", "LowRank", "plan_adapter"]

_PREFIX = "base_model.model."
_PART = re.compile(r"(?P<module>.+?)\.(?P<part>lora_(?:embedding_)?[AB]|lora_magnitude_vector)(?:\.(?P<rest>.+))?")
_SAVED = re.compile(r"(?P<module>.+?)\.modules_to_save\.(?P<adapter>[^.]+)\.(?P<leaf>.+)")


@dataclass(frozen=True, slots=True)
class LowRank:
    """`scaling * B @ A` for one base tensor; `a`, `b` and `magnitude` are names in the adapter."""

    a: str
    b: str
    swapped: bool
    """The base stores (input, output), as embeddings and GPT-2's Conv1D do: the product is added transposed."""
    scaling: float
    magnitude: str | None = None
    """DoRA: the length that each output's weights are given."""


@dataclass(slots=True)
class AdapterPlan:
    """What happens to the base's tensors, by their names in the base."""

    replaced: dict[str, list[str]] = field(default_factory=dict)
    """Whole tensors. Two for one base tensor (tied weights) must hold the same numbers."""
    low_rank: dict[str, list[LowRank]] = field(default_factory=dict)
    shifts: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """`lora_B`'s bias and its scaling, added to the base's bias."""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is done as PEFT does it but may surprise."""


def plan_adapter(
    config: AdapterConfig,
    adapter: Mapping[str, TensorInfo],
    base: Mapping[str, TensorInfo],
    tied: Mapping[str, str],
    orientation: Orientation,
) -> AdapterPlan:
    """`orientation` is that of the base's layers."""
    if config.faults:
        return AdapterPlan(faults=list(config.faults))
    return _Planner(config, adapter, base, tied, orientation).plan()


class _Planner:
    def __init__(
        self,
        config: AdapterConfig,
        adapter: Mapping[str, TensorInfo],
        base: Mapping[str, TensorInfo],
        tied: Mapping[str, str],
        orientation: Orientation,
    ):
        self.config, self.adapter, self.base, self.tied = config, adapter, base, tied
        self.orientation = orientation
        self.outer = {name.partition(".")[0] for name in (*base, *tied)}
        self.planned = AdapterPlan()
        self.faults = self.planned.faults

    def plan(self) -> AdapterPlan:
        modules: dict[str, dict[str, str]] = {}
        adapter_names: set[str] = set()
        for stored in self.adapter:
            plain = stored.removeprefix(_PREFIX)
            if part := _PART.fullmatch(plain):
                pieces = (part["rest"] or "weight").split(".")
                leaf = pieces.pop() if pieces[-1] in ("weight", "bias") else "weight"
                adapter_names.update(pieces)
                slots = modules.setdefault(part["module"], {})
                slot = part["part"] if leaf == "weight" else f"{part['part']}.{leaf}"
                if slot in slots:
                    self.faults.append(f"{stored!r} stands for the same as {slots[slot]!r}")
                slots[slot] = stored
            elif saved := _SAVED.fullmatch(plain):
                adapter_names.add(saved["adapter"])
                self._replace(stored, f"{saved['module']}.{saved['leaf']}")
            else:
                self._replace(stored, plain)
        for module, slots in modules.items():
            self._add_product(module, slots)
        if not self.adapter:
            self.faults.append("the adapter holds no tensors")
        if len(adapter_names) > 1:
            listed = ", ".join(sorted(adapter_names))
            self.faults.append(f"the file holds several adapters ({listed}); save each to its own folder")
        self._settle_orientation()
        self._judge_ties()
        return self.planned

    def _replace(self, stored: str, name: str) -> None:
        """A tensor that stands for a whole one: modules_to_save, biases, a saved embedding."""
        info, key = self.adapter[stored], self._find(name.replace(".base_layer.", "."))
        if key is None:
            self.faults.append(f"{stored!r} {info.shape} matches no tensor of the base")
            return
        there = self.base[key]
        if info.shape != there.shape:
            self.faults.append(f"{stored!r} is {info.shape} but {key!r} in the base is {there.shape}")
        elif (info.dtype in dtypes.FLOATS) != (there.dtype in dtypes.FLOATS):
            self.faults.append(f"{stored!r} is {info.dtype} but {key!r} in the base is {there.dtype}")
        self.planned.replaced.setdefault(key, []).append(stored)

    def _add_product(self, module: str, slots: dict[str, str]) -> None:
        kind = "lora_embedding_" if "lora_embedding_A" in slots or "lora_embedding_B" in slots else "lora_"
        a, b = slots.pop(f"{kind}A", None), slots.pop(f"{kind}B", None)
        magnitude, bias = slots.pop("lora_magnitude_vector", None), slots.pop("lora_B.bias", None)
        self.faults += [f"{stored!r} is not a known part of a LoRA layer" for stored in slots.values()]
        key = self._find(f"{module}.weight")
        if key is None:
            self.faults.append(f"{module!r} is adapted but the base has no tensor {module + '.weight'!r}")
            return
        if a is None or b is None:
            there, missing = ("B", "A") if a is None else ("A", "B")
            self.faults.append(f"{module!r} has {kind}{there} but no {kind}{missing}")
            return
        rank, scaling = self.config.rank_and_scaling(module)
        first, second, target = self.adapter[a], self.adapter[b], self.base[key]
        matrices = f"{kind}A {first.shape} and {kind}B {second.shape} of {module!r}"
        if target.dtype not in dtypes.WRITABLE:
            self.faults.append(f"{key!r} is {target.dtype} in the base; an adapter needs a base that is not quantised")
        if not {first.dtype, second.dtype} <= dtypes.FLOATS:
            self.faults.append(f"{matrices} are {first.dtype} and {second.dtype}; floating point is expected")
        if first.shape[:1] != (rank,) or second.shape[1:2] != (rank,):
            self.faults.append(f"{matrices} do not have the rank {rank} that adapter_config.json gives them")
            return
        straight = kind == "lora_" and _fits(first.shape, second.shape, target.shape)
        swapped = len(target.shape) == 2 and _fits(first.shape, second.shape, target.shape[::-1])
        if not straight and not swapped:
            self.faults.append(f"{matrices} do not make a change of shape {target.shape}, as {key!r} needs")
            return
        if self.config.use_dora != (magnitude is not None):
            asked, found = ("asks", "no") if magnitude is None else ("does not ask", "a")
            self.faults.append(f"adapter_config.json {asked} for DoRA but {module!r} has {found} magnitude vector")
        if magnitude is not None and self.adapter[magnitude].count != second.shape[0]:
            count = self.adapter[magnitude].count
            self.faults.append(f"{magnitude!r} has {count} numbers for {second.shape[0]} outputs")
        self.planned.low_rank.setdefault(key, []).append(LowRank(a, b, not straight, scaling, magnitude))
        if bias is not None:
            owner = self._find(f"{module}.bias")
            if owner is None or self.base[owner].shape != self.adapter[bias].shape:
                self.faults.append(
                    f"{bias!r} {self.adapter[bias].shape}: the base has no bias of that shape to add it to"
                )
            else:
                self.planned.shifts.setdefault(owner, []).append((bias, scaling))

    def _find(self, name: str) -> str | None:
        """The base's name for it: the same, or with the model's outer name (`model.`, `transformer.`) put on or off.

        A checkpoint of the bare model lacks the outer name that one with a head has, and the reverse. An adapter that
        was trained with an older version of a library has the names that the model had there.
        """
        candidates = [name]
        if name not in self.base and name not in self.tied:
            head, _, tail = name.partition(".")
            candidates = [f"{outer}.{name}" for outer in self.outer] + ([tail] if head not in self.outer else [])
            candidates += [view.common(name) for view in views.values() if isinstance(view, OlderNames)]
        found = {self.tied.get(candidate, candidate) for candidate in candidates} & self.base.keys()
        return found.pop() if len(found) == 1 else None

    def _settle_orientation(self) -> None:
        """A square matrix does not show by its shape whether it is stored (input, output), as in GPT-2.

        PEFT knows from the layer's class, and its `fan_in_fan_out` only remembers the last layer it met. So layers
        of the same name that are not square decide, then what is known of the base; where that is nothing, the
        config's word, unless other layers prove it wrong.
        """
        votes: dict[str, set[bool]] = {}
        square: list[tuple[str, int]] = []
        for key, products in self.planned.low_rank.items():
            shape = self.base[key].shape
            for number, product in enumerate(products):
                if len(shape) != 2 or "lora_embedding_" in product.a:
                    continue
                if shape[0] == shape[1]:
                    square.append((key, number))
                else:
                    votes.setdefault(key.split(".")[-2], set()).add(product.swapped)
        told = self.config.transposed
        trusted = all(seen == {told} for seen in votes.values())
        for key, number in square:
            seen = votes.get(key.split(".")[-2], set())
            if len(seen) != 1 and self.orientation.informed:
                seen = {self.orientation.of(key).transposed}
            if len(seen) != 1 and not trusted:
                self.faults.append(
                    f"{key!r} is square and other layers contradict fan_in_fan_out={told}; correct it in "
                    "adapter_config.json (true for GPT-2's Conv1D layers)"
                )
            products = self.planned.low_rank[key]
            products[number] = replace(products[number], swapped=next(iter(seen)) if len(seen) == 1 else told)

    def _judge_ties(self) -> None:
        for key in sorted(set(self.tied.values()) & self.base.keys()):
            names = {key, *(name for name, owner in self.tied.items() if owner == key)}
            stored = self.planned.replaced.get(key, [])
            # PEFT gives modules_to_save tensors of their own; any other whole tensor it copies into the shared one.
            own = [name for name in stored if self.config.saves(name) and ".base_layer." not in name]
            if own and len(own) < len(names) and not self.config.keeps_ties:
                self.faults.append(
                    f"{own[0]!r} replaces one of the tied {' and '.join(sorted(names))} and not the other; "
                    "untie the base's weights first (tie_word_embeddings: false)"
                )
            products = self.planned.low_rank.get(key, [])
            if len(products) > 1 and any(product.magnitude for product in products):
                self.faults.append(f"{key!r} has several DoRA products through tied names; which is first is not told")
            if products:
                self.planned.notes.append(f"{' and '.join(sorted(names))} are one tensor; the change reaches both uses")


def _fits(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """B (out, r, 1, ...) times A (r, in, ...) is (out, in, ...): linear layers and convolutions alike."""
    return len(a) == len(b) == len(shape) and (b[0], *a[1:]) == shape and set(b[2:]) <= {1}
