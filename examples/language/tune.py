"""Choosing a number on validation text: a small grid, merged in memory, never near the test text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

import smelt
from evaluate import Scores, bits_per_byte, mean_over_domains

__all__ = ["GRIDS", "Memory", "choose", "with_value"]

# recipe -> the parameter that is chosen (stage, name) and the values that are tried
GRIDS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "task_arithmetic": ("task_arithmetic", "scale", (0.1, 0.2, 0.3, 0.45)),
    "ties": ("ties", "scale", (0.35, 0.5, 0.7, 1.0)),
    "dare_ties": ("ties", "scale", (0.2, 0.35, 0.5, 0.75)),
    "tsv": ("tsv", "scale", (0.5, 0.75, 1.0, 1.3)),
    "lines": ("lines", "high", (0.2, 0.3, 0.4, 0.6)),
}


class Memory:
    """Scores by the hash of weights and text: equal weights are not read twice, also in a later run."""

    def __init__(self, file: Path):
        self._file = file
        self._known: dict[str, Scores] = json.loads(file.read_text()) if file.exists() else {}

    def scores(self, model: LlamaForCausalLM, texts: Mapping[str, Sequence[bytes]]) -> Scores:
        """Bits per byte of each document, computed or remembered."""
        key = hashlib.sha256()
        for name, tensor in sorted(model.state_dict().items()):
            key.update(name.encode() + tensor.numpy().tobytes())
        for documents in texts.values():
            key.update(b"".join(documents))
        if key.hexdigest() not in self._known:
            self._known[key.hexdigest()] = bits_per_byte(model, texts)
            self._file.write_text(json.dumps(self._known))
        return self._known[key.hexdigest()]


def choose(
    pipeline: Any,
    grid: tuple[str, str, tuple[float, ...]],
    models: Mapping[str, LlamaForCausalLM],
    base: LlamaForCausalLM,
    texts: Mapping[str, Sequence[bytes]],
    memory: Memory,
) -> tuple[float, dict[float, float]]:
    """The value whose merge has the fewest bits per byte on `texts`, and what every value gave."""
    stage, parameter, values = grid
    tried = {}
    for value in values:
        merged = smelt.merge(models, base=base, method=with_value(pipeline, stage, parameter, value))
        tried[value] = mean_over_domains(memory.scores(_filled(base, merged), texts))
    return min(tried, key=lambda value: tried[value]), tried


def with_value(pipeline: Any, stage: str, parameter: str, value: float) -> list[dict[str, Any]]:
    """The `merge:` of a recipe with one parameter of one stage changed."""
    calls = pipeline if isinstance(pipeline, list) else [pipeline]
    return [
        {name: {**given, parameter: value} if name == stage else given for name, given in call.items()}
        for call in calls
    ]


def _filled(like: LlamaForCausalLM, weights: Mapping[str, torch.Tensor]) -> LlamaForCausalLM:
    model = LlamaForCausalLM(like.config)
    model.load_state_dict(weights)
    return model.eval()
