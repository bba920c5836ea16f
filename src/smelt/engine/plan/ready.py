"""A merge that is ready to run: the pool aligned (vocabulary, tied weights), planned, and its small files known.

In: a recipe and an opened pool. Out: `ReadyMerge`, or every fault that headers and configs show.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from smelt.caller import Blank, word
from smelt.engine.adapter_output import adapter_notes
from smelt.engine.plan.build import make_plan
from smelt.engine.plan.causes import with_causes
from smelt.engine.plan.checks import base_faults, leave_frozen, leave_unmerged, left_out
from smelt.engine.plan.plan import Plan
from smelt.engine.pool import BASE, ModelPool
from smelt.engine.sink.provenance import encode_manifest, find_manifest, model_card
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.files.hashing.input_hashes import FileDigest
from smelt.files.reading import check_plain, parse_json, read_json_table
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout
from smelt.formats.folder_files import (
    component_configs,
    config_differences,
    files_beside,
    read_config,
    small_files,
    updated_config,
)
from smelt.formats.source import Source
from smelt.formats.tokenizer.chat_template import resolve_chat_template, with_chat_template
from smelt.formats.tokenizer.vocabulary import Vocabulary
from smelt.formats.views.view import without_tied_copy
from smelt.models.vocabulary.files import is_tokenizer_file, token_id_updates, tokenizer_files
from smelt.models.vocabulary.plan import POLICIES, VocabularyPlan, plan_vocabulary
from smelt.models.vocabulary.source import VocabSource
from smelt.recipe.schema import Recipe
from smelt.system.process import gc_paused
from smelt.version import __version__

__all__ = ["AlignedPool", "ReadyMerge", "align", "config_faults", "make_ready"]


@dataclass(frozen=True)
class AlignedPool:
    """The aligned pool, and how the output's tokenizer and config follow from it."""

    pool: ModelPool
    vocabulary: VocabularyPlan | None
    notes: tuple[str, ...]

    def change_files(
        self, files: Mapping[str, bytes | Path], recipe: Recipe, pool: ModelPool, config_from: str
    ) -> dict[str, bytes | Path]:
        """The carried files with the aligned vocabulary and the chosen chat template."""
        new = dict(files)
        folders = {name: source.folder for name, source in pool.all.items()}
        if self.vocabulary is not None and recipe.vocab != "refuse":
            new = {name: content for name, content in new.items() if not is_tokenizer_file(name)}
            new |= tokenizer_files(self.vocabulary, folders)
            for name in ("config.json", "generation_config.json"):
                if name in new:
                    config = token_id_updates(self.vocabulary, _read(new[name]), model=config_from)
                    new[name] = json.dumps(_with_rows(config, self.vocabulary.rows), indent=2).encode() + b"\n"
        if recipe.chat_template is not None:
            template = resolve_chat_template(recipe.chat_template, folders.values())
            if template is not None:
                new = with_chat_template(new, template)
        return new


def align(recipe: Recipe, pool: ModelPool) -> AlignedPool:
    """Bring the models of a pool onto one vocabulary and one notion of tied weights."""
    if recipe.vocab not in POLICIES and recipe.vocab not in pool.all:
        raise RecipeError(f"vocab: {unknown('policy or model', recipe.vocab, [*POLICIES, *pool.all])}")
    if recipe.vocab == "refuse" and (recipe.tokens or recipe.pad_vocab_to):
        raise RecipeError(
            "`tokens` and `pad_vocab_to` change the vocabulary; say how with `vocab` (base, union, rows ...)"
        )
    untied, notes = {}, []
    for name, source in pool.all.items():
        untied[name], said = without_tied_copy(source)
        notes += [f"{name}: {note}" for note in (*source.notes, *said)]
    pool = replace(pool, base=untied.get(BASE), models={name: untied[name] for name in pool.models})
    keys = [
        key
        for key, info in pool.reference.tensors.items()
        if Layout.holds_vocabulary(key) and len(info.shape) in (1, 2) and not left_out(recipe, key)
    ]
    embedding = next((key for key in keys if len(pool.reference.tensors[key].shape) == 2), None)
    if embedding is None or not all(_has_rows(source, _resolve(source, embedding)) for source in pool.all.values()):
        if recipe.vocab not in ("refuse", "rows"):
            raise RecipeError(
                f"vocab: {recipe.vocab}, but no tensor that all models share looks like an embedding of tokens"
            )
        return AlignedPool(pool, None, tuple(notes))
    rows = {name: source.tensors[_resolve(source, embedding)].shape[0] for name, source in pool.all.items()}
    vocabularies = {name: Vocabulary.read(s.folder) if s.folder else None for name, s in pool.all.items()}
    if recipe.vocab == "refuse":
        _check_configs(pool, rows)
    overrides = {token: rule.model_dump() for token, rule in recipe.tokens.items()}
    if recipe.vocab == "refuse" and not any(vocabularies.values()) and not overrides:
        return AlignedPool(pool, None, tuple(notes))
    plan = plan_vocabulary(
        vocabularies,
        rows,
        recipe.vocab,
        BASE if pool.base else None,
        overrides=overrides,
        pad_to_multiple_of=recipe.pad_vocab_to,
    )
    wrapped = {
        name: VocabSource(source, keys, plan, name, {n: s for n, s in pool.all.items() if n != name})
        if plan.changes(name)
        else source
        for name, source in pool.all.items()
    }
    moved = [name for name in wrapped if plan.changes(name)]
    if moved:
        notes.append(f"the vocabulary has {plan.rows:,} rows ({recipe.vocab}); rows move in {', '.join(moved)}")
    aligned = replace(pool, base=wrapped.get(BASE), models={name: wrapped[name] for name in pool.models})
    return AlignedPool(aligned, plan, tuple(notes))


