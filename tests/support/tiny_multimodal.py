"""Models that see and read of a few thousand numbers, in the classes of transformers, under all names of their files.

`save_as_transformers_4` writes the beginnings of names that public checkpoints have; `save_pretrained` writes those of
the installed version.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

IMAGE = 63
WORDS = 64
TEXT = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rms_norm_eps": 1e-6,
}
_TOWER = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
    "num_channels": 3,
}
_QWEN = {"image_token_id": IMAGE, "video_token_id": 62, "vision_start_token_id": 61, "vision_end_token_id": 60}
_QWEN_TOWER = {"depth": 2, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}


def _rope(sections: list[int], **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "mrope_section": sections, "rope_theta": 10000.0, **more}}


CONFIGS: dict[str, dict[str, Any]] = {
    "llava": {
        "vision_config": {**_TOWER, "model_type": "clip_vision_model"},
        "text_config": {**TEXT, "model_type": "llama"},
        "image_token_id": IMAGE,
    },
    "llava_next": {
        "vision_config": {**_TOWER, "model_type": "clip_vision_model"},
        "text_config": {**TEXT, "model_type": "mistral", "sliding_window": None},
        "image_token_id": IMAGE,
        "image_grid_pinpoints": [[16, 32], [32, 16]],
    },
    "qwen2_vl": {
        "text_config": {**TEXT, "model_type": "qwen2_vl_text", "max_window_layers": 28, **_rope([1, 1, 2])},
        "vision_config": {**_QWEN_TOWER, "embed_dim": 16, "hidden_size": 16, "mlp_ratio": 2},
        **_QWEN,
    },
    "qwen2_5_vl": {
        "text_config": {**TEXT, "model_type": "qwen2_5_vl_text", **_rope([1, 1, 2])},
        "vision_config": {
            **_QWEN_TOWER, "hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 16, "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        **_QWEN,
    },
    "qwen3_vl": {
        "text_config": {**TEXT, "model_type": "qwen3_vl_text", **_rope([2, 1, 1], mrope_interleaved=True)},
        "vision_config": {
            **_QWEN_TOWER, "hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 16,
            "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        },
        **_QWEN,
    },
    "paligemma": {
        "vision_config": {**_TOWER, "model_type": "siglip_vision_model", "vision_use_head": False},
        "text_config": {**TEXT, "model_type": "gemma", "num_image_tokens": 4},
        "image_token_index": IMAGE,
        "projection_dim": 16,
        "hidden_size": 16,
    },
    "gemma3": {
        "vision_config": {**_TOWER, "model_type": "siglip_vision_model", "vision_use_head": False},
        "text_config": {**TEXT, "model_type": "gemma3_text", "sliding_window": 16, "query_pre_attn_scalar": 8},
        "image_token_index": IMAGE,
        "mm_tokens_per_image": 4,
    },
    "internvl": {
        "vision_config": {
            **_TOWER, "model_type": "internvl_vision", "image_size": [16, 16], "patch_size": [4, 4]
        },
        "text_config": {**TEXT, "model_type": "qwen2"},
        "image_token_id": IMAGE,
        "image_seq_length": 4,
    },
    "idefics2": {
        "vision_config": {**_TOWER, "model_type": "idefics2_vision"},
        "perceiver_config": {
            "model_type": "idefics2_perceiver", "resampler_n_latents": 2, "resampler_depth": 1, "hidden_size": 16,
            "resampler_n_heads": 2, "resampler_head_dim": 8, "num_key_value_heads": 1,
        },
        "text_config": {**TEXT, "model_type": "mistral"},
        "image_token_id": IMAGE,
    },
    "idefics3": {
        "vision_config": {**_TOWER, "model_type": "idefics3_vision"},
        "text_config": {**TEXT, "model_type": "llama"},
        "image_token_id": IMAGE,
        "scale_factor": 2,
    },
    "smolvlm": {
        "vision_config": {**_TOWER, "model_type": "smolvlm_vision"},
        "text_config": {**TEXT, "model_type": "llama"},
        "image_token_id": IMAGE,
        "scale_factor": 2,
    },
    "mllama": {
        "vision_config": {
            "model_type": "mllama_vision_model", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
            "num_global_layers": 1, "attention_heads": 2, "image_size": 16, "patch_size": 8, "vision_output_dim": 32,
            "intermediate_layers_indices": [0], "supported_aspect_ratios": [[1, 1], [1, 2]], "max_num_tiles": 2,
        },
        "text_config": {
            **TEXT, "model_type": "mllama_text_model", "num_hidden_layers": 3, "cross_attention_layers": [1],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "image_token_index": IMAGE,
    },
}  # fmt: skip
"""By `model_type`: the words of a small model's config."""

