"""The names of tensors in an adapter's file: which module each belongs to, which part of it it is, who writes so.

kohya and LyCORIS   lora_unet_mid_block_attentions_0_proj_in.lora_down.weight, ....alpha, ....hada_w1_a
diffusers           unet.mid_block.attentions.0.proj_in.lora.down.weight, transformer.x_embedder.lora_A.weight
PEFT                base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["AdapterKey", "Naming", "holds_adapter", "naming_of", "read_key"]

Naming: TypeAlias = Literal["kohya", "diffusers", "PEFT"]

_LYCORIS = r"alpha|dora_scale|hada_[wt][12](?:_[ab])?|lokr_[wt][12](?:_[ab])?|diff|diff_b|w_norm|b_norm"
_KEY = re.compile(
    rf"(?P<module>.+?)\.(?:(?P<plain>{_LYCORIS})"
    r"|(?P<kohya>lora_(?:down|up|mid))\.weight"
    r"|lora\.(?P<old>down|up)\.weight"
    r"|lora_linear_layer\.(?P<older>down|up)\.weight"
    r"|(?P<peft>lora_[AB])(?:\.(?!weight$|bias$)[^.]+)?\.(?P<leaf>weight|bias)"
    r"|lora_magnitude_vector(?:\.(?!weight$)[^.]+)?(?P<magnitude>(?:\.weight)?))"
)
_PROCESSOR = re.compile(r"(?P<module>.+?)(?:\.processor)?\.to_(?P<which>q|k|v|out)_lora\.(?P<part>down|up)\.weight")
"""How the first versions of diffusers named adapters of attention."""
_PARTS = {"lora_down": "down", "lora_up": "up", "lora_mid": "mid", "lora_A": "down", "lora_B": "up"}
_FOREIGN = {
    "oft_blocks": "OFT (rotations of the weight)",
    "oft_diag": "OFT (rotations of the weight)",
    "oft_R": "OFT (rotations of the weight)",
    "boft": "BOFT (rotations of the weight)",
    "a1.weight": "GLoRA (a change that depends on the weight)",
    "a2.weight": "GLoRA (a change that depends on the weight)",
    "b1.weight": "GLoRA (a change that depends on the weight)",
    "b2.weight": "GLoRA (a change that depends on the weight)",
    "on_input": "IA3 of LyCORIS",
    "lora_E": "AdaLoRA (singular values)",
    "lokr_t1": "a LoKr with a core in its first side",
    "bias_values": "a LyCORIS layer with a sparse bias",
    "reshape_weight": "a layer of another shape than the base's",
    "set_weight": "a layer that replaces the base's",
}
"""Parts of kinds that are not read, and what they are."""


@dataclass(frozen=True, slots=True)
class AdapterKey:
    module: str
    """As the file calls it."""
    part: str
    """up, down, mid, alpha, magnitude, bias, or LyCORIS's own word."""


def read_key(name: str) -> AdapterKey | str:
    """What a tensor is; where it is no part that is known, what is known of it in words."""
    if (match := _PROCESSOR.fullmatch(name)) is not None:
        layer = _attention_layer(match["module"], match["which"])
        return AdapterKey(f"{match['module']}.{layer}", match["part"])
    for word, what in _FOREIGN.items():
        if name.endswith(f".{word}") or f".{word}." in name:
            return f"{name!r} belongs to {what}, which is not read"
    if (match := _KEY.fullmatch(name)) is None:
        return f"{name!r} is no part of an adapter that is known here"
    if match["plain"] is not None:
        part = "magnitude" if match["plain"] == "dora_scale" else match["plain"]
    elif match["kohya"] is not None or match["peft"] is not None:
        part = _PARTS[match["kohya"] or match["peft"]]
        if match["leaf"] == "bias":
            part = "bias" if part == "up" else "bias of lora_A"
    elif match["magnitude"] is not None:
        part = "magnitude"
    else:
        part = match["old"] or match["older"]
    return AdapterKey(match["module"], part)


def _attention_layer(module: str, which: str) -> str:
    if module.endswith("self_attn"):
        return f"{which}_proj"
    return "to_out.0" if which == "out" else f"to_{which}"


def naming_of(names: Iterable[str]) -> Naming:
    """Who writes such names."""
    first = next(iter(names), "")
    if first.startswith("base_model.model."):
        return "PEFT"
    key = read_key(first)
    module = key.module if isinstance(key, AdapterKey) else first
    return "diffusers" if "." in module else "kohya"


def holds_adapter(names: Iterable[str]) -> bool:
    """Whether a file of these tensors is an adapter: every tensor is a part of one, or of a kind that is not read."""
    seen = False
    for name in names:
        if isinstance(found := read_key(name), str) and "belongs to" not in found:
            return False
        seen = True
    return seen
