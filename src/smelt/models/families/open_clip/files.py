"""The files of an open_clip model in a folder: what it says of itself, where its weights are, how it prepares pictures.

open_clip_config.json        the towers (`model_cfg`) and the preparation of pictures (`preprocess_cfg`)
open_clip_model.safetensors  the weights; beside them may lie the same in other libraries' formats
tokenizer.json, ...          where the text tower is another library's
text_config.json             that text tower's config, where `open_clip:` put it (reference.py)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError
from smelt.files.reading import read_json_table
from smelt.models.families.preprocess import Preprocess

__all__ = ["CONFIG", "TEXT_CONFIG", "TOKENIZER", "find_weights", "preprocess_of", "read_model_config"]

CONFIG = "open_clip_config.json"
TEXT_CONFIG = "text_config.json"
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt",
)  # fmt: skip
"""The files that a tokenizer of transformers may lie in."""
_WEIGHTS = (
    "open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth", "model.safetensors", "pytorch_model.bin", "pytorch_model.pth", "model.pth",
)  # fmt: skip
"""In the library's own order of preference."""
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_RESAMPLE = {"nearest": 0, "bilinear": 2, "bicubic": 3, "random": 3}
"""Pillow's numbers."""


def find_weights(names: Collection[str]) -> str | None:
    """The file among these that open_clip would take the weights from; safetensors before pickles."""
    known = [name for name in _WEIGHTS if name in names]
    return next((name for name in known if name.endswith(".safetensors")), next(iter(known), None))


def read_model_config(folder: Path) -> dict[str, Any]:
    """`open_clip_config.json`, which has `model_cfg` with both towers."""
    content = read_json_table(folder / CONFIG)
    model = content.get("model_cfg")
    if not isinstance(model, dict) or not all(isinstance(model.get(word), dict) for word in ("vision_cfg", "text_cfg")):
        raise CorruptFile(f"{folder / CONFIG}: has no model_cfg with a vision_cfg and a text_cfg")
    return dict(content)


def preprocess_of(words: Mapping[str, Any], size: Any, label: str) -> Preprocess:
    """open_clip's preparation of pictures in Smelt's words; `size` is what the picture tower takes.

    `shortest` resizes the shorter side and crops the middle; `squash` makes the picture fit, whatever its shape.
    """
    height, width = (size, size) if isinstance(size, int) else map(int, size)
    mode, filter_name = words.get("resize_mode") or "shortest", words.get("interpolation") or "bicubic"
    if mode not in ("shortest", "squash") or filter_name not in _RESAMPLE or (mode == "shortest" and height != width):
        raise RecipeError(
            f"{label}: prepares pictures by resize_mode {mode!r} and interpolation {filter_name!r} for "
            f"{height}×{width}; shortest (square), squash, and nearest, bilinear or bicubic can be done"
        )
    return Preprocess(
        resize=height if mode == "shortest" else (height, width),
        crop=(height, width) if mode == "shortest" else None,
        resample=_RESAMPLE[filter_name],
        rescale=1 / 255,
        mean=tuple(map(float, words.get("mean") or _MEAN)),
        std=tuple(map(float, words.get("std") or _STD)),
    )
