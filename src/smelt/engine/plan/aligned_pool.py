"""The models of a pool as a plan takes them: without copies of tied tensors, over one vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smelt.caller import word
from smelt.engine.plan.checks import left_out
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import IncompatibleModels, RecipeError, unknown
from smelt.files.reading import parse_json, read_json_table
from smelt.formats.architecture.layout import Layout
from smelt.formats.folder_files import (
    read_config,
)
from smelt.formats.source import Source
from smelt.formats.tokenizer.chat_template import resolve_chat_template, with_chat_template
from smelt.formats.tokenizer.vocabulary import Vocabulary
from smelt.formats.views.view import without_tied_copy
from smelt.models.vocabulary.files import is_tokenizer_file, token_id_updates, tokenizer_files
from smelt.models.vocabulary.plan import POLICIES, VocabularyPlan, plan_vocabulary
from smelt.models.vocabulary.source import VocabSource
from smelt.recipe.schema import Recipe

__all__ = ["AlignedPool", "align", "read_small_file"]


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
                    config = token_id_updates(self.vocabulary, read_small_file(new[name]), model=config_from)
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
    vocabularies = {name: _vocabulary(source, recipe) for name, source in pool.all.items()}
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


def _vocabulary(source: Source, recipe: Recipe) -> Vocabulary | None:
    """The tokens of a model, which lie beside the tensors that have no prefix."""
    if source.folder is None:
        return None
    place = source.components[""].folder if "" in source.components else ""
    if place and recipe.vocab != "refuse":
        raise RecipeError(
            f"vocab: {source.label} has its tokenizer in {place}, where Smelt brings vocabularies together in no file; "
            "load and save the model once with a newer sentence-transformers, which puts it at the top"
        )
    return Vocabulary.read(source.folder / place)


def read_small_file(content: bytes | Path) -> dict[str, Any]:
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
