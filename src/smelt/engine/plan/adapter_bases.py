"""Whether the adapters of a pool stand over one base, which is what their changes are changes of.

In: an opened pool. Out: a sentence for every adapter over another model than the pool's base; as a fault where the
changes themselves are what is merged or written (`lora`, knots, core_space), else as a note, since an adapter over a
fine-tune of the base is a model like any other.
"""

from __future__ import annotations

from pathlib import Path

from smelt.files.hashing.remembered import file_hashes
from smelt.formats.lora.shared_base import SharedSource
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source
from smelt.methods import stages
from smelt.models.pool import BASE, ModelPool
from smelt.recipe.schema import Recipe

__all__ = ["base_faults"]


def base_faults(recipe: Recipe, pool: ModelPool) -> tuple[list[str], list[str]]:
    """Faults and notes."""
    adapters = {name: source for name, source in pool.models.items() if isinstance(source, LoraSource)}
    if not adapters:
        return [], []
    first = next(iter(adapters))
    name, reference = (BASE, pool.base) if pool.base is not None else (first, adapters[first].base)
    said = [
        f"{one} is an adapter over {source.base.label}, but {_called(name)} is {reference.label}"
        for one, source in adapters.items()
        if not _same(_root(source), _root(reference))
    ]
    if not said:
        return [], []
    low_rank = recipe.lora is not None or any(
        call.name in stages and stages[call.name].kind == "basis" for call in recipe.merge
    )
    if low_rank:
        return [
            f"{one}; adapters are merged as changes of one base, so give the base that all of them adapt"
            for one in said
        ], []
    return [], [f"{one}; its change holds the difference between the two as well" for one in said]


def _called(name: str) -> str:
    return "the base" if name == BASE else f"the base of {name}"


def _root(source: Source) -> Source:
    """What an adapter, or an adapter over an adapter, stands over in the end."""
    while isinstance(source, LoraSource | SharedSource):
        source = source.base if isinstance(source, LoraSource) else source.inner
    return source


def _same(one: Source, other: Source) -> bool:
    """The same files, or copies of them."""
    ours, theirs = ([Path(file).resolve() for file in source.files] for source in (one, other))
    if ours == theirs or not ours or not theirs:
        return True
    if sorted(p.stat().st_size for p in ours) != sorted(p.stat().st_size for p in theirs):
        return False
    return sorted(file_hashes(ours).values()) == sorted(file_hashes(theirs).values())
