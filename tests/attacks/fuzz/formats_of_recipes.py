"""Formats of recipes: Smelt's own, mergekit's, FusionBench's configs, pools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from fuzz.damage_files import json_file, yaml_file
from fuzz.format import Format
from fuzz.sound_models import make_llamas, make_plain

import smelt

__all__ = ["FORMATS"]

RECIPES: dict[str, Any] = {
    "plain": {
        "pool": {"base": "base", "models": {"cars": "cars", "birds": "birds"}},
        "merge": [{"dare": {"density": 0.5}}, {"ties": {"density": 0.2, "weights": {"cars": 1.0, "birds": 0.5}}}],
        "dtype": "float16",
        "seed": 7,
        "skip": ["model.norm.*"],
        "include": ["model.*"],
        "shard_size": "1GB",
        "vocab": "base",
        "tokens": {"a": {"source": "cars", "force": True}},
    },
    "varied": {
        "pool": {"models": ["cars", "birds"]},
        "merge": {"slerp": {"t": [{"filter": "*.mlp.*", "value": [0, 0.5, 1]}, {"value": 0.5}]}},
        "pad_vocab_to": 4,
        "vocab": "union",
        "chat_template": "auto",
    },
    "sliced": {
        "pool": {"models": {"cars": "cars", "birds": "birds"}},
        "merge": "passthrough",
        "slices": [{"models": {"cars": [0, 1]}}, {"models": {"birds": [0, 1]}, "merge": "passthrough"}],
        "parts": [
            {"keys": "lm_head.*", "models": ["cars"]},
            {"keys": ["model.embed*", "model.norm.*"], "models": ["cars"]},
        ],
    },
}
MERGEKIT: dict[str, Any] = {
    "ties": {
        "merge_method": "ties",
        "base_model": "./base",
        "models": [
            {"model": "./cars", "parameters": {"weight": 0.3, "density": [0.2, 0.8]}},
            {
                "model": {"model": {"path": "./birds"}},
                "parameters": {"weight": [{"filter": "mlp", "value": 1}, {"value": 0.5}]},
            },
        ],
        "parameters": {"normalize": True, "int8_mask": True},
        "dtype": "bfloat16",
        "tokenizer": {"source": "union", "tokens": {"a": {"source": "./cars", "force": True}}},
    },
    "slerp": {
        "merge_method": "slerp",
        "base_model": "./cars",
        "slices": [
            {"sources": [{"model": "./cars", "layer_range": [0, 1]}, {"model": "./birds", "layer_range": [0, 1]}]},
        ],
        "parameters": {"t": [{"filter": "self_attn", "value": [0, 0.5, 0.3]}, {"value": 0.5}]},
        "out_dtype": "float32",
        "tokenizer_source": "base",
        "chat_template": "chatml",
    },
    "passthrough": {
        "merge_method": "passthrough",
        "slices": [
            {"sources": [{"model": "./cars", "layer_range": [0, 1], "parameters": {"scale": 0.5}}]},
            {"sources": [{"model": "./birds", "layer_range": [0, 1]}]},
        ],
    },
}


def _write_yaml(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def _make_recipes(place: Path) -> None:
    make_llamas(place)
    for name, content in {**RECIPES, **MERGEKIT}.items():
        _write_yaml(place / f"{name}.yaml", content)


def _merge(place: Path, file: str) -> Any:
    """What a recipe says is planned and carried out."""
    return smelt.plan(place / file), smelt.merge(place / file)


def _make_pool(place: Path) -> None:
    make_plain(place)
    _write_yaml(place / "pool.yaml", {"base": "base", "models": {"cars": "cars", "birds": "dir:birds"}})


# ---- FusionBench


def _make_configs(place: Path) -> None:
    _make_pool(place)
    pool = {"base": str(place / "base"), "models": {name: str(place / name) for name in ("cars", "birds")}}
    parts = {
        "modelpool": {"type": "huggingface_clip_vision", **pool, "missing": "refuse"},
        "taskpool": {"type": "clip_vit_classification", "tasks": ["photos"], "clip_model": "base", "split": "test"},
        "method": {
            "name": "ties_merging",
            "scaling_factor": 0.3,
            "threshold": 20,
            "remove_keys": [],
            "merge_func": "sum",
        },
    }
    for group, content in parts.items():
        _write_yaml(place / f"configs/{group}/mine.yaml", content)
    top = {"save_report": None, "output": None, "dry_run": True, "seed": 0, "dtype": None, "device": "cpu", "limit": 5}
    (place / "composed.json").write_text(json.dumps({**parts, **top}))


def _compose(place: Path, file: str) -> Any:
    words = ("method=mine", "modelpool=mine", "taskpool=mine", "dry_run=true")
    return smelt.run(*words, config_dir=place / "configs")


def _read_experiment(place: Path, file: str) -> Any:
    """The same from a table that is composed already: Hydra takes most of a second for each."""
    from smelt.compat.fusionbench.reader import read_experiment

    try:
        table = json.loads((place / "composed.json").read_bytes())
    except (ValueError, RecursionError):
        raise smelt.RecipeError("no table") from None
    if not isinstance(table, dict):
        raise smelt.RecipeError("no table")
    return read_experiment(table)


FORMATS = [
    Format("recipe", _make_recipes, {f"{name}.yaml": yaml_file for name in RECIPES}, _merge, share=3),
    Format("mergekit", _make_recipes, {f"{name}.yaml": yaml_file for name in MERGEKIT}, _merge, share=3),
    Format("fusionbench", _make_configs, {"composed.json": json_file}, _read_experiment),
    Format(
        "hydra",
        _make_configs,
        {f"configs/{group}/mine.yaml": yaml_file for group in ("modelpool", "taskpool", "method")},
        _compose,
        share=0.05,
    ),
    Format("pool", _make_pool, {"pool.yaml": yaml_file}, lambda place, file: smelt.check_models(place / "pool.yaml")),
]
