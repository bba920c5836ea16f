"""The recipe: what to merge and how, in the words that YAML, the command line and Python share.

A config is a call: its keys are the parameters, unknown keys are refused, and `Recipe.parse(r.dump()) == r`.

    select: {uq: {tasks: mllm10, limit: 200, passes: 4, choose: first_local_min}}      by uncertainty, without labels
    select: {soup: {tasks: mllm10-val}}                                                by accuracy on validation data

say how `smelt select` chooses among the models; what they do not say is the usual.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, PrivateAttr, ValidationError

from smelt.display.blocks import Code
from smelt.display.shown import Shown
from smelt.errors import RecipeError, listed, shortened, unknown
from smelt.files.schema import Strict, faults_of, reason_of
from smelt.recipe.method_names import method_name
from smelt.recipe.tune import Tune

__all__ = [
    "DataBudget",
    "DataUse",
    "Part",
    "Pipeline",
    "Pool",
    "Recipe",
    "Select",
    "Slice",
    "SoupWords",
    "StageCall",
    "UqWords",
    "parse_size",
]


class SoupWords(Strict):
    """What a selection by accuracy may say."""

    tasks: str | list[str] | None = None
    split: str | None = None
    limit: Annotated[int, Field(gt=0)] | None = None


class UqWords(SoupWords):
    """What a selection by uncertainty may say."""

    image: bool = True
    text: bool = True
    model: bool = True
    passes: Annotated[int, Field(gt=0)] = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    repeats: Annotated[int, Field(gt=0)] = 1
    guide: Literal["uncertainty", "accuracy"] = "uncertainty"
    order: Literal["descending", "ascending"] = "descending"
    choose: Literal["global_min", "first_local_min"] = "global_min"


class Select(Strict):
    """One way of choosing, or several, each for its own command."""

    uq: UqWords | None = None
    soup: SoupWords | None = None


_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class StageCall(Strict):
    """One stage of a pipeline with its parameters: {ties: {density: 0.2}}."""

    name: str
    parameters: dict[str, Any] = {}


def _read_pipeline(value: Any) -> Any:
    """`ties`, `dare,ties`, `{ties: {density: 0.2}}`, `[{dare: {...}}, ties]` or (name, parameters) pairs as calls."""
    if isinstance(value, str) and "," in value:
        value = [name for name in map(str.strip, value.split(",")) if name]
    items = value if isinstance(value, list | tuple) and not _is_pair(value) else [value]
    return [_read_stage(item) for item in items]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], Mapping)


def _read_stage(item: Any) -> Any:
    if isinstance(item, StageCall):
        return item
    if isinstance(item, str):
        return {"name": method_name(item)}
    if _is_pair(item):
        return {"name": method_name(item[0]), "parameters": dict(item[1])}
    if isinstance(item, Mapping) and len(item) == 1:
        ((name, parameters),) = item.items()
        if parameters is None or isinstance(parameters, Mapping):
            return {"name": method_name(str(name)), "parameters": dict(parameters or {})}
    raise ValueError(f"expected a method's name or {{name: {{parameters}}}}, got {item!r}")


def _write_pipeline(calls: list[StageCall]) -> Any:
    return [{call.name: dict(call.parameters)} if call.parameters else call.name for call in calls]


Pipeline: TypeAlias = Annotated[
    list[StageCall], Field(min_length=1), BeforeValidator(_read_pipeline), PlainSerializer(_write_pipeline)
]


def _read_patterns(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Patterns: TypeAlias = Annotated[list[str], BeforeValidator(_read_patterns)]


def _read_models(value: Any) -> Any:
    """A list of references becomes a table, with names from the last part of each path."""
    if isinstance(value, list | tuple):
        from smelt.recipe.reference_name import ref_name

        named: dict[str, str] = {}
        for ref in value:
            if not isinstance(ref, str):
                raise ValueError(f"a model is given by a reference, got {ref!r}")
            name, stem, number = ref_name(ref), ref_name(ref), 2
            while name in named:
                name, number = f"{stem}-{number}", number + 1
            named[name] = ref
        return named
    return value


class Pool(Strict):
    """The models to merge, named and in order, and the base they were fine-tuned from."""

    base: str | None = None
    models: Annotated[dict[str, str], Field(min_length=1), BeforeValidator(_read_models)]
    graft: dict[str, str | dict[str, str]] = {}
    """Models of texts that stand in the language model of another, by name: `language`, or how their names begin."""

    @property
    def refs(self) -> dict[str, str]:
        """Every reference by name, the base first."""
        return ({"base": self.base} if self.base else {}) | self.models


class Slice(Strict):
    """A run of layers of the output, and the layers of each model that it is made from (first, one past last)."""

    models: Annotated[dict[str, tuple[int, int]], Field(min_length=1)]
    base: tuple[int, int] | None = None
    merge: Pipeline | None = None


class Part(Strict):
    """Tensors by name pattern that are merged in a way of their own."""

    keys: Patterns
    merge: Pipeline | None = None
    models: list[str] | None = None
    slices: list[Slice] | None = None


class TokenRule(Strict):
    """Where one token's embedding comes from: a model, {kind: model_token, model, token | token_id} or zero."""

    source: Any
    force: bool = False


