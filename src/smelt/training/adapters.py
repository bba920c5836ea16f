"""LoRA adapters by peft: which layers get one, and what is written of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import MissingExtra, RecipeError
from smelt.files.reading import read_json_table
from smelt.training.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import nn

__all__ = ["save_adapter", "with_adapters"]


def with_adapters(module: Any, recipe: TrainingRecipe, trained: Callable[[str], bool], base: str, label: str) -> Any:
    """The module with factors in its linear layers, which alone require gradients; changed in place."""
    try:
        import peft
    except ImportError:
        raise MissingExtra("LoRA needs peft: pip install 'smelt[finetune]'") from None
    import torch

    layers = _layers(module, recipe, trained, label)
    config = peft.LoraConfig(
        r=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha or 2 * recipe.lora.rank,  # type: ignore[arg-type]  # it need not be whole
        lora_dropout=recipe.lora.dropout,
        target_modules=_target(module, layers),
        task_type="CAUSAL_LM" if recipe.kind == "causal_lm" else None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        wrapped = peft.get_peft_model(module, config)
    for tensor in wrapped.parameters():
        if tensor.requires_grad:
            tensor.data = tensor.data.float()
    wrapped.peft_config["default"].base_model_name_or_path = base.removeprefix("hf:").partition("@")[0]
    return wrapped


def save_adapter(wrapped: Any, folder: Path) -> None:
    """`adapter_config.json` and `adapter_model.safetensors`, the same bytes every time."""
    config = wrapped.peft_config["default"]
    config.inference_mode = True
    wrapped.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    said = read_json_table(path)
    if isinstance(said["target_modules"], list):
        said["target_modules"].sort()
    path.write_text(json.dumps(said, indent=2, sort_keys=True) + "\n")


def _layers(module: nn.Module, recipe: TrainingRecipe, trained: Callable[[str], bool], label: str) -> list[str]:
    from torch import nn

    head = getattr(module, "get_output_embeddings", lambda: None)()
    linear = [
        name
        for name, one in module.named_modules()
        if isinstance(one, nn.Linear) and one is not head and trained(f"{name}.weight")
    ]
    wanted = recipe.lora.layers
    strange = [word for word in wanted if not any(_last(name) == word for name in linear)]
    if strange:
        there = ", ".join(sorted({_last(name) for name in linear}))
        raise RecipeError(f"lora.layers: {label} has no linear layer {strange[0]!r} to train; it has: {there}")
    found = [name for name in linear if not wanted or _last(name) in wanted]
    if not found:
        raise RecipeError(f"{label}: has no linear layer among the trained tensors, so that LoRA has nothing to do")
    return found


def _target(module: nn.Module, layers: list[str]) -> list[str] | str:
    """Last words of names where these mean the layers and no others, as most tools expect it; else a pattern."""
    words = sorted({_last(name) for name in layers})
    if {name for name, _ in module.named_modules() if _last(name) in words} == set(layers):
        return words
    return "|".join(sorted({_numbered(name) for name in layers}))


def _numbered(name: str) -> str:
    """A name as a pattern, any number in the place of a block's."""
    return r"\.".join(r"\d+" if part.isdecimal() else re.escape(part) for part in name.split("."))


def _last(name: str) -> str:
    return name.rpartition(".")[2]