def _has_rows(source: Source, key: str) -> bool:
    """Whether a model has this tensor, as a matrix."""
    return key in source.tensors and len(source.tensors[key].shape) == 2


def _resolve(source: Source, key: str) -> str:
    return source.tied.get(key, key)


def _check_configs(pool: ModelPool, rows: Mapping[str, int]) -> None:
    """A config that announces another vocabulary than the weights hold gives a model that does not load."""
    faults = []
    for name, source in pool.all.items():
        config = read_config(source.folder) or {}
        inner = config.get("text_config")
        announced = (inner if isinstance(inner, dict) and "vocab_size" in inner else config).get("vocab_size")
        if isinstance(announced, int) and announced != rows[name]:
            faults.append(
                f"{name}: config.json says vocab_size {announced:,} but the embedding has {rows[name]:,} rows; "
                f"{word('vocab', 'base')} (or union, intersection) aligns by tokens, {word('vocab', 'rows')} goes by "
                "the weights"
            )
    if faults:
        raise IncompatibleModels(faults)


def _read(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, Path):
        return read_json_table(content)
    return dict(parse_json(content, "a file of the output"))


def _with_rows(config: dict[str, Any], rows: int) -> dict[str, Any]:
    """vocab_size as the weights have it, wherever the config says it."""
    if isinstance(config.get("text_config"), dict) and "vocab_size" in config["text_config"]:
        config["text_config"] = {**config["text_config"], "vocab_size": rows}
    if "vocab_size" in config:
        config["vocab_size"] = rows
    return config


@dataclass(frozen=True)
class ReadyMerge:
    """A plan, and what its output folder holds beside the weights."""

    plan: Plan
    pool: ModelPool
    alignment: AlignedPool
    config_from: str

    def noting(self, notes: Sequence[str]) -> ReadyMerge:
        """The same with more to say."""
        return replace(self, plan=replace(self.plan, notes=(*self.plan.notes, *notes)))

    def files(self, name: str) -> dict[str, bytes | Path]:
        """Config, tokenizer, processor, templates and model card of the output."""
        recipe = self.plan.recipe
        source = self.pool.all[self.config_from]
        files: dict[str, bytes | Path] = dict(small_files(source.folder, source.files))
        if (stored := read_config(source.folder)) is not None:
            new = updated_config(stored, dtype=self._dtype(), layers=self.plan.layers)
            files["config.json"] = json.dumps(new, indent=2, ensure_ascii=False).encode() + b"\n"
        for prefix, stored in component_configs(source).items():
            new = updated_config(stored, dtype=self._dtype(prefix), layers=self._layers(prefix), only_said=True)
            place = f"{source.components[prefix].place}config.json"
            files[place] = json.dumps(new, indent=2, ensure_ascii=False).encode() + b"\n"
        own_config = getattr(source, "config", None)  # of a GGUF file
        if own_config is not None and (config := own_config()):
            files["config.json"] = json.dumps({**config, "dtype": self._dtype()}, indent=2).encode() + b"\n"
        files = self.alignment.change_files(files, recipe, self.pool, self.config_from)
        for content in files.values():
            if isinstance(content, Path):
                check_plain(content)
        return {**files, "README.md": self.card(name)}

    def _layers(self, prefix: str) -> dict[str, Sequence[int]]:
        """The sliced stacks of a component, as it calls them."""
        stacks = self.plan.layers.items()
        return {stack.removeprefix(prefix): blocks for stack, blocks in stacks if stack.startswith(prefix)}

    def _dtype(self, prefix: str = "") -> str | None:
        """The dtype most of the output's numbers (those of a component) have, as configs call it."""
        counts: Counter[str] = Counter()
        for item in self.plan.items:
            if item.info.dtype in dtypes.FLOATS and item.key.startswith(prefix):
                counts[item.info.dtype] += item.info.count
        return dtypes.torch_name(counts.most_common(1)[0][0]) if counts else None

    def card(self, name: str) -> bytes:
        recipe = self.plan.recipe
        return model_card(name, recipe, self.plan.stage_names, recipe.pool.refs, self.plan.notes)

    def parent_hashes(self, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, dict[str, str]]]:
        """For each parent, the hashes of its files by their names (with the folder's, where two are alike)."""
        return {name: _by_file(source, hashes) for name, source in self.plan.parents.items()}

    def statistics_hashes(self, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, dict[str, str]]]:
        """The same for what stages read beside the models."""
        return {name: _by_file(source, hashes) for name, source in self.plan.statistics.items()}

    def changed_parents(self, hashes: Mapping[Path, FileDigest]) -> list[str]:
        """Which parents that Smelt made are not what their own manifests say, in sentences."""
        notes = []
        for name, source in self.plan.parents.items():
            homes = {path: _home(path, source) for path in source.files}
            manifests = {folder: find_manifest(folder) for folder in set(homes.values())}
            for path, home in homes.items():
                said = manifests[home].get(path.relative_to(home).as_posix())
                if said is not None and getattr(hashes[path], said.kind) not in (None, said.digest):
                    notes.append(
                        f"{name}: {path.name} is not what the manifest beside it says; it was changed afterwards"
                    )
        return notes

    def metadata(self, hashes: Mapping[Path, FileDigest]) -> dict[str, str]:
        """What the headers of the weights say; its length does not depend on the digests."""
        recipe = self.plan.recipe
        found = {
            "format": "pt",
            "smelt": __version__,
            "recipe": _compact(recipe.dump()),
            "recipe_hash": recipe.hash,
            "parents": _compact(self.parent_hashes(hashes)),
        }
        return found | ({"statistics": _compact(self.statistics_hashes(hashes))} if self.plan.statistics else {})

    def manifest(self, files: Mapping[str, tuple[str, int]], hashes: Mapping[Path, FileDigest], **more: Any) -> bytes:
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


