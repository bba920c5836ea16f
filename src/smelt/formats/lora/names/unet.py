"""A UNet's modules by their names in the other layout: Stability's (`input_blocks.4.1`), diffusers' (`down_blocks.1`).

Stability's code numbers all blocks through, diffusers counts levels and the layers within. How many layers a level has
is read off the names: it is 2 in Stable Diffusion 1 and 2 and XL.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from smelt.formats.lora.names.segment import Aliases, Rows, whole

__all__ = ["unet_aliases"]

_OUTSIDE = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "label_emb.0.0": "add_embedding.linear_1",
    "label_emb.0.2": "add_embedding.linear_2",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}
_RESNET = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
_MIDDLE = {"0": "resnets.0", "1": "attentions.0", "2": "resnets.1"}
_LEVEL = re.compile(r"(down|up)_blocks\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)")
_NUMBERED = re.compile(r"(input|output)_blocks\.(\d+)\.(\d)\.(.+)")


def unet_aliases(modules: Rows) -> Aliases:
    """Every module of a UNet by its name in the layout that this one is not in; none of what is no UNet."""
    if any(name.startswith("input_blocks.") for name in modules):
        rename = _to_diffusers(modules)
    elif any(name.startswith("down_blocks.") for name in modules):
        rename = _to_numbered(modules)
    else:
        return {}
    return {other: whole(modules[name]) for name, other in rename.items()}


def _to_numbered(names: Collection[str]) -> dict[str, str]:
    outside = {theirs: ours for ours, theirs in _OUTSIDE.items()}
    middle = {theirs: ours for ours, theirs in _MIDDLE.items()}
    resnet = {theirs: ours for ours, theirs in _RESNET.items()}
    found = [match for name in names if (match := _LEVEL.fullmatch(name))]
    layers = 1 + max((int(m[4]) for m in found if (m[1], m[3]) == ("down", "resnets")), default=0)
    attending = {m[2] for m in found if (m[1], m[3]) == ("up", "attentions")}
    renamed: dict[str, str] = {}
    for name in names:
        if name in outside:
            renamed[name] = outside[name]
        elif name.startswith("mid_block."):
            _, kind, number, rest = name.split(".", 3)
            if (place := middle.get(f"{kind}.{number}")) is not None:
                renamed[name] = f"middle_block.{place}.{resnet.get(rest, rest) if kind == 'resnets' else rest}"
        elif match := _LEVEL.fullmatch(name):
            side, level, kind, layer, rest = match.groups()
            per_level = layers + 1  # downwards a sampler ends each level, upwards a level has one layer more
            first = int(level) * per_level + (1 if side == "down" else 0)
            outer = "input_blocks" if side == "down" else "output_blocks"
            if kind == "resnets":
                renamed[name] = f"{outer}.{first + int(layer)}.0.{resnet.get(rest, rest)}"
            elif kind == "attentions":
                renamed[name] = f"{outer}.{first + int(layer)}.1.{rest}"
            elif kind == "downsamplers":
                renamed[name] = f"{outer}.{first + layers}.0.{'op' if rest == 'conv' else rest}"
            else:
                renamed[name] = f"{outer}.{first + layers}.{2 if level in attending else 1}.{rest}"
    return renamed


def _to_diffusers(names: Collection[str]) -> dict[str, str]:
    found = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    samplers = [int(m[2]) for m in found if m[1] == "input" and m[4] == "op"]
    inputs = [int(m[2]) for m in found if m[1] == "input"]
    per_level = min(samplers) if samplers else max(inputs) + 1
    renamed: dict[str, str] = {}
    for name in names:
        if name in _OUTSIDE:
            renamed[name] = _OUTSIDE[name]
        elif name.startswith("middle_block."):
            _, place, rest = name.split(".", 2)
            if place in _MIDDLE:
                renamed[name] = f"mid_block.{_MIDDLE[place]}.{_RESNET.get(rest, rest) if place != '1' else rest}"
        elif match := _NUMBERED.fullmatch(name):
            side, number, place, rest = match.groups()
            down = side == "input"
            level, layer = divmod(int(number) - (1 if down else 0), per_level)
            outer = f"{'down' if down else 'up'}_blocks.{level}"
            if rest == "op":
                renamed[name] = f"{outer}.downsamplers.0.conv"
            elif not down and rest == "conv":
                renamed[name] = f"{outer}.upsamplers.0.conv"
            elif place == "0":
                renamed[name] = f"{outer}.resnets.{layer}.{_RESNET.get(rest, rest)}"
            else:
                renamed[name] = f"{outer}.attentions.{layer}.{rest}"
    return renamed
