"""A CLIP model as a function of its picture tower's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.pool.families.first_token import first_token_only
from smelt.pool.families.network import sharing_copy

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.pool.families.clip import Clip
    from smelt.pool.families.network import Network

__all__ = ["ClipNetwork"]

_VISION = "vision_model."


class ClipNetwork:
    """`inputs` are normalised pictures [n, 3, height, width], `head` the classes as the text tower knows them."""

    def __init__(self, clip: Clip):
        self._clip = clip
        self.module: nn.Module = clip.model
        self._tower: nn.Module = clip.model.vision_model
        self._quick: nn.Module | None = None
        self.keys = tuple(name for name, _ in clip.model.named_parameters() if name.startswith(_VISION))
        self.device = clip.device

    def weights(self) -> dict[str, Tensor]:
        own = dict(self.module.named_parameters())
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        return self.score(self._features(self._tower, weights, inputs), head)

    def embed(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Normalised picture features in fp32. The last block computes only what they are made from."""
        if self._quick is None:
            self._quick = first_token_only(sharing_copy(self._tower))
        return self._features(self._quick, weights, inputs)

    def _features(self, tower: nn.Module, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        import torch
        from torch.func import functional_call

        given = {key.removeprefix(_VISION): tensor for key, tensor in weights.items()}
        pooled = functional_call(tower, given, (inputs,)).pooler_output
        return torch.nn.functional.normalize(self._clip.model.visual_projection(pooled.float()), dim=-1)

    def score(self, features: Tensor, head: Tensor | None) -> Tensor:
        """Cosines of pictures and classes, times the model's own scale."""
        assert head is not None
        scores: Tensor = self._clip.model.logit_scale.exp() * features @ head.T
        return scores

    def replica(self) -> Network:
        twin = ClipNetwork(self._clip)
        twin._tower = sharing_copy(self._tower)
        return twin
