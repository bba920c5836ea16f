"""Adapters in and adapters out: the base that all of them name, what a whole model costs beside them, and their size.

A merge of adapters is a whole model unless `lora` says otherwise. Whoever merges adapters should know of both.
"""

from __future__ import annotations

from pathlib import Path

from smelt.caller import Blank, option, word
from smelt.engine.pool import ModelPool
from smelt.errors import RecipeError
from smelt.formats.lora.source import LoraSource
from smelt.models.references import base_of_adapter
from smelt.recipe.schema import Recipe

__all__ = ["adapter_notes", "adapter_size", "naming_of_output", "summed_rank", "with_adapters_base"]


def with_adapters_base(recipe: Recipe, relative_to: Path | None) -> Recipe:
    """A recipe that writes an adapter and names no base: that of its models, where all are adapters over one."""
    if recipe.lora is None and recipe.lora_format is not None:
        rank = option("lora", Blank("RANK"))
        raise RecipeError(f"lora_format: says how an adapter is written; give its rank too, by {rank}")
    if recipe.lora is None or recipe.pool.base is not None:
        return recipe
    bases = {base_of_adapter(ref, relative_to) for ref in recipe.pool.models.values()}
    base = bases.pop()
    if base is None or bases:
        return recipe
    noted = recipe.noting([*recipe.notes, f"the base is that of the adapters, {base}"])
    return noted.model_copy(update={"pool": recipe.pool.model_copy(update={"base": base})})


def naming_of_output(pool: ModelPool) -> str:
    """The layout of a merged adapter: that of the adapters, where all have one."""
    namings = {source.naming.lower() for source in pool.models.values() if isinstance(source, LoraSource)}
    return namings.pop() if len(namings) == 1 else "peft"


def summed_rank(pool: ModelPool) -> int | None:
    """The sum of the ranks, where all models are adapters: what holds any weighted sum of them without loss."""
    ranks = [source.rank if isinstance(source, LoraSource) else 0 for source in pool.models.values()]
    return sum(ranks) if all(ranks) else None


def adapter_notes(recipe: Recipe, pool: ModelPool) -> list[str]:
    """That a merge of adapters becomes a whole model, and how it becomes an adapter instead."""
    rank = summed_rank(pool)
    if recipe.lora is not None or rank is None:
        return []
    adapters = [source for source in pool.models.values() if isinstance(source, LoraSource)]
    small, large = (
        sum(source.adapter_bytes for source in adapters),
        sum(i.nbytes for i in pool.reference.tensors.values()),
    )
    names = ", ".join(pool.models)
    return [
        f"{names} {'is an adapter' if len(adapters) == 1 else 'are adapters'} of {small / 1e6:,.1f} MB together, and "
        f"this is a whole model of {large / 1e6:,.1f} MB; {word('lora', rank)} writes one adapter instead, of the rank "
        "that theirs sum to"
    ]


def adapter_size(folder: Path) -> tuple[int, int]:
    """How many tensors an adapter's folder holds, and the bytes of their file."""
    from smelt.formats.lora.adapter_file import adapter_weights
    from smelt.formats.safetensors import read_header

    file = adapter_weights(folder)
    return len(read_header(file).tensors), file.stat().st_size
