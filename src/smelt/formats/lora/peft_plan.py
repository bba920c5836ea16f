"""What a PEFT adapter changes in its base, worked out from its config and from headers alone.

In: the `AdapterConfig`, the adapter's header, the base's header. Out: an `AdapterPlan`: which tensors are replaced,
what is added to others, which rows or columns are rescaled. PEFT's own `merge_and_unload` is what it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Orientation
from smelt.formats.lora.adapter_plan import AdapterPlan
from smelt.formats.lora.changes import Full, LowRank, Product, Stored
from smelt.formats.lora.edits import Added, Directed, Rescaled, RowsReplaced
from smelt.formats.lora.layer_changes import PartsError, change_of
from smelt.formats.lora.peft_experts import stack_of
from smelt.formats.lora.peft_orientation import ScaledProduct, settle_orientation
from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

if TYPE_CHECKING:
    from smelt.formats.lora.config import AdapterConfig
    from smelt.formats.source import TensorInfo

__all__ = ["plan_adapter"]

_PREFIX = "base_model.model."
_PART = re.compile(
    r"(?P<module>.+?)\.(?P<part>lora_(?:embedding_)?[AB]|lora_magnitude_vector|hada_[wt][12](?:_[ab])?"
    r"|lokr_[wt][12](?:_[ab])?|ia3_l|token_adapter\.trainable_tokens_delta)(?:\.(?P<rest>.+))?"
)
_TOKENS = "token_adapter.trainable_tokens_delta"
_SAVED = re.compile(r"(?P<module>.+?)\.modules_to_save\.(?P<adapter>[^.]+)\.(?P<leaf>.+)")


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
        self._products: dict[str, list[ScaledProduct]] = {}
        """Low-rank products, until it is settled how their layers lie in the base."""
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
        stacks: dict[str, dict[str, dict[str, str]]] = {}
        for module, slots in modules.items():
            owner = _unwrapped(module)
            if self.config.target_parameters and self._find(f"{owner}.weight") is None:
                stacks.setdefault(owner, {})[module] = slots
            else:
                self._add_layer(owner, slots)
        for owner, levels in stacks.items():
            self._add_stacks(owner, levels)
        if not self.adapter:
            self.faults.append("the adapter holds no tensors")
        if len(adapter_names) > 1:
            listed = ", ".join(sorted(adapter_names))
            self.faults.append(f"the file holds several adapters ({listed}); save each to its own folder")
        self._add_settled()
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

    def _add_layer(self, module: str, slots: dict[str, str]) -> None:
        """Whatever the adapter does to one layer, by its parts."""
        if (rows := slots.pop(_TOKENS, None)) is not None:
            self._replace_rows(module, rows)
        if (numbers := slots.pop("ia3_l", None)) is not None:
            self._rescale(module, numbers)
        if any(slot.startswith(("hada_", "lokr_")) for slot in slots):
            self._add_lycoris(module, slots)
        elif slots:
            self._add_product(module, slots)

    def _target(self, module: str) -> str | None:
        """The tensor of a layer's weight, or None and a fault."""
        key = self._find(f"{module}.weight")
        if key is None:
            self.faults.append(f"{module!r} is adapted but the base has no tensor {module + '.weight'!r}")
        elif self.base[key].dtype not in dtypes.WRITABLE:
            self.faults.append(
                f"{key!r} is {self.base[key].dtype} in the base; an adapter needs a base that is not quantised"
            )
        return key

    def _replace_rows(self, module: str, stored: str) -> None:
        if (key := self._target(module)) is None:
            return
        rows, shape, target = self.config.token_rows(module), self.adapter[stored].shape, self.base[key].shape
        if rows is None:
            self.faults.append(f"{stored!r}: trainable_token_indices does not say which rows of {module!r} these are")
        elif len(target) != 2 or shape != (len(rows), target[1]) or max(rows, default=0) >= target[0]:
            self.faults.append(
                f"{stored!r} {shape} does not fit {len(rows)} rows up to {max(rows, default=0)} of {key!r} {target}"
            )
        else:
            self.planned.add(key, RowsReplaced(stored, rows))

    def _rescale(self, module: str, stored: str) -> None:
        """IA3 multiplies what comes out of a layer [outputs, 1], or what goes into it [1, inputs]."""
        if (key := self._target(module)) is None:
            return
        shape, target = self.adapter[stored].shape, self.base[key].shape
        by_input = len(shape) == 2 and shape[0] == 1
        sides = target[::-1] if self.config.transposed else target
        if len(target) != 2 or shape != ((1, sides[1]) if by_input else (sides[0], 1)):
            self.faults.append(f"{stored!r} {shape} rescales neither the inputs nor the outputs of {key!r} {target}")
            return
        self.planned.add(key, Rescaled(stored, by_input != self.config.transposed))
        bias = self._find(f"{module}.bias")
        if bias is not None and not by_input:
            if self.base[bias].shape != (sides[0],):
                self.faults.append(f"{stored!r} {shape} does not fit the bias {bias!r} {self.base[bias].shape}")
            self.planned.add(bias, Rescaled(stored))

    def _add_lycoris(self, module: str, slots: dict[str, str]) -> None:
        if (key := self._target(module)) is None:
            return
        _, scaling = self.config.rank_and_scaling(module)
        try:
            change = change_of(slots, self.adapter, self.base[key].shape, lambda rank: scaling)
        except PartsError as error:
            self.faults.append(f"{module!r} {error}")
            return
        self.planned.add(key, Added(change, self.base[key].shape[0]))

    def _add_stacks(self, module: str, levels: dict[str, dict[str, str]]) -> None:
        """Bare parameters of one module; each level of PEFT's wrapping holds one of them."""
        names = [f"{module}.{target.rpartition('.')[2]}" for target in self.config.target_parameters]
        found = {key: self.base[key] for name in names if (key := self._find(name)) is not None}
        stacks = {key: info for key, info in found.items() if len(info.shape) == 3 and info.dtype in dtypes.WRITABLE}
        for slots in levels.values():
            try:
                key, change = stack_of(module, slots, self.adapter, stacks, self.orientation, self.config)
            except PartsError as error:
                self.faults.append(f"{module!r} {error}")
                continue
            self.planned.stacks[key] = rows = change.experts * self.base[key].shape[1]
            self.planned.add(key, Added(change, rows))

    def _add_product(self, module: str, slots: dict[str, str]) -> None:
        kind = "lora_embedding_" if "lora_embedding_A" in slots or "lora_embedding_B" in slots else "lora_"
        a, b = slots.pop(f"{kind}A", None), slots.pop(f"{kind}B", None)
        magnitude, bias = slots.pop("lora_magnitude_vector", None), slots.pop("lora_B.bias", None)
        self.faults += [f"{stored!r} is not a known part of a LoRA layer" for stored in slots.values()]
        key = self._target(module)
        if key is None:
            return
        if a is None or b is None:
            there, missing = ("B", "A") if a is None else ("A", "B")
            self.faults.append(f"{module!r} has {kind}{there} but no {kind}{missing}")
            return
        rank, scaling = self.config.rank_and_scaling(module)
        first, second, target = self.adapter[a], self.adapter[b], self.base[key]
        matrices = f"{kind}A {first.shape} and {kind}B {second.shape} of {module!r}"
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
        self._products.setdefault(key, []).append((Product(b, a, rank, swapped=not straight), scaling, magnitude))
        if bias is not None:
            owner = self._find(f"{module}.bias")
            if owner is None or self.base[owner].shape != self.adapter[bias].shape:
                self.faults.append(
                    f"{bias!r} {self.adapter[bias].shape}: the base has no bias of that shape to add it to"
                )
            else:
                self.planned.add(owner, Added(Full(Stored(bias, 1), scaling), self.base[owner].shape[0]))

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

    def _add_settled(self) -> None:
        """The products, now that it is known how their layers lie in the base."""
        self.faults += settle_orientation(self._products, self.base, self.orientation, self.config.transposed)
        for key, products in self._products.items():
            for product, scaling, magnitude in products:
                added = Added(LowRank(product, scaling), self.base[key].shape[0])
                done = added if magnitude is None else Directed(added, magnitude, by_input=product.swapped)
                self.planned.add(key, done)

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
            products = self._products.get(key, [])
            if len(products) > 1 and any(magnitude for _, _, magnitude in products):
                self.faults.append(f"{key!r} has several DoRA products through tied names; which is first is not told")
            if products:
                self.planned.notes.append(f"{' and '.join(sorted(names))} are one tensor; the change reaches both uses")


def _unwrapped(module: str) -> str:
    """Without the wrappers that PEFT puts around a module for each bare parameter of it."""
    while module.endswith(".base_layer"):
        module = module.removesuffix(".base_layer")
    return module


def _fits(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """B (out, r, 1, ...) times A (r, in, ...) is (out, in, ...): linear layers and convolutions alike."""
    return len(a) == len(b) == len(shape) and (b[0], *a[1:]) == shape and set(b[2:]) <= {1}