@cache
def _torch_version() -> str:
    """What its package says: a merge need not have loaded torch, and should not for this."""
    try:
        return version("torch")
    except PackageNotFoundError:  # a build on the path that was never installed
        import torch

        return torch.__version__


def _home(path: Path, source: Source) -> Path:
    """The folder of the model that a weights file belongs to: the file may lie in a sub-folder of it."""
    nested = source.components and source.folder is not None and path.is_relative_to(source.folder)
    return source.folder if nested and source.folder is not None else path.parent


def _by_file(source: Source, hashes: Mapping[Path, FileDigest]) -> dict[str, dict[str, str]]:
    names = [path.name for path in source.files]
    return {
        path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}": hashes[path].entry()
        for path in source.files
    }


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))


@gc_paused()
def make_ready(recipe: Recipe, pool: ModelPool) -> ReadyMerge:
    """Check, align and plan; raises with every fault that headers and configs show."""
    config_from = recipe.config or pool.reference_name
    if config_from not in pool.all:
        raise RecipeError(f"config: {unknown('model', config_from, pool.all)}")
    faults, over = base_faults(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    without, faults = leave_frozen(leave_unmerged(recipe, pool), pool)
    if faults:
        raise IncompatibleModels(faults)
    with with_causes(pool):
        alignment = align(recipe, pool)
        # An adapter's factors are taken from unrounded changes.
        unrounded = without.model_copy(update={"dtype": "float32"}) if recipe.lora else without
        plan = replace(make_plan(unrounded, alignment.pool, recipe), recipe=recipe)
    faults = config_faults(recipe, pool)
    if faults:
        raise IncompatibleModels(faults)
    ready = ReadyMerge(plan, alignment.pool, alignment, config_from)
    return ready.noting([*over, *alignment.notes, *adapter_notes(recipe, pool), *_beside(recipe, pool, config_from)])


def _beside(recipe: Recipe, pool: ModelPool, config_from: str) -> list[str]:
    """What becomes of the files beside the weights; an adapter has none of them."""
    merged = [file for source in pool.all.values() for file in source.files]
    return [] if recipe.lora else files_beside(pool.all[config_from].folder, merged).notes(config_from)


def _configs(source: Source) -> dict[str, Mapping[str, Any] | None]:
    """What says what a model is: its config.json, and that of each of its components, by their names."""
    places = {prefix: f"{one.place}config.json" for prefix, one in source.components.items()}
    known: dict[str, Mapping[str, Any] | None] = {"config.json": read_config(source.folder)}
    return known | {places[prefix]: config for prefix, config in component_configs(source).items()}


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
