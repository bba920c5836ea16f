"""A CLIP model as a function of its picture tower's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.pool.families.clip import Clip

__all__ = ["ClipNetwork"]

_VISION = "vision_model."


class ClipNetwork:
    """`inputs` are normalised pictures [n, 3, height, width], `head` the classes as the text tower knows them."""

    def __init__(self, clip: Clip):
        self._clip = clip
        self.module: nn.Module = clip.model
        self.keys = tuple(name for name, _ in clip.model.named_parameters() if name.startswith(_VISION))
        self.device = clip.device

    def weights(self) -> dict[str, Tensor]:
        own = dict(self.module.named_parameters())
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        import torch
        from torch.func import functional_call

        assert head is not None
        model = self._clip.model
        given = {key.removeprefix(_VISION): tensor for key, tensor in weights.items()}
        pooled = functional_call(model.vision_model, given, (inputs,)).pooler_output
        features = torch.nn.functional.normalize(model.visual_projection(pooled.float()), dim=-1)
        scores: Tensor = model.logit_scale.exp() * features @ head.T
        return scores
