"""The pico LLaVA in the layout of LLaVA's own training code: a fine-tune, the first stage's projector, the tower.

The numbers are those of `smelt.testing.pico_llava` with a vocabulary without `<image>` and `<pad>`, which that layout
does not have. The vision tower is in none of the checkpoints: `mm_vision_tower` names it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from smelt.testing.pico_llava import PICTURES, llava, llava_tokenizer

__all__ = ["WORDS", "own_config", "own_state", "save_language", "save_own_llava", "save_projector", "save_tower"]

_SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = len(_SPECIAL) + 256 + 6
_PARTS = {
    "model.language_model.": "model.",
    "model.multi_modal_projector.linear_1.": "model.mm_projector.0.",
    "model.multi_modal_projector.linear_2.": "model.mm_projector.2.",
    "lm_head.": "lm_head.",
}


def own_state(seed: int = 0, *, change: float = 0.0, **other: Any) -> dict[str, torch.Tensor]:
    """The tensors of a fine-tune under LLaVA's own names, without the tower."""
    state = llava(seed, change=change, vocab_size=WORDS, **other).state_dict()
    return {
        now + name.removeprefix(older): tensor.clone().contiguous()
        for name, tensor in state.items()
        for older, now in _PARTS.items()
        if name.startswith(older)
    }


def own_config(tower: str, *, model_type: str = "llava_llama", **other: Any) -> dict[str, Any]:
    """The config.json: a Llama's, with `mm_` words."""
    text = llava(vocab_size=WORDS, **other).config.text_config.to_dict()
    kept = "hidden_act hidden_size initializer_range intermediate_size max_position_embeddings num_attention_heads"
    kept += " num_hidden_layers num_key_value_heads rms_norm_eps vocab_size bos_token_id eos_token_id"
    return {
        "_name_or_path": "lmsys/vicuna-7b-v1.5",
        "architectures": ["LlavaLlamaForCausalLM"],
        "model_type": model_type,
        **{word: text[word] for word in kept.split()},
        "freeze_mm_mlp_adapter": False,
        "image_aspect_ratio": "pad",
        "mm_hidden_size": 8,
        "mm_projector_type": "mlp2x_gelu",
        "mm_use_im_patch_token": False,
        "mm_use_im_start_end": False,
        "mm_vision_select_feature": "patch",
        "mm_vision_select_layer": -2,
        "mm_vision_tower": tower,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "use_cache": True,
        "use_mm_proj": True,
    }


def save_own_llava(
    folder: Path,
    tower: str,
    seed: int = 0,
    *,
    change: float = 0.0,
    shards: int = 2,
    pickled: bool = False,
    **other: Any,
) -> Path:
    """A fine-tune as LLaVA's training code leaves it: shards with an index, safetensors or pickles."""
    config = {"model_type": other.pop("model_type", "llava_llama")}
    save_shards(folder, own_state(seed, change=change, **other), shards, pickled=pickled)
    _write(folder / "config.json", own_config(tower, **config, **other))
    _save_tokenizer(folder)
    return folder


def save_projector(folder: Path, tower: str, seed: int = 0, **other: Any) -> Path:
    """What the first stage leaves: `mm_projector.bin` and a config."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor for name, tensor in own_state(seed, **other).items() if "mm_projector" in name}
    torch.save(state, folder / "mm_projector.bin")
    _write(folder / "config.json", own_config(tower, model_type="llava", **other))
    return folder


def save_language(folder: Path, seed: int = 0, *, pickled: bool = False, **other: Any) -> Path:
    """The language model alone, a Llama, as before the first stage."""
    state = {name: tensor for name, tensor in own_state(seed, **other).items() if "mm_projector" not in name}
    save_shards(folder, state, 2, pickled=pickled)
    words = {word: value for word, value in own_config("", **other).items() if not word.startswith(("mm_", "freeze_"))}
    left = {word: value for word, value in words.items() if word not in ("image_aspect_ratio", "use_mm_proj")}
    _write(folder / "config.json", {**left, "architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    _save_tokenizer(folder)
    return folder


def save_tower(folder: Path, seed: int = 0, *, pickled: bool = False) -> Path:
    """The CLIP that the tower is of, whole: a text tower and projections beside it, as its repository has them."""
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig

    own = llava(seed, vocab_size=WORDS)
    size: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
    config = CLIPConfig(
        text_config=CLIPTextConfig(vocab_size=16, max_position_embeddings=8, projection_dim=3, **size).to_dict(),
        vision_config=own.config.vision_config.to_dict(),
        projection_dim=3,
    )
    model: Any = CLIPModel(config)
    model.vision_model.load_state_dict(_vision(own))
    model.save_pretrained(folder)
    if pickled:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    _write(folder / "preprocessor_config.json", PICTURES)
    return folder


def save_shards(folder: Path, state: dict[str, torch.Tensor], shards: int, *, pickled: bool = False) -> None:
    """Tensors in several files of the public names, with their index."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, end = ("pytorch_model", "bin") if pickled else ("model", "safetensors")
    names: Sequence[str] = list(state)
    size = -(-len(names) // shards)
    places: dict[str, str] = {}
    for number in range(shards):
        file = f"{stem}-{number + 1:05d}-of-{shards:05d}.{end}"
        some = {name: state[name] for name in names[number * size : (number + 1) * size]}
        if pickled:
            torch.save(some, folder / file)
        else:
            from safetensors.torch import save_file

            save_file(some, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(some, file)
    total = sum(tensor.nbytes for tensor in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    _write(folder / f"{stem}.{end}.index.json", index)


def _vision(own: Any) -> dict[str, torch.Tensor]:
    prefix = "model.vision_tower."
    found = {name.removeprefix(prefix): one for name, one in own.state_dict().items() if name.startswith(prefix)}
    return {name.removeprefix("vision_model."): one for name, one in found.items()}


def _save_tokenizer(folder: Path) -> None:
    tokenizer = llava_tokenizer(_SPECIAL)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2))
