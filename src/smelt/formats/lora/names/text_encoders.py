"""Modules of text encoders by the names that adapters have for them, which are transformers' own.

In single files of Stable Diffusion 2 and XL a text encoder is stored as OpenCLIP has it, with query, key and value in
one tensor. Newer versions of transformers leave out the outer name `text_model` that adapters go by.
"""

from __future__ import annotations

import re

from smelt.formats.lora.names.segment import Aliases, Rows, parts_of, whole

__all__ = ["text_encoder_aliases"]

_OPEN_CLIP = re.compile(r"transformer\.resblocks\.(\d+)\.(.+)")
_IN_BLOCK = {
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
}
_OUTSIDE = {"ln_final": "text_model.final_layer_norm", "token_embedding": "text_model.embeddings.token_embedding"}


def text_encoder_aliases(modules: Rows) -> Aliases:
    found: Aliases = {}
    for name, stored in modules.items():
        if match := _OPEN_CLIP.fullmatch(name):
            block = f"text_model.encoder.layers.{match[1]}"
            if match[2] == "attn.in_proj":
                names = [f"{block}.self_attn.{letter}_proj" for letter in "qkv"]
                found |= zip(names, parts_of(stored, [stored.count // 3] * 3), strict=True)
            elif match[2] in _IN_BLOCK:
                found[f"{block}.{_IN_BLOCK[match[2]]}"] = whole(stored)
        elif name in _OUTSIDE:
            found[_OUTSIDE[name]] = whole(stored)
        elif name.startswith("text_model."):
            found[name.removeprefix("text_model.")] = whole(stored)
        elif name.startswith(("encoder.layers.", "embeddings.", "final_layer_norm")):
            found[f"text_model.{name}"] = whole(stored)
    return found