_TOWERS = {
    "lm_head.": "language_model.lm_head.",
    "model.language_model.": "language_model.model.",
    "model.vision_tower.": "vision_tower.vision_model.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "model.image_newline": "image_newline",
}
_QWEN_NAMES = {"model.language_model.": "model.", "model.visual.": "visual."}
OLDER_NAMES: dict[str, dict[str, str]] = {
    **dict.fromkeys(("llava", "llava_next", "paligemma", "gemma3"), _TOWERS),
    "internvl": {**_TOWERS, "model.vision_tower.": "vision_tower."},
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), _QWEN_NAMES),
    "mllama": {**_TOWERS, "model.vision_model.": "vision_model."},
}
"""In memory -> in files of transformers 4. Those that are missing here have had one form of names only."""


def multimodal(kind: str, seed: int = 0, **words: Any) -> Any:
    """A model with random numbers; `words` change its config."""
    import transformers

    config = transformers.CONFIG_MAPPING[kind].from_dict(copy.deepcopy({**CONFIGS[kind], **words}))
    torch.manual_seed(seed)
    model = transformers.AutoModelForImageTextToText.from_config(config).eval()
    if kind == "gemma3":  # which begins with a projector of zeros
        torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)
    return model


def save_as_transformers_4(model: Any, folder: Path) -> Path:
    """A folder as version 4 wrote it."""
    folder.mkdir(parents=True)
    older = OLDER_NAMES.get(model.config.model_type, {})
    state: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            start = next((now for now in older if name.startswith(now)), "")
            state[older.get(start, "") + name.removeprefix(start)] = tensor.contiguous()
        seen.add(tensor.data_ptr())
    # A tied head has its embedding's numbers, and is left out.
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
    return folder


def pixels(kind: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """One picture as the model of a kind takes it, by the words of its `forward`."""
    generator = torch.Generator().manual_seed(seed)
    if kind.startswith("qwen"):
        grid = torch.tensor([[1, 4, 4]])
        return {"pixel_values": torch.randn(16, 96, generator=generator), "image_grid_thw": grid}
    if kind == "llava_next":
        shown = torch.randn(1, 3, 3, 16, 16, generator=generator)
        return {"pixel_values": shown, "image_sizes": torch.tensor([[16, 32]])}
    if kind.startswith(("idefics", "smolvlm")):
        return {"pixel_values": torch.randn(1, 1, 3, 16, 16, generator=generator)}
    if kind == "mllama":
        return {
            "pixel_values": torch.randn(1, 1, 2, 3, 16, 16, generator=generator),
            "aspect_ratio_ids": torch.tensor([[1]]),
            "aspect_ratio_mask": torch.tensor([[[1, 0]]]),
        }
    return {"pixel_values": torch.randn(1, 3, 16, 16, generator=generator)}


PLACES = {"llava_next": 14, "idefics2": 2, "idefics3": 1, "smolvlm": 1, "mllama": 1}
"""How many placeholders that picture has; four for all others."""


def scores(model: Any, kind: str) -> torch.Tensor:
    """What a model says of one picture and a few words."""
    ids = torch.tensor([[1, *[IMAGE] * PLACES.get(kind, 4), 5, 9, 7]])
    words: dict[str, torch.Tensor] = pixels(kind)
    if kind.startswith("qwen"):
        words["mm_token_type_ids"] = (ids == IMAGE).long()
    if kind in ("paligemma", "gemma3"):
        words["token_type_ids"] = (ids == IMAGE).long() if kind == "gemma3" else torch.zeros_like(ids)
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **words).logits
    return found
