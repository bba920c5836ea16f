"""The keywords of `smelt.merge`, `plan`, `learn` and `mix`, for editors and type checkers. Checked at run time by the
recipe (`recipe/schema.py`) and by each stage's own parameters; a test holds that both lists are complete.

A method of a plug-in takes its parameters as a pair: `method=("mine", {"strength": 2})`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

__all__ = ["MergeWords", "Number", "RecipeWords", "RunWords"]

Number: TypeAlias = float | Sequence[Any] | Mapping[str, Any]
"""A number, or one that varies: by depth, by name of tensor, by model."""


class RecipeWords(TypedDict, total=False):
    """Words of the recipe beside `pool` and `merge`."""

    data: Any
    statistics: Mapping[str, Any]
    looked_at: Any
    tune: Any
    select: Any
    parts: Sequence[Any]
    slices: Sequence[Any] | None
    dtype: str | None
    seed: int
    include: str | Sequence[str]
    skip: str | Sequence[str]
    missing: Literal["refuse", "base"]
    routers: str
    align_experts: bool
    vocab: str
    tokens: Mapping[str, Any]
    pad_vocab_to: int | None
    config: str | Path | None
    chat_template: str | None
    shard_size: str | int
    lora: int | None
    lora_format: Literal["peft", "kohya", "diffusers"] | None
    allow_pickle: bool


class MergeWords(RecipeWords, total=False):
    """Words of the recipe, and parameters of every method that Smelt ships."""

    agree: int
    alpha: Number
    around: Literal["origin", "base"]
    balance: Literal["none", "norm"]
    batch: int
    clamp: bool
    common: Number
    delta_dtype: Literal["float32", "bfloat16", "float16"]
    deltas: Literal["memory", "disk"]
    density: Number
    elect: Literal["mass", "count"]
    epsilon: Number
    equal_below: Number
    floor: Number
    high: Number
    init: Number
    iterations: int
    l1: Number
    level: Literal["task", "layer", "tensor"]
    limit: Number
    loss: Literal["entropy", "labels"]
    low: Number
    lr: Number
    merge: Literal["mean", "sum", "max"]
    normalize: bool
    over: Literal["tensor", "row", "column"]
    patience: int | None
    r: Number
    rank: int | None
    reduction: Number
    rescale: Literal["density", "probability", "l1", "none"]
    ridge: Number
    routed: str | None
    scale: Number
    solver: Literal["spectral", "adam"]
    step_by: Literal["auto", "model", "block"]
    steps: int
    t: Number
    task: str | None
    threshold: Number
    tie: Literal["base", "positive"]
    time: Number
    tolerance: Number
    top: Number | None
    trim: Literal["model", "tensor"]
    weights: Number
    window: Number


class RunWords(TypedDict, total=False):
    """How and where a merge runs; no words of a recipe."""

    threads: int | None
    memory: int | str | None
    device: str
    data_device: str | None
    executor: Any
    workers: int | None
    resume: bool
    force: bool
    stream: bool
    quiet: bool
    trust_remote_code: bool
