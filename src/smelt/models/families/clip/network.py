"""A CLIP model as a function of its picture tower's weights: its parameters, and the statistics of its batch norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smelt.models.families.network import sharing_copy

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smelt.models.families.clip.model import Clip
    from smelt.models.families.network import Network

__all__ = ["ClipNetwork"]

_VISION = "vision_model."


class ClipNetwork:
    """`inputs` are normalised pictures [n, 3, height, width], `head` the classes as the text tower knows them."""

    def __init__(self, clip: Clip):
        self._clip = clip
        self.module: nn.Module = clip.model
        self._tower: nn.Module = clip.model.vision_model
        self._quick: nn.Module | None = None
        self.keys = tuple(
            name
            for name, own in clip.model.state_dict().items()
            if name.startswith(_VISION) and own.is_floating_point()
        )
        self.device = clip.device

    def weights(self) -> dict[str, Tensor]:
        own = self.module.state_dict()
        return {key: own[key].detach().float() for key in self.keys}

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        assert head is not None
        return self.classify(self._features(self._tower, weights, inputs), head)

    def encode(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Picture features in fp32, not normalised. Of CLIP's own tower only the first token is finished."""
        if self._quick is None:
            vit = self._clip.model.config.vision_config.model_type == "clip_vision_model"
            self._quick = _first_token_only(sharing_copy(self._tower)) if vit else self._tower
        return self._features(self._quick, weights, inputs)

    def classify(self, features: Tensor, head: Tensor) -> Tensor:
        """Cosines of pictures and classes, times the model's own scale."""
        return self.score(_normal(features), head)

    def embed(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        """Normalised picture features in fp32."""
        return _normal(self.encode(weights, inputs))

    def score(self, features: Tensor, head: Tensor | None) -> Tensor:
        """The scores of features that are normalised already."""
        assert head is not None
        scores: Tensor = self._clip.model.logit_scale.exp() * features @ head.T
        return scores

    def _features(self, tower: nn.Module, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        from torch.func import functional_call

        given = {key.removeprefix(_VISION): tensor for key, tensor in weights.items()}
        pooled = functional_call(tower, given, (inputs,)).pooler_output.flatten(1)  # a ResNet pools to [n, width, 1, 1]
        features: Tensor = self._clip.model.visual_projection(pooled.float())
        return features

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: not the quick tower, whose last block would still compute with this one's modules."""
        return {**self.__dict__, "_quick": None}

    def replica(self) -> Network:
        twin = ClipNetwork(self._clip)
        twin._tower = sharing_copy(self._tower)
        return twin


def _normal(features: Tensor) -> Tensor:
    from torch.nn.functional import normalize

    return normalize(features, dim=-1)


def _first_token_only(tower: nn.Module) -> nn.Module:
    """Change a picture tower in place: the output of its last block is the first token's alone.

    Keys and values of all tokens are needed, queries and everything after them only for the first. In a tower of six
    blocks that is an eighth of the arithmetic, forward and backward; the result is the same.
    """
    layers: Any = tower.get_submodule("encoder.layers")
    last = layers[-1]
    last.forward = _first_token_forward(last, isinstance(_output_of(last), tuple))
    return tower


def _first_token_forward(block: Any, in_tuple: bool) -> Callable[..., Any]:
    from torch.nn.functional import scaled_dot_product_attention

    attention = block.self_attn

    def heads(tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:2], int(attention.num_heads), -1).transpose(1, 2)

    def forward(hidden_states: Tensor, *_: Any, **__: Any) -> Any:
        normal = block.layer_norm1(hidden_states)
        query = heads(attention.q_proj(normal[:, :1]))
        seen = scaled_dot_product_attention(query, heads(attention.k_proj(normal)), heads(attention.v_proj(normal)))
        first = hidden_states[:, :1] + attention.out_proj(seen.transpose(1, 2).flatten(2))
        first = first + block.mlp(block.layer_norm2(first))
        return (first,) if in_tuple else first

    return forward


def _output_of(block: Any) -> Any:
    """What the block gives for two tokens: releases of transformers differ in whether it is a tuple."""
    import torch

    weight = block.layer_norm1.weight
    with torch.no_grad():
        return block(torch.zeros(1, 2, len(weight), dtype=weight.dtype, device=weight.device), None)
