"""A merge as an adapter: each layer's merged change, cut to a rank, over the recipe's base.

In: the items of a plan. Weighted sums of adapters are joined from their factors, without a look at the base. All else
comes as merged tensors, block by block, of which two thin factors are kept. Changes of norms, biases and embeddings are
kept whole, where the layout has a way. Out: the files of an adapter in one of three layouts. After `knots` or
`core_space` on adapters the merged change has the summed rank of the adapters, so that `lora:` of that rank loses
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from smelt.caller import base_word, pipeline, word
from smelt.engine.adapter_output import naming_of_output, summed_rank
from smelt.engine.adapter_sums import Factors, summed_factors
from smelt.engine.plan.plan import Item, Plan
from smelt.engine.pool import BASE, ModelPool
from smelt.engine.sink.adapter_layouts import MergedAdapter, diffusers_files, kohya_files, peft_files
from smelt.engine.sink.sink import Sink
from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout, Orientation
from smelt.formats.folder_files import read_config
from smelt.formats.lora.names.components import component_of, components_in
from smelt.methods import stages
from smelt.ops.spectral import svd
from smelt.recipe.patterns import skip_remedy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AdapterSink"]

_ROUNDING = 1e-6
_WORTH_TELLING = 0.01
_LINEAR = {"average", "task_arithmetic"}
"""Sums of adapters stay within what the adapters span; all other methods leave it, unless a basis keeps them there."""
_FILES = {"peft": peft_files, "kohya": kohya_files, "diffusers": diffusers_files}


class AdapterSink(Sink):
    """Takes merged tensors and keeps only two thin factors of each change."""

    def __init__(self, plan: Plan, pool: ModelPool):
        if pool.base is None or plan.recipe.lora is None:
            raise RecipeError(f"`lora` writes changes from a base; give {base_word()}")
        if plan.layers:
            raise RecipeError("`lora` cannot be combined with layer slices: the base has no such layers to adapt")
        self._base, self._rank = pool.base, plan.recipe.lora
        self._orientation = Orientation.in_source(pool.base)
        self._form = plan.stored_as
        self._layout = plan.recipe.lora_format or naming_of_output(pool)
        base_ref = (plan.recipe.pool.base or "").removeprefix("dir:").removeprefix("hf:")
        self._merged = MergedAdapter(
            base_ref, self._rank, tuple(pool.base.tensors), _task(read_config(self._base.folder))
        )
        self._components = components_in(pool.base.tensors)
        self._whole: dict[str, Tensor] = {}
        self._lock = Lock()
        self._squares: dict[str, tuple[float, float]] = {}
        """Of each layer's change the squared size, and of that what the cut lost."""
        self._faults: dict[int, str] = {}
        self._stages, self._summed_rank = plan.stage_names, summed_rank(pool)

    def add_sums(self, plan: Plan) -> Collection[str]:
        """Join what is a weighted sum of adapters; gives the tensors that need no merge any more."""
        done = set()
        for item in plan.items:
            if item.info.dtype not in dtypes.FLOATS:
                continue
            factors = summed_factors(item, self._base, self._rank)
            if factors is None or (factors.up.shape[1] and not self._is_layer(item)):
                continue
            done.add(item.key)
            if factors.up.shape[1] and factors.square:
                self._keep(item, factors)
        return done

    def write(self, item: Item, start: int, values: memoryview) -> None:
        import torch

        given = dtypes.tensor_of(values, item.info.dtype)
        with self._lock:
            whole = self._whole.setdefault(item.key, torch.empty(item.info.count))
        whole[start : start + given.numel()].copy_(given)

    def done(self, item: Item) -> None:
        import torch

        merged = self._whole.pop(item.key, None)
        if merged is None or item.info.dtype not in dtypes.FLOATS:
            return
        base = torch.empty_like(merged)
        self._base.read(item.key, 0, base)
        change = merged - base
        if float(change.abs().max()) <= _ROUNDING * float(base.abs().max().clamp_min(1e-30)):
            return
        shape = item.info.shape
        if not self._is_layer(item):
            self._keep_whole(item, merged.view(shape), change.view(shape))
            return
        stored = change.view(shape[0], -1)
        turned = self._orientation.of(item.key).transposed
        left, values, right = svd(stored.mT.contiguous() if turned else stored, top=self._rank)
        root, square = values.sqrt(), float(torch.linalg.vector_norm(change, dtype=torch.float64)) ** 2
        up, down = (left * root).float(), (root[:, None] * right).float()
        if turned:
            up, down = down.mT, up.mT
        self._keep(item, Factors(up, down, square, max(0.0, square - float(values.square().sum()))))

    def _is_layer(self, item: Item) -> bool:
        """Whether a tensor is a layer whose change has two factors: a matrix alone, or a convolution."""
        shape = item.info.shape
        fused = self._layout == "kohya" and item.key.endswith(".in_proj_weight")
        if not (item.key.endswith(".weight") or fused) or len(shape) < 2:
            return False
        if len(shape) > 2:
            return not self._orientation.of(item.key).doubt and self._orientation.of(item.key).count == 1
        layer = self._orientation.of(item.key)
        # Names of components, as `conditioner.embedders`, are no names of tables.
        inner = item.key.removeprefix(component_of(item.key, self._components) or "")
        return layer.count == 1 and Layout.is_matrix(inner, layer.shape) and self._is_known(item)

    def _is_known(self, item: Item) -> bool:
        """Whether other libraries know the tensor by its name."""
        return self._form is None or self._form.is_known(item.key)

    def _keep(self, item: Item, factors: Factors) -> None:
        """`factors` are those of the tensor as it is stored."""
        turned = len(item.info.shape) == 2 and self._orientation.of(item.key).transposed
        up, down = (factors.down.mT, factors.up.mT) if turned else (factors.up, factors.down)
        kernel = item.info.shape[2:]
        with self._lock:
            self._merged.factors[item.key] = (
                down.reshape(len(down), -1, *kernel).contiguous(),
                up.reshape(len(up), -1, *(1 for _ in kernel)).contiguous(),
            )
            self._merged.transposed[item.key] = turned
            self._squares[item.key] = factors.square, factors.lost

    def _keep_whole(self, item: Item, merged: Tensor, change: Tensor) -> None:
        named = (".weight", ".bias", ".in_proj_bias") if self._layout == "kohya" else (".weight", ".bias")
        alone = item.matrices is None and len(item.info.shape) <= 2
        if not (item.key.endswith(named) and alone and self._is_known(item)):
            self._faults[item.order] = (
                f"an adapter cannot hold the change of {item.key!r}; {skip_remedy(item.key, BASE)}"
            )
            return
        with self._lock:
            self._merged.merged[item.key], self._merged.changes[item.key] = merged, change

    def report(self) -> dict[str, Any]:
        """The rank, and the share of the merged change's size (Frobenius norm) that the cut lost: overall and worst."""
        shares = {key: math.sqrt(lost / size) if size else 0.0 for key, (size, lost) in sorted(self._squares.items())}
        worst = max(shares, key=lambda key: shares[key], default=None)
        total, lost = (math.fsum(one[at] for one in self._squares.values()) for at in (0, 1))
        return {
            "rank": self._rank,
            "layout": self._layout,
            "lost": math.sqrt(lost / total) if total else 0.0,
            "worst": shares[worst] if worst is not None else 0.0,
            "worst_tensor": worst,
            "whole": sorted(self._merged.changes),
        }

    def note(self) -> str:
        """The same in words."""
        told = self.report()
        worst = f"; most, {told['worst']:.1%}, in {told['worst_tensor']}" if told["worst_tensor"] else ""
        said = f"cut to rank {self._rank}, the merged change lost {told['lost']:.1%} of its size{worst}"
        if told["whole"]:
            size = sum(change.numel() for change in self._merged.changes.values()) * 4 / 1e6
            said += f"; {len(told['whole'])} tensors that have no such cut are kept whole ({size:,.1f} MB)"
        return said + self._hint(told["lost"])

    def _hint(self, lost: float) -> str:
        """What loses less, if adapters were merged and the cut lost more than rounding does."""
        if self._summed_rank is None or lost < _WORTH_TELLING:
            return ""
        ranks = f"{word('lora', self._summed_rank)} holds all that the adapters span"
        if set(self._stages) <= _LINEAR or any(stages[name].kind == "basis" for name in self._stages):
            return f". {ranks}" if self._rank < self._summed_rank else ""
        inside = f"{pipeline(['knots', *self._stages])} merges within what the adapters span"
        return f". {inside}" + (f", and {ranks}" if self._rank < self._summed_rank else ", and loses nothing")

    def files(self) -> dict[str, bytes | Path]:
        """As the tools of its layout read them."""
        if self._faults:
            raise IncompatibleModels([self._faults[order] for order in sorted(self._faults)])
        found = self._merged
        if not found.factors and not found.changes:
            raise RecipeError("the merge changes no linear layer, so there is nothing for an adapter to hold")
        return dict(_FILES[self._layout](found))


def _task(config: Mapping[str, Any] | None) -> str | None:
    """What PEFT calls the base's kind, by which it finds the class to load."""
    kinds = (config or {}).get("architectures") or [""]
    return "CAUSAL_LM" if str(kinds[0]).endswith(("ForCausalLM", "LMHeadModel")) else None
