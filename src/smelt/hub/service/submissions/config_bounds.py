"""The numbers of a config, held against bounds and against the weights that came with it, before a model is built.

A config of a few bytes can ask for a network of any size: layers cost memory even where they have no numbers yet. So
every number has a bound, lists are short, counts of layers have a sum, and a model whose config implies far more
tensors or parameters than its files hold is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smelt.formats.architecture.layer_limit import MOST_LAYERS, layers_in, tables_in
from smelt.hub.service.problems import Refused

if TYPE_CHECKING:
    from smelt.formats.source import TensorInfo

__all__ = ["check_numbers", "check_size"]

_LARGEST = 1_000_000
_LONGEST = 64
_SLACK = 4
"""How many times the parameters of the files a config may imply: what it implies is an estimate."""
_SIDES = ("image_size", "shortest_edge", "longest_edge", "height", "width", "size", "crop_size")
_BOUNDS = {**dict.fromkeys(_SIDES, 2048), "num_labels": 100_000, "num_hidden_layers": 512, "layers": 512}
_IDS = re.compile(r"vocab_size|(.*_)?token_id")
_FACTORS = re.compile(r".*(coefficient|multiplier|ratio|factor)s?")
"""Words that multiply others."""
_FREE = frozenset({"model_max_length"})
"""A tokenizer without a limit writes 10^30 here; nothing is made of that size."""


def check_numbers(name: str, content: Any, *, lists: bool = True) -> None:
    """Every number of a config, however deep; with `lists` also the lengths of lists."""
    for key, value in _walk(content):
        if isinstance(value, list):
            if lists and len(value) > _LONGEST:
                raise Refused(400, f"{name}: {key} has {len(value):,} entries, more than this hub takes ({_LONGEST})")
            continue
        most = _bound(key)
        if key not in _FREE and not abs(value) <= most:  # NaN, too
            raise Refused(400, f"{name}: {key} is {f'{value:,}'[:40]}, more than this hub takes ({most:,})")
    if (layers := layers_in(content)) > MOST_LAYERS:
        raise Refused(400, f"{name}: has {layers:,} layers, more than this hub takes ({MOST_LAYERS:,})")


def check_size(name: str, content: Any, tensors: Sequence[TensorInfo]) -> None:
    """Whether the tensors of the files can be all of the model that a config describes."""
    there, layers = sum(info.count for info in tensors), layers_in(content)
    if layers > len(tensors):
        raise Refused(400, f"{name}: has {layers:,} layers, but the weights only {len(tensors):,} tensors")
    needed = sum(_parameters(one) for one in tables_in(content))
    if needed > _SLACK * there:
        raise Refused(
            400, f"{name}: describes a model of {needed:,} parameters at the least, but the weights have {there:,}"
        )


def _bound(key: str) -> int:
    if key in _BOUNDS:
        return _BOUNDS[key]
    if _FACTORS.fullmatch(key):
        return _LONGEST
    return 10 * _LARGEST if _IDS.fullmatch(key) else _LARGEST


def _parameters(table: dict[str, Any]) -> int:
    """A lower bound for usual networks: d² for a layer of width d, d for one of a stage, and the tables of words."""

    def one(*keys: str) -> int:
        return next((value for key in keys if isinstance(value := table.get(key), int)), 0)

    width = one("hidden_size", "width", "d_model", "embed_dim")
    total = width * (width * one("num_hidden_layers", "layers", "num_layers"))
    total += width * (one("vocab_size") + one("max_position_embeddings", "context_length"))
    widths, depths = (table.get(key) for key in ("hidden_sizes", "depths"))
    if isinstance(widths, list):
        counts = depths if isinstance(depths, list) and len(depths) == len(widths) else [1] * len(widths)
        total += sum(a * b for a, b in zip(widths, counts, strict=True) if isinstance(a, int) and isinstance(b, int))
    return total


def _walk(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and list with the nearest word above it."""
    if isinstance(content, dict):
        for word, value in content.items():
            yield from _walk(value, str(word))
    elif isinstance(content, list):
        yield key, content
        for value in content:
            yield from _walk(value, key)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield key, content
