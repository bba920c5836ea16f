"""A merge as a LoRA adapter: each linear layer's merged change, cut to a rank, over the recipe's base.

In: merged tensors, block by block. Out: the files of a PEFT adapter folder. After `knots` or `core_space` on adapters
the merged change has the summed rank of the adapters, so that with `lora:` of that rank nothing is lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from smelt.caller import base_word, pipeline, word
from smelt.engine.adapter_output import summed_rank
from smelt.engine.plan.plan import Item, Plan
from smelt.engine.pool import BASE, ModelPool
from smelt.engine.sink.sink import Sink
from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout, Orientation
from smelt.formats.folder_files import read_config
from smelt.formats.safetensors import encode_header
from smelt.formats.source import TensorInfo
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


class AdapterSink(Sink):
    """Takes merged tensors and keeps only two thin factors of each change."""

    def __init__(self, plan: Plan, pool: ModelPool):
        if pool.base is None or plan.recipe.lora is None:
            raise RecipeError(f"`lora` writes changes from a base; give {base_word()}")
        if plan.layers:
            raise RecipeError("`lora` cannot be combined with layer slices: the base has no such layers to adapt")
        self._base, self._base_ref, self._rank = pool.base, plan.recipe.pool.base, plan.recipe.lora
        self._orientation = Orientation.in_source(pool.base)
        self._form = plan.stored_as
        self._transposed: dict[str, bool] = {}
        """Whether each adapted layer is stored as [in, out]."""
        self._whole: dict[str, Tensor] = {}
        self._lock = Lock()
        self._factors: dict[str, tuple[Tensor, Tensor]] = {}
        self._lost = self._total = 0.0
        self._shares: dict[str, float] = {}
        """The share of each layer's change that the cut lost."""
        self._faults: dict[int, str] = {}
        self._stages, self._summed_rank = plan.stage_names, summed_rank(pool)

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
        change = merged.sub_(base)
        if float(change.abs().max()) <= _ROUNDING * float(base.abs().max().clamp_min(1e-30)):
            return
        layer = self._orientation.of(item.key)
        alone = len(item.info.shape) == 2 and layer.count == 1 and (not self._form or self._form.is_known(item.key))
        if not alone or not Layout.is_matrix(item.key, layer.shape) or not item.key.endswith(".weight"):
            self._faults[item.order] = (
                f"an adapter cannot hold the change of {item.key!r}; {skip_remedy(item.key, BASE)}"
            )
            return
        stored = change.view(item.info.shape)
        left, values, right = svd(stored.mT.contiguous() if layer.transposed else stored, top=self._rank)
        root, name = values.sqrt(), item.key.removesuffix(".weight")
        self._factors[name] = ((root[:, None] * right).float(), (left * root).float())
        self._transposed[name] = layer.transposed
        square = float(torch.linalg.vector_norm(change, dtype=torch.float64)) ** 2
        lost = max(0.0, square - float(values.square().sum()))
        self._total += square
        self._lost += lost
        self._shares[item.key] = math.sqrt(lost / square)

    def report(self) -> dict[str, Any]:
        """The rank, and the share of the merged change's size (Frobenius norm) that the cut lost: overall and worst."""
        worst = max(self._shares, key=lambda key: self._shares[key], default=None)
        return {
            "rank": self._rank,
            "lost": math.sqrt(self._lost / self._total) if self._total else 0.0,
            "worst": self._shares[worst] if worst is not None else 0.0,
            "worst_tensor": worst,
        }

    def note(self) -> str:
        """The same in words."""
        told = self.report()
        worst = f"; most, {told['worst']:.1%}, in {told['worst_tensor']}" if told["worst_tensor"] else ""
        said = f"cut to rank {self._rank}, the merged change lost {told['lost']:.1%} of its size{worst}"
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
        """adapter_model.safetensors and adapter_config.json, as PEFT reads them."""
        if self._faults:
            raise IncompatibleModels([self._faults[order] for order in sorted(self._faults)])
        if not self._factors:
            raise RecipeError("the merge changes no linear layer, so there is nothing for an adapter to hold")
        tensors: dict[str, Tensor] = {}
        for name, (a, b) in sorted(self._factors.items()):
            tensors[f"base_model.model.{name}.lora_A.weight"] = _padded(a, self._rank)
            tensors[f"base_model.model.{name}.lora_B.weight"] = _padded(b.mT, self._rank).mT.contiguous()
        infos = {name: TensorInfo("F32", tuple(tensor.shape)) for name, tensor in tensors.items()}
        head, _ = encode_header(infos, {"format": "pt"})
        body = b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors.values())
        config = {
            "peft_type": "LORA",
            "base_model_name_or_path": (self._base_ref or "").removeprefix("dir:").removeprefix("hf:"),
            "r": self._rank,
            "lora_alpha": self._rank,
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": all(self._transposed.values()),
            "inference_mode": True,
            "target_modules": sorted(self._factors),
            "task_type": _task(read_config(self._base.folder)),
        }
        text = json.dumps(config, indent=2).encode() + b"\n"
        return {"adapter_model.safetensors": head + body, "adapter_config.json": text}


def _task(config: Mapping[str, Any] | None) -> str | None:
    """What PEFT calls the base's kind, by which it finds the class to load."""
    kinds = (config or {}).get("architectures") or [""]
    return "CAUSAL_LM" if str(kinds[0]).endswith(("ForCausalLM", "LMHeadModel")) else None


def _padded(rows: Tensor, rank: int) -> Tensor:
    """[few, columns] as [rank, columns] with rows of zeros: a layer whose change has a lower rank."""
    import torch

    return torch.cat([rows, rows.new_zeros(rank - len(rows), rows.shape[1])]) if len(rows) < rank else rows
