"""Labels: heads of classifiers merge where their outputs mean the same.

A head gives one number for each label, in the order of `id2label` in config.json. Two heads of one size whose labels
stand in another order, or are others, would merge without a word and mix classes up. A config that names none
(LABEL_0, LABEL_1) says nothing about it. No word of the recipe allows it, but heads that are not merged may differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from smelt.engine.plan.checks import left_out
from smelt.engine.pool import ModelPool
from smelt.errors import shortened
from smelt.formats.folder_files import read_config
from smelt.formats.source import Source
from smelt.recipe.patterns import skip_remedy
from smelt.recipe.schema import Recipe

__all__ = ["label_faults"]

_HEAD = re.compile(r"(^|\.)(classifier|score|classification_head|logits_proj)(\.|$)")
_UNNAMED = re.compile(r"LABEL_\d+")
_SHOWN = 6


def label_faults(recipe: Recipe, pool: ModelPool) -> list[str]:
    """A sentence for every model whose labels are not those of the first that names some."""
    known = {name: (_labels(source), source) for name, source in pool.all.items()}
    named = {name: (labels, source) for name, (labels, source) in known.items() if labels}
    if len(named) < 2:
        return []
    first, (ours, source) = next(iter(named.items()))
    faults = []
    for name, (theirs, _) in named.items():
        if theirs == ours or len(theirs) != len(ours):  # another size is told as another shape
            continue
        merged = [key for key in _head(source, len(ours)) if not left_out(recipe, key)]
        if merged:
            what = "in another order" if sorted(theirs) == sorted(ours) else "others"
            remedy = skip_remedy(merged[0], pool.reference_name, module=True)
            faults.append(
                f"the labels of {name} are {what}: {_shown(ours)} in {first} but {_shown(theirs)} in {name}, so "
                f"{merged[0]!r} means something else there; {remedy}"
            )
    return faults


def _labels(source: Source) -> list[str]:
    """The names of the labels of a model that has a head for them; none where its config names none."""
    table = (read_config(source.folder) or {}).get("id2label")
    if not isinstance(table, Mapping) or not all(str(place) in table for place in range(len(table))):
        return []
    names: list[Any] = [table[str(place)] for place in range(len(table))]
    if not all(isinstance(name, str) for name in names) or all(map(_UNNAMED.fullmatch, names)):
        return []
    return names if _head(source, len(names)) else []


def _head(source: Source, size: int) -> list[str]:
    """The tensors that give one number for each label."""
    return [
        name for name, info in source.tensors.items() if _HEAD.search(name) and info.shape and info.shape[0] == size
    ]


def _shown(labels: list[str]) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > _SHOWN else ""
    return ", ".join(shortened(label) for label in labels[:_SHOWN]) + more
