"""A merge that is ready to run: the pool aligned (vocabulary, tied weights), planned, and its small files known.

In: a recipe and an opened pool. Out: `ReadyMerge`, or every fault that headers and configs show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smelt.caller import Blank, word
from smelt.engine.adapter_output import adapter_notes
from smelt.engine.plan.aligned_pool import align
from smelt.engine.plan.block_values import with_block_values
from smelt.engine.plan.build import make_plan
from smelt.engine.plan.causes import with_causes
from smelt.engine.plan.checks import base_faults, leave_frozen, leave_unmerged
from smelt.engine.plan.expert_matching import align_experts
from smelt.engine.plan.labels import label_faults
from smelt.engine.plan.ready_merge import ReadyMerge
from smelt.engine.pool import ModelPool
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.formats.folder_files import (
    component_configs,
    config_differences,
    files_beside,
    read_config,
)
from smelt.formats.sentence_transformers.settings import module_settings
from smelt.formats.source import Source
from smelt.recipe.schema import Recipe
from smelt.system.process import gc_paused

__all__ = ["config_faults", "make_ready"]


@gc_paused()
def make_ready(recipe: Recipe, pool: ModelPool, *, headers_only: bool = False) -> ReadyMerge:
    """Check, align and plan; raises with every fault that headers and configs show.

    Experts are matched last, since that reads the weights; with `headers_only` they are not, and a note says so.
    """
    config_from = recipe.config or pool.host or pool.reference_name
    if config_from not in pool.all:
        raise RecipeError(f"config: {unknown('model', config_from, pool.all)}")
    faults, over = base_faults(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    without, faults = leave_frozen(leave_unmerged(recipe, pool), pool)
    if faults:
        raise IncompatibleModels(faults)
    without, by_block = with_block_values(without, pool.reference)
    with with_causes(pool):
        alignment = align(recipe, pool)
        # An adapter's factors are taken from unrounded changes.
        unrounded = without.model_copy(update={"dtype": "float32"}) if recipe.lora else without
        plan = replace(make_plan(unrounded, alignment.pool, recipe), recipe=recipe)
    faults = [*label_faults(recipe, pool), *config_faults(recipe, pool)]
    if faults:
        raise IncompatibleModels(faults)
    if recipe.align_experts:
        aligned, moved = align_experts(recipe, alignment.pool, headers_only=headers_only)
        alignment = replace(alignment, pool=aligned, notes=(*alignment.notes, *moved))
        plan = replace(make_plan(unrounded, aligned, recipe), recipe=recipe)
    ready = ReadyMerge(plan, alignment.pool, alignment, config_from)
    return ready.noting(
        [*by_block, *over, *alignment.notes, *adapter_notes(recipe, pool), *_beside(recipe, pool, config_from)]
    )


def _beside(recipe: Recipe, pool: ModelPool, config_from: str) -> list[str]:
    """What becomes of the files beside the weights; an adapter has none of them."""
    merged = [file for source in pool.all.values() for file in source.files]
    return [] if recipe.lora else files_beside(pool.all[config_from].folder, merged).notes(config_from)


def _configs(source: Source) -> dict[str, Mapping[str, Any] | None]:
    """What says what a model is: its config.json, that of each of its components, and what it says of its modules.

    The config of a component whose tensors have no prefix counts as the model's own, wherever it lies.
    """
    places = {prefix: f"{one.place if prefix else ''}config.json" for prefix, one in source.components.items()}
    known: dict[str, Mapping[str, Any] | None] = {"config.json": read_config(source.folder)}
    known |= {places[prefix]: config for prefix, config in component_configs(source).items()}
    return known | module_settings(source.folder)


def config_faults(recipe: Recipe, pool: ModelPool) -> list[str]:
    """What the configs of a pool disagree about, in sentences with the remedy."""
    if recipe.config:
        return []
    configs = {name: _configs(source) for name, source in pool.all.items()}
    files = dict.fromkeys(file for known in configs.values() for file in known)
    sliced = bool(recipe.slices) or any(part.slices for part in recipe.parts)
    return [
        f"{file} differs: {difference}; write {word('config', Blank('NAME'))} to choose whose the output gets"
        for file in files
        for difference in config_differences(
            {name: known.get(file) for name, known in configs.items()}, ignore_layers=sliced
        )
    ]
