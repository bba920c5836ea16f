"""What the units of all kinds share. A unit is a pure piece of work: plain data in, a UnitResult out.

What a process keeps between two units are pictures, which change no number.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from smelt.evaluation.row import CostRow, Row, code_version, now
from smelt.system.threads import torch_threads
from smelt.tasks.pictures.data_cache import DataCache

if TYPE_CHECKING:
    from smelt.recipe.schema import Recipe

__all__ = [
    "UnitResult",
    "cost_row",
    "digest",
    "recipe_words",
    "setting_of",
    "shared_data",
    "unit_result",
    "with_threads",
]

UnitResult: TypeAlias = dict[str, Any]
"""`rows`; `analyses` by the names of their files; `failures`, the errors of single tasks as plain data."""

_DATA = DataCache()


def shared_data() -> DataCache:
    """The pictures that this process keeps: the next unit that it computes asks for the same ones."""
    return _DATA


def unit_result(
    rows: Sequence[Row | CostRow],
    analyses: Mapping[str, Any] | None = None,
    failures: Mapping[str, Any] | None = None,
) -> UnitResult:
    """What a unit returns."""
    plain = [row.model_dump(mode="json") for row in rows]
    return {"rows": plain, "analyses": dict(analyses or {}), "failures": dict(failures or {})}


def with_threads(unit: Callable[..., UnitResult]) -> Callable[..., UnitResult]:
    """The unit, computed with as many cores as its `ask` says."""

    @functools.wraps(unit)
    def run(**words: Any) -> UnitResult:
        with torch_threads(words["ask"]["threads"]):
            return unit(**words)

    return run


def recipe_words(recipe: Recipe) -> dict[str, Any]:
    """What a row says of the recipe that made its model."""
    words = {"recipe": recipe.dump(), "recipe_hash": recipe.hash, "seed": recipe.seed}
    return {**words, "setting": setting_of(recipe)}


def setting_of(recipe: Recipe) -> dict[str, Any]:
    """The parameters that the recipe writes down: of one stage as they are, of several under the stage's name."""
    if len(recipe.merge) == 1:
        return dict(recipe.merge[0].parameters)
    return {call.name: dict(call.parameters) for call in recipe.merge}


def cost_row(about: Row | Mapping[str, Any], *, device: str, threads: int | None = None, **numbers: Any) -> CostRow:
    """What something took, called as a row of its accuracy is."""
    import torch

    words = about.model_dump() if isinstance(about, Row) else about
    same = {word: words[word] for word in ("suite", "entry", "variant", "setting", "part", "command")}
    known: dict[str, Any] = {"merge_seconds": 0.0, "peak_bytes": 0, **numbers}
    cores = threads or torch.get_num_threads()
    return CostRow(**same, **known, threads=cores, device=device, code=code_version(), when=now())


def digest(*content: Any) -> str:
    """A hash over plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
