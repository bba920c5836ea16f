"""A plug-in with a family of its own: a network of two layers that tells colours apart, no transformer and no CLIP."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smelt.models.families.family import Family, families
from smelt.models.families.model_input import ModelInput
from smelt.models.families.network import ModuleNetwork
from smelt.models.families.preprocess import Preprocess


class ColourNet(nn.Module):
    """Normalised pictures [n, 3, side, side] -> features [n, 3]."""

    def __init__(self, side: int, width: int):
        super().__init__()
        self.first = nn.Linear(3 * side * side, width)
        self.second = nn.Linear(width, 3)

    def forward(self, pictures: Tensor) -> Tensor:
        features: Tensor = self.second(torch.relu(self.first(pictures.flatten(1))))
        return features


class ColourNetwork(ModuleNetwork):
    """The network as a function of its weights."""

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        assert head is not None
        return super().logits(weights, inputs, None) @ head.T


@dataclass
class LoadedColourNet:
    label: str
    module: ColourNet
    preprocess: Preprocess
    hash: str
    device: str
    dtype: str

    def head(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        return torch.eye(3)[[("red", "green", "blue").index(name) for name in classes]]

    def logits(self, pictures: Any, head: Tensor) -> Tensor:
        with torch.inference_mode():
            pixels = self.preprocess.normalise(torch.from_numpy(pictures), torch.float32)
            scores: Tensor = self.module(pixels) @ head.T
        return scores

    def network(self, include: Sequence[str] = ()) -> ColourNetwork:
        return ColourNetwork(self.module)


class ColourFamily(Family):
    name = "colour_net"
    model_kinds = frozenset({"classifier"})
    model_types = frozenset({"colour_net"})
    merged = ("first.*", "second.*")
    loaded_type = LoadedColourNet

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> LoadedColourNet:
        assert given.config is not None
        assert given.preprocess is not None
        state = {name: given.read(name) for name in sorted(given.names)}
        module = ColourNet(given.config["side"], given.config["width"])
        module.load_state_dict(state)
        numbers = b"".join(tensor.numpy().tobytes() for tensor in state.values())
        digest = hashlib.sha256(numbers).hexdigest()
        return LoadedColourNet(given.label, module.eval(), given.preprocess, digest, device, dtype)


families[ColourFamily.name] = ColourFamily()
