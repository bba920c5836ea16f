"""An open_clip model as a function of its picture tower's weights: its parameters, and the statistics of its norms.

For residual networks, above all: their tensors keep open_clip's names (`visual.layer1.0.conv1.weight`) in files, so
these are the names that are merged. A vision transformer of the same library is read as a CLIP's (`families/clip`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.models.families.batch_norm import with_differentiable_norms
from smelt.models.families.network import sharing_copy

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.models.families.network import Network
    from smelt.models.families.open_clip.model import OpenClip

__all__ = ["VISION", "OpenClipNetwork"]

VISION = "visual."
"""What the picture tower's names begin with."""


class OpenClipNetwork:
    """`inputs` are normalised pictures [n, 3, height, width], `head` the classes as the text tower knows them."""

    def __init__(self, clip: OpenClip):
        self._clip = clip
        self.module: nn.Module = clip.model
        self._tower: nn.Module = with_differentiable_norms(clip.model.visual)
        self.keys = tuple(
            name for name, own in clip.model.state_dict().items() if name.startswith(VISION) and own.is_floating_point()
        )
        self.device = clip.device

    def weights(self) -> dict[str, Tensor]:
        own = self.module.state_dict()
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        assert head is not None
        return self.classify(self.encode(weights, inputs), head)

    def encode(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Picture features in fp32, not normalised."""
        from torch.func import functional_call

        given = {key.removeprefix(VISION): tensor for key, tensor in weights.items()}
        features: Tensor = functional_call(self._tower, given, (inputs,)).float()
        return features

    def classify(self, features: Tensor, head: Tensor) -> Tensor:
        """Cosines of pictures and classes, times the model's own scale, and its bias where it has one."""
        return self.score(_normal(features), head)

    def embed(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Normalised picture features in fp32."""
        return _normal(self.encode(weights, inputs))

    def score(self, features: Tensor, head: Tensor | None) -> Tensor:
        """The scores of features that are normalised already."""
        assert head is not None
        scores: Tensor = self._clip.model.logit_scale.exp() * features @ head.T
        bias: Tensor | None = getattr(self._clip.model, "logit_bias", None)
        return scores if bias is None else scores + bias

    def replica(self) -> Network:
        twin = OpenClipNetwork(self._clip)
        twin._tower = sharing_copy(self._tower)
        return twin


def _normal(features: Tensor) -> Tensor:
    from torch.nn.functional import normalize

    return normalize(features, dim=-1)