class DataUse(Strict):
    """The data that a method may look at: a task for each model, by the model's name; by default the task named so.

    What it does not say, the method decides: statistics are measured on `train`, adaptation uses `val`.
    """

    tasks: dict[str, str] = {}
    split: str | None = None
    examples: Annotated[int, Field(gt=0)] | None = None
    corruption: str | None = None
    """Damage that the pictures are given before they are looked at."""
    estimator: str | None = None
    """How a statistic is estimated; the method's own way by default."""
    batch: Annotated[int, Field(gt=0)] | None = None
    """Examples that are looked at together, where an estimator's value depends on it."""


class DataBudget(Strict):
    """What data the model's making used, beyond the training of its parts. It goes along into manifests and rows."""

    split: str | None = None
    images: Annotated[int, Field(ge=0)] = 0
    labels: Annotated[int, Field(ge=0)] = 0


class Recipe(Shown, Strict):
    """Everything a merge needs to know. See docs/reference/recipes.md for a tour."""

    pool: Pool
    merge: Pipeline
    data: DataUse | None = None
    statistics: dict[str, str] = {}
    looked_at: DataBudget | None = None
    tune: Tune | None = None
    select: Select | None = None
    parts: list[Part] = []
    slices: list[Slice] | None = None
    dtype: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    include: Patterns = []
    skip: Patterns = []
    missing: Literal["refuse", "base"] = "refuse"
    routers: str = "merge"
    align_experts: bool = False
    vocab: str = "refuse"
    tokens: dict[str, TokenRule] = {}
    pad_vocab_to: Annotated[int, Field(gt=0, le=1 << 20)] | None = None
    config: str | None = None
    chat_template: str | None = None
    shard_size: Annotated[str, BeforeValidator(str)] = "5GB"
    lora: Annotated[int, Field(gt=0)] | None = None
    lora_format: Literal["peft", "kohya", "diffusers"] | None = None
    allow_pickle: bool = False
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _stated: bool = PrivateAttr(default=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed when it was read; a plan tells it. No part of what the recipe says."""
        return self._notes

    @property
    def stated(self) -> bool:
        """Whether somebody wrote it as a recipe, and not as the words of a call: errors then speak YAML."""
        return self._stated

    def as_stated(self) -> Recipe:
        """The same recipe, as one that somebody wrote."""
        made = self.model_copy()
        made._stated = True
        return made

    def __eq__(self, other: object) -> bool:
        """Whether both say the same; what was noticed on the way, and where they came from, is no part of it."""
        return self.__dict__ == other.__dict__ if isinstance(other, Recipe) else NotImplemented

    def noting(self, notes: Iterable[str]) -> Recipe:
        """The same recipe with these notes."""
        made = self.model_copy()
        made._notes = tuple(notes)
        return made

    @classmethod
    def parse(cls, data: Any) -> Recipe:
        """A checked recipe from plain data, or a RecipeError that lists every fault."""
        if not isinstance(data, Mapping):
            raise RecipeError(f"a recipe is a table with `pool` and `merge`, got {type(data).__name__}")
        try:
            recipe = cls.model_validate(dict(data))
        except ValidationError as error:
            raise RecipeError(_explain(error)) from None
        parse_size(recipe.shard_size)
        return recipe

    def dump(self) -> dict[str, Any]:
        """Plain data without defaults; `Recipe.parse(r.dump()) == r`."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def save(self, path: Path) -> None:
        """Write it as a YAML file that reads back equal."""
        path.write_text(self.text, encoding="utf-8")

    @property
    def text(self) -> str:
        """It as YAML."""
        import yaml

        return yaml.safe_dump(self.dump(), sort_keys=False, allow_unicode=True)

    def shown(self) -> list[Code]:
        return [Code(self.text)]

    @property
    def hash(self) -> str:
        """SHA-256 of what the recipe says. The order of keys does not matter, the order of models does."""
        text = json.dumps(_ordered(self.dump()), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _ordered(value: Any, name: str = "") -> Any:
    """The same data with tables whose order means something (models, tokens) as lists of pairs."""
    if isinstance(value, Mapping):
        pairs = {key: _ordered(inner, key) for key, inner in value.items()}
        return list(pairs.items()) if name in ("models", "tokens") else pairs
    return [_ordered(inner) for inner in value] if isinstance(value, list | tuple) else value


def parse_size(text: str | int) -> int:
    """`5GB`, `200MB`, `1GiB` or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    unit = match[2].upper() if match else ""
    if match is None or unit not in _SIZES or float(match[1]) <= 0:
        raise RecipeError(f"not a size: {text!r} (write 5GB, 200MB or a number of bytes)")
    return int(float(match[1]) * _SIZES[unit])


def _explain(error: ValidationError) -> str:
    return listed(faults_of(error, _fault), "the recipe has faults:")


def _fault(fault: Mapping[str, Any]) -> str:
    *path, last = (shortened(str(part)) for part in fault["loc"])
    where = ".".join(path)
    if fault["type"] == "extra_forbidden":
        return unknown(f"key under {where!r}" if where else "recipe key", last, _fields_at(path))
    if fault["type"] == "missing":
        return f"{'.'.join([*path, last])} is missing"
    return f"{'.'.join([*path, last])}: {reason_of(fault)}"


def _fields_at(path: list[str]) -> list[str]:
    words = [part for part in path if not part.isdigit()]
    table: dict[str, type[BaseModel]] = {
        "pool": Pool,
        "slices": Slice,
        "parts": Part,
        "data": DataUse,
        "looked_at": DataBudget,
        "tokens": TokenRule,
        "select": Select,
        "uq": UqWords,
        "soup": SoupWords,
    }
    model: type[BaseModel] = Recipe
    for word in words:
        model = table.get(word, model)
    return list(model.model_fields)
