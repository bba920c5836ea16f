"""The files of a merged adapter, in the layout of PEFT, of kohya's tools or of diffusers.

PEFT        adapter_model.safetensors and adapter_config.json; whole tensors as `modules_to_save` and biases
kohya       lora.safetensors: lora_down, lora_up and alpha (the rank); whole changes as `diff`, `diff_b`
diffusers   pytorch_lora_weights.safetensors: lora_A and lora_B; it has no way to keep a whole tensor
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.errors import IncompatibleModels
from smelt.formats.lora.names.components import component_of, components_in
from smelt.formats.lora.names.modules import module_name
from smelt.formats.lora.names.segment import Segment
from smelt.formats.lora.names.text_encoders import text_encoder_aliases
from smelt.formats.safetensors import encode_header
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MergedAdapter", "diffusers_files", "kohya_files", "peft_files"]


@dataclass
class MergedAdapter:
    """What a merge changes, by the names of the base's tensors."""

    base_ref: str
    rank: int
    names: tuple[str, ...]
    """All tensors of the base."""
    task: str | None = None
    """What PEFT calls the base's kind."""
    factors: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Down [rank, inputs, ...] and up [outputs, rank, ...] of each layer's change, by its weight."""
    transposed: dict[str, bool] = field(default_factory=dict)
    """Whether each of these is stored as [inputs, outputs]."""
    changes: dict[str, Tensor] = field(default_factory=dict)
    """Changes that are kept whole: of norms, biases, embeddings."""
    merged: dict[str, Tensor] = field(default_factory=dict)
    """The same tensors as the merge has them."""


def peft_files(found: MergedAdapter) -> dict[str, bytes]:
    """As PEFT reads them. Layers of a lower rank than the adapter's have a pattern of their own."""
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for key, (down, up) in found.factors.items():
        name = key.removesuffix(".weight")
        tensors[f"base_model.model.{name}.lora_A.weight"] = down
        tensors[f"base_model.model.{name}.lora_B.weight"] = up
        if len(down) != found.rank:
            ranks[name] = len(down)
    biases = [key for key in found.merged if key.endswith(".bias")]
    whole = sorted({key.rpartition(".")[0] for key in found.merged if not key.endswith(".bias")})
    for key, tensor in found.merged.items():
        module, _, leaf = key.rpartition(".")
        inside = f"{module}.base_layer" if f"{module}.weight" in found.factors else module
        tensors[f"base_model.model.{inside}.{leaf}"] = tensor
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": found.base_ref,
        "r": found.rank,
        "lora_alpha": found.rank,
        "rank_pattern": ranks,
        "alpha_pattern": ranks,
        "lora_dropout": 0.0,
        "bias": "all" if any(key.rpartition(".")[0] not in whole for key in biases) else "none",
        "fan_in_fan_out": bool(found.transposed) and all(found.transposed.values()),
        "inference_mode": True,
        "target_modules": sorted(key.removesuffix(".weight") for key in found.factors),
        "modules_to_save": whole or None,
        "task_type": found.task,
    }
    return {
        "adapter_model.safetensors": _encoded(tensors, {"format": "pt"}),
        "adapter_config.json": json.dumps(config, indent=2).encode() + b"\n",
    }


def kohya_files(found: MergedAdapter) -> dict[str, bytes]:
    """As kohya's tools, ComfyUI and diffusers read them; alpha is each layer's rank, so that the scaling is 1."""
    import torch

    tensors: dict[str, Tensor] = {}
    joined = _joined_names(found)
    for key, (down, up) in found.factors.items():
        for name, rows in joined[key]:
            tensors |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up[rows]}
            tensors[f"{name}.alpha"] = torch.tensor(float(len(down)))
    for key, change in found.changes.items():
        vector = "w_norm" if "norm" in key or ".ln_" in key else "diff"
        part = "diff_b" if key.endswith("bias") else vector if change.dim() == 1 else "diff"
        for name, rows in joined[key]:
            tensors[f"{name}.{part}"] = change[rows]
    return {"lora.safetensors": _encoded(tensors, {})}


def diffusers_files(found: MergedAdapter) -> dict[str, bytes]:
    """As diffusers reads them; the names of the base are those of a folder of diffusers already."""
    if found.changes:
        raise IncompatibleModels(
            f"diffusers' files hold no whole change, as {key!r} needs; write kohya's with `lora_format: kohya`"
            for key in found.changes
        )
    tensors: dict[str, Tensor] = {}
    components = components_in(found.names)
    for key, (down, up) in found.factors.items():
        root = component_of(key, components)
        if root not in ("unet.", "transformer.", "text_encoder.", "text_encoder_2.", "text_encoder_3."):
            raise IncompatibleModels(
                [f"{key!r} is no name of a folder of diffusers; write kohya's file with `lora_format: kohya`"]
            )
        name = key.removesuffix(".weight")
        tensors |= {f"{name}.lora_A.weight": down, f"{name}.lora_B.weight": up}
    return {"pytorch_lora_weights.safetensors": _encoded(tensors, {"format": "pt"})}


def _joined_names(found: MergedAdapter) -> dict[str, list[tuple[str, slice]]]:
    """What kohya's tools call the module of each tensor: a word for the component, and the name with underscores.

    OpenCLIP's text encoders go by transformers' names, which have query, key and value apart: each is some rows.
    """
    components = components_in(found.names)
    second = any("lora_te2_" in component.joined for component in components.values())
    names: dict[str, list[tuple[str, slice]]] = {}
    for key in (*found.factors, *found.changes):
        root = component_of(key, components) or ""
        prefix = components[root].joined[0] if root in components else "lycoris_"
        inner = module_name(key).removeprefix(root)
        modules = [(inner, slice(None))]
        if root == "transformer.":
            prefix = "lora_transformer_"  # what tools call modules in diffusers' names
        if prefix.startswith("lora_te"):
            prefix = "lora_te1_" if prefix == "lora_te_" and second else prefix
            rows = (found.factors[key][1] if key in found.factors else found.changes[key]).shape[0]
            modules = _text_modules(inner, rows)
        names[key] = [(prefix + name.replace(".", "_"), part) for name, part in modules]
    return names


def _text_modules(inner: str, rows: int) -> list[tuple[str, slice]]:
    """A text encoder's module by the names of transformers, with the outer `text_model` of CLIP."""
    aliases = text_encoder_aliases({inner: Segment(inner, 0, 0, rows)})
    apart = [
        (name, slice(segment.at, segment.at + segment.count))
        for name, (segment,) in aliases.items()
        if name.startswith("text_model.")
    ]
    return apart or [(inner, slice(None))]


def _encoded(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> bytes:
    ordered = {name: tensors[name].float().contiguous() for name in sorted(tensors)}
    infos = {name: TensorInfo("F32", tuple(tensor.shape)) for name, tensor in ordered.items()}
    head, _ = encode_header(infos, metadata)
    return head + b"".join(tensor.numpy().tobytes() for tensor in ordered.values())
