"""What an adapter is, from its header alone: the kind of its layers, who names them so, the family of its base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from smelt.formats.lora.keys import Naming, naming_of, read_key
from smelt.formats.lora.layer_changes import kind_of
from smelt.formats.source import TensorInfo

__all__ = ["AdapterDescription", "describe_adapter"]

_CROSS_WIDTHS = {768: "SD 1.5", 1024: "SD 2", 2048: "SDXL"}
"""How wide the text is that a UNet of each family looks at."""
_FLUX = ("double_blocks", "single_blocks", "single_transformer_blocks")
_UNET = ("down_blocks", "up_blocks", "mid_block", "input_blocks", "output_blocks", "middle_block")
_LANGUAGE = ("model.layers.", "model_layers_", ".h.", "self_attn")
_FLUX_WIDTH = 3072


@dataclass(frozen=True)
class AdapterDescription:
    kinds: tuple[str, ...]
    """LoRA, LoHa, LoKr, full; DoRA as well where lengths are learned."""
    naming: Naming
    family: str | None
    ranks: tuple[int, ...]
    targets: tuple[str, ...]
    """The layers that it changes, by their last names."""
    modules: int


def describe_adapter(infos: Mapping[str, TensorInfo]) -> AdapterDescription:
    modules: dict[str, dict[str, TensorInfo]] = {}
    for name, info in infos.items():
        if not isinstance(key := read_key(name), str):
            modules.setdefault(key.module, {})[key.part] = info
    kinds = {kind for parts in modules.values() if (kind := kind_of(parts)) != "none"}
    if any("magnitude" in parts for parts in modules.values()):
        kinds.add("DoRA")
    return AdapterDescription(
        tuple(sorted(kinds)) or ("unknown",),
        naming_of(infos),
        _family(modules),
        tuple(sorted({rank for parts in modules.values() if (rank := _rank(parts))})),
        _last_names(modules),
        len(modules),
    )


def _rank(parts: Mapping[str, TensorInfo]) -> int:
    """The first axis of what comes first; 0 where whole matrices are stored."""
    for part in ("down", "hada_w1_b", "lokr_w2_b", "lokr_w1_b"):
        if part in parts and parts[part].shape:
            return parts[part].shape[0]
    return 0


def _last_names(modules: Iterable[str]) -> tuple[str, ...]:
    """Names joined by underscores do not say where the last begins, so that these are not cut."""
    return tuple(sorted({name.rpartition(".")[2] for name in modules if "." in name}))


def _family(modules: Mapping[str, Mapping[str, TensorInfo]]) -> str | None:
    def mention(*words: str) -> bool:
        return any(word in name for name in modules for word in words)

    if mention(*_FLUX):
        return "Flux"
    if mention("joint_blocks"):
        return "SD3"
    if mention(*_UNET):
        widths = {
            parts["down"].shape[1]
            for name, parts in modules.items()
            if "attn2" in name and name.endswith(("to_k", "to_v")) and "down" in parts and len(parts["down"].shape) > 1
        }
        known = {_CROSS_WIDTHS[width] for width in widths if width in _CROSS_WIDTHS}
        if len(known) == 1:
            return known.pop()
        return (
            "SDXL" if mention("lora_te2_", "text_encoder_2.", "input_blocks", "output_blocks") else "Stable Diffusion"
        )
    if mention("transformer_blocks"):
        inputs = {parts["down"].shape[-1] for parts in modules.values() if "down" in parts and parts["down"].shape}
        return "Flux" if _FLUX_WIDTH in inputs else "SD3"
    if mention("lora_te", "text_encoder"):
        return "text encoders of a diffusion model"
    return "language model" if mention(*_LANGUAGE) else None
