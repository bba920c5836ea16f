"""About how long a model is asked on one GPU with 80 GB, from its size and from what is known of public tests.

    pictures    n * max(2 P t / F, 1 / D)       P the numbers of the picture tower, t its tokens for one picture
    texts       n * r * 2 P p / G               r requests of p tokens for one example
                + n * 2 P w / (B M)             w tokens are written, B examples at once, M bytes of weights a second

F, G and M are round numbers from one measurement on an H200 (results/evaluation_speed.json), G and M less for a card of
80 GB; D and B are guesses. The estimate is for planning an afternoon: it may be off by a factor of two or three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files as package_files
from typing import Any

from smelt.errors import SmeltError
from smelt.files.yaml_reader import parse_yaml
from smelt.formats.source import Source
from smelt.tasks.registry import find_tasks
from smelt.tasks.task import Task

__all__ = ["asking_seconds", "known_tests"]

PICTURE_OPERATIONS = 40e12
"""A second, in float32 (with TF32 off) as Smelt evaluates by default."""
PICTURES = 1500.0
"""A second: decoding and resizing on eight cores."""
TEXT_OPERATIONS = 330e12
"""A second, in bfloat16, of prompts that are read."""
WEIGHT_BYTES = 0.2e12
"""A second, while one token after another is written: transformers' loop, not the memory, is what takes the time."""
AT_ONCE = 32
"""Examples whose answers are written together."""
_TOWERS = ("vision_model.", "visual.", "vision_tower.", "model.vision_tower.")
_POSITIONS = ("position_embedding.weight", "visual.positional_embedding")


@cache
def known_tests() -> Mapping[str, list[int]]:
    """By a task's name: examples, requests for each, tokens of one, tokens that are written."""
    file = package_files("smelt.suites.needs").joinpath("known_tests.yaml")
    content: dict[str, Any] = parse_yaml(file.read_text(encoding="utf-8"), file.name)
    return content["tests"]  # type: ignore[no-any-return]


def asking_seconds(
    model: Source, tasks: Iterable[str], limit: int | None, *, split: str = "test"
) -> tuple[float, list[str]]:
    """Of one model on a split of all of these tasks, and the tasks whose size is not known."""
    total, unknown = 0.0, []
    for word in tasks:
        seconds = _seconds(model, word, limit, split)
        if seconds is None:
            unknown.append(word)
        else:
            total += seconds
    return total, unknown


def _seconds(model: Source, word: str, limit: int | None, split: str) -> float | None:
    try:
        found: list[Task] = find_tasks([word])
    except SmeltError:
        return None
    total = 0.0
    for task in found:
        known = known_tests().get(task.name.partition("@")[0].partition("#")[0])
        n = known[0] if known else limit if task.data_sets() or not task.splits else task.count(split)
        if n is None:
            return None
        n = n if limit is None else min(n, limit)
        if task.model_kind == "classifier":
            total += n * max(_picture_operations(model) / PICTURE_OPERATIONS, 1 / PICTURES)
        else:
            _, requests, prompt, written = known or (n, 1, 500, 32)
            size = sum(info.count for info in model.tensors.values())
            total += n * requests * 2 * size * prompt / TEXT_OPERATIONS
            total += n * 2 * size * written / (AT_ONCE * WEIGHT_BYTES)
    return total


def _picture_operations(model: Source) -> float:
    """Of one picture: twice the numbers of the tower for each of its tokens; without tokens, of a ResNet's kind."""
    tower = {key: info for key, info in model.tensors.items() if key.startswith(_TOWERS)} or model.tensors
    size = sum(info.count for info in tower.values())
    tokens = [info.shape[0] for key, info in tower.items() if key.endswith(_POSITIONS) and len(info.shape) == 2]
    return 2.0 * size * (tokens[0] if tokens else 150)
