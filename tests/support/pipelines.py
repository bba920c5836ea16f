"""Small diffusion pipelines of the real classes with small configs, written by diffusers' own `save_pretrained`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    T5Config,
    T5EncoderModel,
    T5TokenizerFast,
)

KINDS = ("sd15", "sdxl", "sd3", "flux")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def make_pipeline(kind: str, seed: int, **changes: Any) -> Any:
    """A pipeline whose numbers follow from a seed."""
    torch.manual_seed(seed)
    return {"sd15": _sd15, "sdxl": _sdxl, "sd3": _sd3, "flux": _flux}[kind](**changes)


def write_pipeline(kind: str, seed: int, folder: Path, **changes: Any) -> Path:
    make_pipeline(kind, seed, **changes).save_pretrained(folder)
    return folder


def picture(pipeline: Any, kind: str, seed: int = 0) -> torch.Tensor:
    """What a pipeline draws for a prompt, as numbers."""
    pipeline.set_progress_bar_config(disable=True)
    sizes = {"output_type": "pt", "height": 16, "width": 16, "num_inference_steps": 2}
    generator = torch.Generator().manual_seed(seed)
    more = {"max_sequence_length": 8} if kind in ("sd3", "flux") else {}
    return pipeline("a cab", generator=generator, **sizes, **more).images


def _vae(**words: Any) -> AutoencoderKL:
    usual = {
        "block_out_channels": (8, 8),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "latent_channels": 4,
        "norm_num_groups": 2,
        "sample_size": 16,
    }
    return AutoencoderKL(**(usual | words))


def _clip_config(**words: Any) -> CLIPTextConfig:
    usual = {
        "vocab_size": 2 * len(_LETTERS) + 2,
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
        "projection_dim": 8,
        "bos_token_id": 52,
        "eos_token_id": 53,
        "pad_token_id": 53,
    }
    return CLIPTextConfig(**(usual | words))


def _clip_tokenizer() -> CLIPTokenizer:
    words = [*_LETTERS, *(f"{one}</w>" for one in _LETTERS), "<|startoftext|>", "<|endoftext|>"]
    vocab = {word: number for number, word in enumerate(words)}
    return CLIPTokenizer(vocab=vocab, merges=[], model_max_length=16)


def _t5_tokenizer() -> T5TokenizerFast:
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), *((one, -2.0) for one in _LETTERS)]
    return T5TokenizerFast(vocab=pieces, extra_ids=0, model_max_length=16)


def _t5() -> T5EncoderModel:
    sizes = {"vocab_size": 40, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5EncoderModel(T5Config(**sizes)).eval()


def _sd15(vae: dict[str, Any] | None = None, width: int = 8, text: dict[str, Any] | None = None) -> Any:
    unet = UNet2DConditionModel(
        block_out_channels=(width, width),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=8,
        attention_head_dim=2,
        norm_num_groups=2,
        sample_size=8,
    )
    return StableDiffusionPipeline(
        vae=_vae(**(vae or {})),
        text_encoder=CLIPTextModel(_clip_config(**(text or {}))).eval(),
        tokenizer=_clip_tokenizer(),
        unet=unet,
        scheduler=DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _sdxl() -> Any:
    unet = UNet2DConditionModel(
        block_out_channels=(8, 8),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=2,
        norm_num_groups=2,
        sample_size=8,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=4,
        projection_class_embeddings_input_dim=8 + 6 * 4,
    )
    return StableDiffusionXLPipeline(
        vae=_vae(),
        text_encoder=CLIPTextModel(_clip_config()).eval(),
        text_encoder_2=CLIPTextModelWithProjection(_clip_config()).eval(),
        tokenizer=_clip_tokenizer(),
        tokenizer_2=_clip_tokenizer(),
        unet=unet,
        scheduler=DDIMScheduler(steps_offset=1, clip_sample=False),
        add_watermarker=False,
    )


def _sd3() -> Any:
    transformer = SD3Transformer2DModel(
        sample_size=8,
        patch_size=1,
        in_channels=4,
        num_layers=2,
        attention_head_dim=4,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=8,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=8,
    )
    return StableDiffusion3Pipeline(
        transformer=transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=_vae(shift_factor=0.06, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=CLIPTextModelWithProjection(_clip_config()).eval(),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=CLIPTextModelWithProjection(_clip_config()).eval(),
        tokenizer_2=_clip_tokenizer(),
        text_encoder_3=_t5_wide(),
        tokenizer_3=_t5_tokenizer(),
    )


def _t5_wide() -> T5EncoderModel:
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5EncoderModel(T5Config(**sizes)).eval()


def _flux() -> Any:
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=2,
        num_single_layers=3,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=8,
        pooled_projection_dim=8,
        axes_dims_rope=(2, 2, 4),
    )
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=_vae(shift_factor=0.1, use_quant_conv=False, use_post_quant_conv=False),
        text_encoder=CLIPTextModel(_clip_config()).eval(),
        tokenizer=_clip_tokenizer(),
        text_encoder_2=_t5(),
        tokenizer_2=_t5_tokenizer(),
        transformer=transformer,
    )


def component_states(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    """The stored tensors of every component with weights, as the files have them."""
    from safetensors.torch import load_file

    found: dict[str, dict[str, torch.Tensor]] = {}
    for path in sorted(folder.glob("*/*.safetensors")):
        found.setdefault(path.parent.name, {}).update(load_file(path))
    return found


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
