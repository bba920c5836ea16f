"""A convolutional CLIP of a few thousand numbers, with BatchNorm: a picture tower that is no transformer.

Its class and config are those of real models (`VisionTextDualEncoderModel` with an EfficientNet), so that it is saved
and loaded as they are. Statistics are far from 0 and 1, and the counters differ: who mixes them up is found out.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["conv_clip", "conv_clip_config"]

_STEM, _TOP = 32, 1280
"""What an EfficientNet has at both ends before its width is applied; `hidden_dim` has to agree with the latter."""
_WIDTH = 0.05


def conv_clip_config(side: int = 8, **text: Any) -> Any:
    """The config; pictures are `side` wide, `text` are words of a CLIPTextConfig."""
    from transformers import CLIPTextConfig, EfficientNetConfig, VisionTextDualEncoderConfig

    top = int(_TOP * _WIDTH)
    width: dict[str, Any] = {"hidden_size": top}  # the projection asks for it under this name
    vision = EfficientNetConfig(
        image_size=side,
        width_coefficient=_WIDTH,
        depth_coefficient=1.0,
        depth_divisor=8,
        kernel_sizes=[3, 3],
        in_channels=[_STEM, 160],
        out_channels=[160, 160],
        depthwise_padding=[],
        strides=[1, 2],
        num_block_repeats=[1, 2],
        expand_ratios=[1, 2],
        squeeze_expansion_ratio=0.25,
        hidden_dim=top,
        dropout_rate=0.0,
        drop_connect_rate=0.0,
        **width,
    )
    small = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    words = CLIPTextConfig(**{**small, "vocab_size": 64, "max_position_embeddings": 12, **text})
    return VisionTextDualEncoderConfig.from_vision_text_configs(vision, words, projection_dim=3)


def conv_clip(seed: int = 0, side: int = 8, **text: Any) -> Any:
    """A model of random numbers, large enough that pictures differ."""
    from transformers import VisionTextDualEncoderModel

    draw = torch.Generator().manual_seed(seed)
    model: Any = VisionTextDualEncoderModel(conv_clip_config(side, **text))
    model.eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            noise = torch.randn(tensor.shape, generator=draw)
            if not tensor.is_floating_point():
                tensor.fill_(100 + seed)
            elif name.endswith("running_var"):
                tensor.copy_(noise.mul(0.3).exp())
            elif tensor.ndim > 1:
                fan = tensor[0].numel() if name.startswith("vision_model.") else 10
                tensor.copy_(noise * (2 / fan) ** 0.5)
            elif name.endswith("weight"):
                tensor.copy_(1 + 0.2 * noise)
            elif tensor.ndim:
                tensor.copy_(0.1 * noise)
    return model
