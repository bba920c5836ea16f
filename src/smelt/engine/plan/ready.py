"""A merge that is ready to run: the pool aligned (vocabulary, tied weights), planned, and its small files known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smelt.engine.plan.adapter_bases import base_faults
from smelt.engine.plan.align import Alignment, align
from smelt.engine.plan.frozen import leave_frozen
from smelt.engine.plan.plan import Plan, make_plan
from smelt.engine.sink.carry import carried_files, files_beside
from smelt.engine.sink.provenance import encode_manifest, model_card
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.files.bounded import check_plain
from smelt.formats import dtype as dtypes
from smelt.formats.config import config_differences, read_config
from smelt.formats.source import Source
from smelt.models.pool import ModelPool
from smelt.recipe.schema import Recipe
from smelt.system.garbage import not_now

__all__ = ["Ready", "config_faults", "make_ready"]


@dataclass(frozen=True)
class Ready:
    """A plan, and what its output folder holds beside the weights."""

    plan: Plan
    pool: ModelPool
    alignment: Alignment
    config_from: str

    def noting(self, notes: Sequence[str]) -> Ready:
        """The same with more to say."""
        return replace(self, plan=replace(self.plan, notes=(*self.plan.notes, *notes)))

    def files(self, name: str) -> dict[str, bytes | Path]:
        """Config, tokenizer, processor, templates and model card of the output."""
        recipe = self.plan.recipe
        source = self.pool.all[self.config_from]
        files = carried_files(self.plan, source.folder, self._dtype())
        own_config = getattr(source, "config", None)  # of a GGUF file
        if own_config is not None and (config := own_config()):
            files["config.json"] = json.dumps({**config, "dtype": self._dtype()}, indent=2).encode() + b"\n"
        files = self.alignment.change_files(files, recipe, self.pool, self.config_from)
        for content in files.values():
            if isinstance(content, Path):
                check_plain(content)
        return {**files, "README.md": self.card(name)}

    def _dtype(self) -> str | None:
        """The dtype most of the output's numbers have, as configs call it."""
        counts: Counter[str] = Counter()
        for item in self.plan.items:
            if item.info.dtype in dtypes.FLOATS:
                counts[item.info.dtype] += item.info.count
        return dtypes.torch_name(counts.most_common(1)[0][0]) if counts else None

    def card(self, name: str) -> bytes:
        recipe = self.plan.recipe
        return model_card(name, recipe, self.plan.stage_names, recipe.pool.refs, self.plan.notes)

    def parent_hashes(self, hashes: Mapping[Path, str]) -> dict[str, dict[str, str]]:
        """For each parent, the SHA-256 of its files by their names (with the folder's, where two are alike)."""
        return {name: _by_file(source, hashes) for name, source in self.plan.parents.items()}

    def statistics_hashes(self, hashes: Mapping[Path, str]) -> dict[str, dict[str, str]]:
        """The same for what stages read beside the models."""
        return {name: _by_file(source, hashes) for name, source in self.plan.statistics.items()}

    def manifest(self, files: Mapping[str, tuple[str, int]], hashes: Mapping[Path, str], **more: Any) -> bytes:
        recipe = self.plan.recipe
        by_file = self.parent_hashes(hashes)
        parents = {name: {"ref": recipe.pool.refs[name], "files": by_file[name]} for name in self.plan.parents}
        statistics = {
            name: {"ref": recipe.statistics[name], "files": files}
            for name, files in self.statistics_hashes(hashes).items()
        }
        return encode_manifest(
            {
                "torch": _torch_version(),
                "stages": list(self.plan.stage_names),
                "recipe": recipe.dump(),
                "recipe_hash": recipe.hash,
                "parents": parents,
                **({"statistics": statistics} if statistics else {}),
                "notes": list(self.plan.notes),
                **more,
            },
            files,
        )


def _torch_version() -> str:
    """What its package says: a merge need not have loaded torch, and should not for this."""
    try:
        return version("torch")
    except PackageNotFoundError:  # a build on the path that was never installed
        import torch

        return torch.__version__


def _by_file(source: Source, hashes: Mapping[Path, str]) -> dict[str, str]:
    names = [path.name for path in source.files]
    return {
        path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}": hashes[path]
        for path in source.files
    }


@not_now()
def make_ready(recipe: Recipe, pool: ModelPool) -> Ready:
    """Check, align and plan; raises with every fault that headers and configs show."""
    config_from = recipe.config or pool.reference_name
    if config_from not in pool.all:
        raise RecipeError(f"config: {unknown('model', config_from, pool.all)}")
    faults, over = base_faults(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    without, faults = leave_frozen(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    alignment = align(recipe, pool)
    # An adapter's factors are taken from unrounded changes.
    unrounded = without.model_copy(update={"dtype": "float32"}) if recipe.lora else without
    plan = replace(make_plan(unrounded, alignment.pool, recipe), recipe=recipe)
    faults = config_faults(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    ready = Ready(plan, alignment.pool, alignment, config_from)
    return ready.noting([*over, *alignment.notes, *_beside(recipe, pool, config_from)])


def _beside(recipe: Recipe, pool: ModelPool, config_from: str) -> list[str]:
    """What becomes of the files beside the weights; an adapter has none of them."""
    merged = [file for source in pool.all.values() for file in source.files]
    return [] if recipe.lora else files_beside(pool.all[config_from].folder, merged).notes(config_from)


def config_faults(recipe: Recipe, pool: ModelPool) -> list[str]:
    """What the configs of a pool disagree about, in sentences with the remedy."""
    if recipe.config:
        return []
    configs = {name: read_config(source.folder) for name, source in pool.all.items()}
    sliced = bool(recipe.slices) or any(part.slices for part in recipe.parts)
    return [
        f"config.json differs: {difference}; write `config: NAME` to choose whose the output gets"
        for difference in config_differences(configs, ignore_layers=sliced)
    ]
