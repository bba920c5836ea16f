"""A UNet's tensors as diffusers calls them, and as the single files of its first code do.

diffusers counts stages and the layers in them (`down_blocks.1.resnets.0`), the first code counts what data flows
through (`input_blocks.4`): a stage of n layers is n + 1 places, the last of which changes the size of the picture.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["file_names"]

_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
_OUTSIDE = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
_BLOCKS = {"down": "input_blocks", "up": "output_blocks"}
_STAGE = re.compile(r"(?P<way>down|up)_blocks\.(?P<stage>\d+)\.(?P<kind>\w+)\.(?P<layer>\d+)\.(?P<rest>.+)")


@dataclass(frozen=True)
class _Stages:
    """What a UNet's stages consist of, by the way (down or up) and the number of the stage."""

    layers: Mapping[tuple[str, int], int]
    attend: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, names: Collection[str]) -> _Stages:
        layers: dict[tuple[str, int], int] = {}
        attend = set()
        for match in filter(None, map(_STAGE.fullmatch, names)):
            stage = match["way"], int(match["stage"])
            if match["kind"] == "resnets":
                layers[stage] = max(layers.get(stage, 0), int(match["layer"]) + 1)
            elif match["kind"] == "attentions":
                attend.add(stage)
        return cls(layers, frozenset(attend))

    def place(self, way: str, stage: int, kind: str, layer: int) -> str | None:
        """`input_blocks.4.1`, or None for a kind of layer that single files do not have."""
        count = self.layers.get((way, stage), 0)
        first = sum(self.layers.get((way, earlier), 0) for earlier in range(stage))
        if way == "down":
            first += 1 + stage  # conv_in comes first, and every stage before has one place that halves the picture
            places = {"downsamplers": f"{first + count}.0.op"}
        else:
            places = {"upsamplers": f"{first + count - 1}.{1 + ((way, stage) in self.attend)}"}
        places |= {"resnets": f"{first + layer}.0", "attentions": f"{first + layer}.1"}
        found = places.get(kind)
        return found and f"{_BLOCKS[way]}.{found}"


def file_names(names: Collection[str]) -> dict[str, str]:
    """The name in a single file of every tensor of a UNet, by its name in diffusers; unknown ones are left away."""
    stages = _Stages.of(names)
    found = {name: _renamed(name, stages) for name in names}
    return {name: other for name, other in found.items() if other is not None}


def _renamed(name: str, stages: _Stages) -> str | None:
    if (match := _STAGE.fullmatch(name)) is not None:
        place = stages.place(match["way"], int(match["stage"]), match["kind"], int(match["layer"]))
        return None if place is None else _inside(f"{place}.{match['rest']}", match["kind"] == "resnets")
    for ours, theirs in _OUTSIDE.items():
        if name.startswith(f"{ours}."):
            return _inside(theirs + name.removeprefix(ours), ".resnets." in ours)
    return None


def _inside(name: str, resnet: bool) -> str:
    """The same with the parts of a resnet under the other's names."""
    name = name.replace(".0.op.conv.", ".0.op.")
    if not resnet:
        return name
    head, part, leaf = name.rsplit(".", 2)
    return f"{head}.{_RESNET.get(part, part)}.{leaf}"
