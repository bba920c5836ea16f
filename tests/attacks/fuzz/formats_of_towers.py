"""Models that see and read, damaged where names, parts and grafts are worked out; encoder-decoders with copies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from fuzz.damage_files import json_file, safetensors
from fuzz.format import Format
from fuzz.sound_models import LLAMA, LLAMA_SHAPES
from safetensors.torch import load_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

_TOWER = {
    "visual.patch_embed.proj.weight": (4, 6),
    "visual.blocks.0.attn.qkv.weight": (12, 4),
    "visual.merger.mlp.0.weight": (4, 4),
}
_QWEN = {"vision_config": {"model_type": "qwen2_vl_vision", "depth": 1, "embed_dim": 4}, "image_token_id": 7}
_GRAFT = {"model.": "model.language_model.", "lm_head.": "lm_head."}


def _state(seed: int, older: bool = True) -> dict[str, torch.Tensor]:
    """A Qwen2-VL as transformers 4 or 5 names its tensors."""
    state = random_state(seed, LLAMA_SHAPES | _TOWER)
    if older:
        return state
    starts = {"model.": "model.language_model.", "visual.": "model.visual.", "lm_head.": "lm_head."}
    return {starts[start] + name.removeprefix(start): one for name, one in state.items() for start in starts
            if name.startswith(start)}  # fmt: skip


def _make(place: Path) -> None:
    """One with the words of its language model beside the others, one with a text_config; a model of texts."""
    own = {word: value for word, value in LLAMA.items() if word not in ("architectures", "model_type", "rope_scaling")}
    mrope = {"rope_scaling": {"type": "mrope", "mrope_section": [1]}}
    write_model(place / "old", _state(0), {**own, **mrope, **_QWEN, "model_type": "qwen2_vl"})
    text = {**own, **mrope, "model_type": "qwen2_vl_text"}
    write_model(place / "new", _state(1, older=False), {"text_config": text, **_QWEN, "model_type": "qwen2_vl"})
    write_model(place / "text", random_state(2, LLAMA_SHAPES), {**own, "model_type": "qwen2", "rope_scaling": None})
    pool = {"base": "old", "models": {"text": "text"}, "graft": {"text": _GRAFT}}
    (place / "graft.json").write_text(json.dumps({"pool": pool, "merge": "average", "config": "base"}))
    pool = {"base": "old", "models": {"text": "text"}, "graft": {"text": "language"}}
    recipe = {"pool": pool, "merge": "average", "config": "base", "skip": ["vision"]}
    (place / "by-name.json").write_text(json.dumps(recipe))


def _merge_names(place: Path, file: str) -> Mapping[str, torch.Tensor]:
    smelt.inspect(place / "old")
    return smelt.merge({"old": str(place / "old"), "new": str(place / "new")}, method="average", config="new")


def _mean_by_name(place: Path, merged: Mapping[str, torch.Tensor]) -> str | None:
    """What the files hold now, under the later names."""
    starts = {"visual.": "model.visual.", "model.": "model.language_model."}
    old, new = (load_file(place / name / "model.safetensors") for name in ("old", "new"))
    for name, tensor in old.items():
        start = next((one for one in starts if name.startswith(one)), "")
        now = name if name.startswith(("model.visual.", "model.language_model.")) else name.removeprefix(start)
        now = now if now == name else starts[start] + now
        wanted = (tensor.float() + new[now].float()) / 2
        if not torch.allclose(merged[now].float(), wanted, rtol=1e-2, atol=1e-4):
            return f"{now} is not the mean of both"
    return None


def _merge_part(place: Path, file: str) -> Mapping[str, torch.Tensor]:
    name = "new" if file.startswith("new") else "old"
    smelt.inspect(f"{place / name}#language")
    return smelt.merge({"one": f"{place / name}#language"}, method="average")


def _is_the_part(place: Path, merged: Mapping[str, torch.Tensor]) -> str | None:
    """Every tensor under `model.` is one that the file has, with the same numbers."""
    states = [load_file(place / name / "model.safetensors") for name in ("old", "new")]
    for name, tensor in merged.items():
        inner = name.replace("model.", "model.language_model.", 1)
        held = [state[one] for state in states for one in (name, inner) if one in state]
        if not any(one.shape == tensor.shape and torch.equal(one.float(), tensor.float()) for one in held):
            return f"{name} is in no file"
    return None


def _merge_graft(place: Path, file: str) -> Mapping[str, torch.Tensor]:
    return smelt.merge(place / ("by-name.json" if file == "by-name.json" else "graft.json"))


def _is_grafted(place: Path, merged: Mapping[str, torch.Tensor]) -> str | None:
    """The text model's numbers inside, the tower's outside, where the recipes are as they were."""
    for name in ("graft", "by-name"):
        try:
            recipe = json.loads((place / f"{name}.json").read_bytes())
        except (ValueError, RecursionError):
            return None
        graft = _GRAFT if name == "graft" else "language"
        pool = {"base": "old", "models": {"text": "text"}, "graft": {"text": graft}}
        known = {
            "pool": pool,
            "merge": "average",
            "config": "base",
            **({} if name == "graft" else {"skip": ["vision"]}),
        }
        if recipe != known:
            return None
    text, old = (load_file(place / name / "model.safetensors") for name in ("text", "old"))
    for name, tensor in text.items():
        inner = name.replace("model.", "model.language_model.", 1)
        if inner in merged and not torch.allclose(merged[inner].float(), tensor.float(), rtol=1e-2, atol=1e-4):
            return f"{inner} is not the text model's"
    for name, tensor in old.items():
        if name.startswith("visual.") and not torch.allclose(
            merged[f"model.{name}"].float(), tensor.float(), atol=1e-4
        ):
            return f"{name} is not the host's"
    return None


def _make_copies(place: Path) -> None:
    """Two encoder-decoders, one with a copy of its table for each part and for the head."""
    shapes = {"shared.weight": (8, 4), "encoder.block.0.layer.0.SelfAttention.q.weight": (4, 4)}
    shapes |= {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (4, 2)}
    config = {"model_type": "t5", "d_model": 4, "num_layers": 1, "vocab_size": 8, "is_encoder_decoder": True}
    for seed, name in enumerate(("plain", "copies")):
        state = random_state(seed, shapes)
        if name == "copies":
            for key in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
                state[key] = state["shared.weight"].clone()
        write_model(place / name, state, config)


def _merge_copies(place: Path, file: str) -> Mapping[str, torch.Tensor]:
    return smelt.merge({name: str(place / name) for name in ("plain", "copies")}, method="average", config="plain")


def _mean_of_copies(place: Path, merged: Mapping[str, torch.Tensor]) -> str | None:
    plain, copies = (load_file(place / name / "model.safetensors") for name in ("plain", "copies"))
    for name, tensor in plain.items():
        wanted = (tensor.float() + copies[name].float()) / 2
        if not torch.allclose(merged[name].float(), wanted, rtol=1e-2, atol=1e-4):
            return f"{name} is not the mean of both"
    return None


FORMATS = [
    Format(
        "older_names",
        _make,
        {"old/model.safetensors": safetensors, "new/model.safetensors": safetensors, "old/config.json": json_file},
        _merge_names,
        _mean_by_name,
    ),
    Format(
        "language_part",
        _make,
        {f"{name}/config.json": json_file for name in ("old", "new")} | {"old/model.safetensors": safetensors},
        _merge_part,
        _is_the_part,
    ),
    Format(
        "graft",
        _make,
        {"graft.json": json_file, "by-name.json": json_file, "text/config.json": json_file}
        | {"text/model.safetensors": safetensors, "old/config.json": json_file},
        _merge_graft,
        _is_grafted,
        share=2,
    ),
    Format(
        "encoder_decoder",
        _make_copies,
        {"copies/model.safetensors": safetensors, "copies/config.json": json_file},
        _merge_copies,
        _mean_of_copies,
    ),
]
