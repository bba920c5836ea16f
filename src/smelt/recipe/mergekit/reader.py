"""mergekit YAML, read as it is: its keys, its precedence, its meaning, turned into a Smelt recipe.

Facts about mergekit are in docs/how-to/mergekit.md; none of its code is here. Where it differs from the papers
(trim per tensor, L1 rescaling, normalised weights) the recipe says so explicitly, so that nothing happens by dialect.
Arithmetic stays float32. Unlike mergekit, an unknown key is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.errors import Faults, RecipeError, unknown
from smelt.recipe.mergekit.methods import pipeline_of
from smelt.recipe.mergekit.values import MergekitSettings, ModelTable
from smelt.recipe.method_names import method_name
from smelt.recipe.reference_name import ref_name

__all__ = ["from_mergekit"]

_TOP = (
    "merge_method models slices modules base_model parameters dtype out_dtype tokenizer_source tokenizer chat_template"
).split()
_MODEL = ["model", "parameters"]
_SOURCE = ["model", "layer_range", "parameters"]
_SLICE = ["sources", "base_model", "parameters", "residual_weight"]
_MODULE = ["models", "slices", "parameters"]
_TOKENIZER = ["source", "tokens", "pad_to_multiple_of"]
_REFERENCE = ["model", "lora", "override_architecture"]
_PATH = ["path", "revision"]
# What mergekit calls the parts of a model, and the prefixes under which checkpoints keep them.
_MODULE_PREFIXES = {
    "default": ["*"],
    "text_decoder": ["language_model.*", "model.language_model.*", "text_model.*", "lm_head.*"],
    "language_model": ["language_model.*", "model.language_model.*", "lm_head.*"],
    "vision_tower": ["vision_tower.*", "model.vision_tower.*", "vision_model.*", "visual.*", "model.visual.*"],
    "visual": ["visual.*", "model.visual.*"],
    "encoder": ["encoder.*", "model.encoder.*", "shared.*"],
    "decoder": ["decoder.*", "model.decoder.*", "lm_head.*", "proj_out.*"],
    "multi_modal_projector": ["multi_modal_projector.*", "model.multi_modal_projector.*"],
}


def from_mergekit(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The native recipe, as plain data, that does what this mergekit configuration means; and notes on the way."""
    reader = _MergekitReader(data)
    return reader.recipe(), list(dict.fromkeys(reader.notes))


class _MergekitReader:
    def __init__(self, data: Mapping[str, Any]):
        self._data, self._faults = data, Faults()
        self._method = method_name(str(data["merge_method"]))
        self.notes: list[str] = []
        self._refs: dict[str, str] = {}
        self._base: str | None = None
        with self._faults.gathering():
            _known(data, _TOP, "the configuration")
        kinds = [kind for kind in ("models", "slices", "modules") if data.get(kind)]
        if len(kinds) != 1:
            self._faults.found.append(f"give exactly one of models, slices and modules, not {kinds or 'none'}")
        if data.get("base_model") is not None:
            with self._faults.gathering():
                self._base = self._name(data["base_model"])

    def recipe(self) -> dict[str, Any]:
        """The recipe as plain data; everything that is wrong is told together."""
        data = self._data
        body, models = dict[str, Any](), list[str]()
        with self._faults.gathering():
            body, models = self._body()
        merged = list(dict.fromkeys(_models_of(body))) or models
        base = self._base if self._base not in merged else None
        tokenizer = dict[str, Any]()
        with self._faults.gathering():
            tokenizer = self._tokenizer(base, merged)
        self._faults.refuse("this configuration of mergekit has faults:", alone="mergekit: ")
        if self._base in merged:  # the first of the pool is the one whose vocabulary and names hold
            merged = [self._base, *(name for name in merged if name != self._base)]
        for stages in _pipelines_of(body):
            _name_every_model(stages, merged)
        recipe: dict[str, Any] = {
            "pool": {"base": self._refs[base] if base else None, "models": {name: self._refs[name] for name in merged}},
            **{key: value for key, value in body.items() if value},
            "dtype": data.get("out_dtype") or data.get("dtype"),
            "vocab": "rows",
            "chat_template": data.get("chat_template"),
            "config": "base" if base else self._base or merged[0],
            **tokenizer,
        }
        return {key: value for key, value in recipe.items() if value is not None}

    def _body(self) -> tuple[dict[str, Any], list[str]]:
        """What merges what, and the models where they are one list."""
        data = self._data
        if data.get("modules"):
            if not isinstance(data["modules"], Mapping):
                raise RecipeError(f"modules must be a table, got {data['modules']!r}")
            parts = [self._module(name, module) for name, module in data["modules"].items()]
            return {"parts": parts, "merge": parts[0]["merge"]}, []
        if data.get("slices"):
            slices = self._slices(data["slices"], ())
            return {"slices": slices, "merge": slices[0]["merge"]}, []
        merge, models = self._models(data.get("models"), ())
        return {"merge": merge}, models

    def _models(self, entries: Any, scopes: Sequence[Any]) -> tuple[Any, list[str]]:
        own: dict[str, Any] = {}
        for entry in _list(entries, "models"):
            with self._faults.gathering():
                _known(entry, _MODEL, "an entry of models")
            with self._faults.gathering():
                name = self._name(entry.get("model"))
                if name in own:
                    raise RecipeError(f"{self._refs[name]} is listed twice")
                own[name] = entry.get("parameters")
        return self._pipeline(own, scopes)

    def _slices(self, entries: Any, scopes: Sequence[Any]) -> list[dict[str, Any]]:
        slices = []
        for entry in _list(entries, "slices"):
            with self._faults.gathering():
                _known(entry, _SLICE, "a slice")
            with self._faults.gathering():
                other = entry.get("base_model")
                if other is not None and self._name(other) != self._base:
                    raise RecipeError("a slice with a base_model of its own is not supported; use one base for all")
            own: dict[str, Any] = {}
            ranges: dict[str, list[int]] = {}
            for source in _list(entry.get("sources"), "sources"):
                with self._faults.gathering():
                    _known(source, _SOURCE, "a source of a slice")
                with self._faults.gathering():
                    name = self._name(source.get("model"))
                    if name in own:
                        raise RecipeError(f"{self._refs[name]} is listed twice in a slice")
                    own[name], ranges[name] = source.get("parameters"), [0, 0]
                    ranges[name] = _layers(source.get("layer_range"))
            merge, models = self._pipeline(own, [entry.get("parameters"), *scopes], sliced=True)
            one: dict[str, Any] = {"models": {name: ranges[name] for name in models}, "merge": merge}
            if self._base in ranges and self._base not in models:
                one["base"] = ranges[self._base]
            slices.append(one)
        return slices

    def _module(self, name: str, module: Any) -> dict[str, Any]:
        with self._faults.gathering():
            _known(module, _MODULE, f"module {name!r}")
        if not isinstance(module, Mapping):
            return {"keys": [], "merge": [], "models": []}
        keys = _MODULE_PREFIXES.get(name, [f"{name}.*", f"model.{name}.*"])
        if module.get("slices"):
            slices = self._slices(module["slices"], [module.get("parameters")])
            return {"keys": keys, "slices": slices, "merge": slices[0]["merge"]}
        merge, models = self._models(module.get("models"), [module.get("parameters")])
        return {"keys": keys, "merge": merge, "models": models}

    def _pipeline(self, own: Mapping[str, Any], scopes: Sequence[Any], sliced: bool = False) -> tuple[Any, list[str]]:
        settings = MergekitSettings(self._method, own, [*scopes, self._data.get("parameters")])
        found: tuple[Any, list[str]] = [], list(own)
        if not own:  # what was wrong with each is known by now
            return found
        with self._faults.gathering():
            found = pipeline_of(self._method, settings, list(own), self._base, sliced=sliced)
            self.notes += settings.notes
        return found

    def _tokenizer(self, base: str | None, merged: Sequence[str]) -> dict[str, Any]:
        legacy, modern = self._data.get("tokenizer_source"), self._data.get("tokenizer")
        if legacy is not None and modern is not None:
            raise RecipeError("give tokenizer_source or tokenizer, not both")
        if legacy is None and modern is None:
            return {}
        settings = {"source": legacy} if modern is None else modern
        _known(settings, _TOKENIZER, "tokenizer")
        source = settings.get("source", "union")
        if source == "base" and base is None:
            source = self._data.get("base_model") or "base"
        tokens = settings.get("tokens") or {}
        if not isinstance(tokens, Mapping):
            raise RecipeError(f"tokenizer.tokens must be a table, got {tokens!r}")
        tokens = {token: self._token(token, rule, base) for token, rule in tokens.items()}
        return {
            "vocab": source if source in ("union", "base") else self._tokenizer_model(source, base, merged),
            "tokens": tokens or None,
            "pad_vocab_to": settings.get("pad_to_multiple_of"),
        }

    def _token(self, token: str, rule: Any, base: str | None) -> dict[str, Any]:
        rule = rule or {}
        _known(rule, ["source", "force"], f"token {token!r}")
        source = rule.get("source")
        if isinstance(source, Mapping) and source.get("kind") == "model_token":
            source = {**source, "model": self._pool_name(source.get("model"), base)}
        elif isinstance(source, str) or (isinstance(source, Mapping) and "kind" not in source):
            source = self._pool_name(source, base)
        return {"source": source, "force": bool(rule.get("force", False))}

    def _tokenizer_model(self, ref: Any, base: str | None, merged: Sequence[str]) -> str:
        name = self._name(ref)
        if name != base and name not in merged:
            raise RecipeError(
                f"the tokenizer's source {self._refs[name]} is not one of the models; "
                "merge with base or union, or list it"
            )
        return self._pool_name(ref, base)

    def _pool_name(self, ref: Any, base: str | None) -> str:
        """A model's name in the pool; the base, where it is not merged itself, is called `base` there."""
        name = self._name(ref)
        return "base" if name == base else name

    def _name(self, ref: Any) -> str:
        """The pool's name for a mergekit model reference."""
        text = _reference(ref)
        for name, known in self._refs.items():
            if known == text:
                return name
        stem = ref_name(text)
        name, number = stem if stem != "base" else "base-model", 2
        while name in self._refs:
            name, number = f"{stem}-{number}", number + 1
        self._refs[name] = text
        return name


def _models_of(body: Mapping[str, Any]) -> list[str]:
    sliced = [*(body.get("slices") or ()), *(s for p in body.get("parts") or () for s in p.get("slices") or ())]
    return [
        *(name for s in sliced for name in s["models"]),
        *(name for p in body.get("parts") or () for name in p.get("models") or ()),
    ]


def _pipelines_of(body: Mapping[str, Any]) -> list[Any]:
    parts = body.get("parts") or ()
    sliced = [*(body.get("slices") or ()), *(s for p in parts for s in p.get("slices") or ())]
    return [body["merge"], *(one["merge"] for one in (*parts, *sliced))]


def _name_every_model(stages: Any, models: Sequence[str]) -> None:
    """A recipe's table names every model of the pool, also those that a slice does not read."""
    for stage in stages:
        for values in stage.values():
            for name, table in values.items():
                if isinstance(table, ModelTable):
                    unused = next(iter(table.values()))
                    values[name] = {model: table.get(model, unused) for model in models}


def _reference(ref: Any) -> str:
    """`path[@revision][+lora[@revision]]` or mergekit's table form, as a Smelt reference."""
    if isinstance(ref, Mapping):
        _known(ref, _REFERENCE, "a model reference")
        lora = ref.get("lora")
        return _path_reference(ref.get("model")) + (f"+{_path_reference(lora)}" if lora else "")
    if not isinstance(ref, str) or not ref:
        raise RecipeError(f"not a model reference: {ref!r}")
    if os.path.exists(os.path.expanduser(ref)):
        return ref
    return "+".join(_one_reference(part) for part in ref.split("+"))


def _path_reference(path: Any) -> str:
    """The model or the adapter of a reference in table form: a string, or {path, revision}."""
    if isinstance(path, str):
        return _one_reference(path)
    _known(path, _PATH, "a model reference")
    where, revision = path.get("path"), path.get("revision")
    if not isinstance(where, str) or not where or not isinstance(revision, str | None):
        raise RecipeError(f"not a model reference: {dict(path)!r}")
    return _one_reference(where, revision)


def _one_reference(part: str, revision: str | None = None) -> str:
    """A local path stays one (it has no revisions); `org/name[@revision]` is on the hub."""
    if os.path.exists(os.path.expanduser(part)):
        return part
    bare, _, written = part.partition("@")
    local = bare.startswith((".", "/", "~")) or os.path.exists(os.path.expanduser(bare)) or bare.count("/") != 1
    revision = revision or written
    return bare if local else f"hf:{bare}@{revision}" if revision else f"hf:{bare}"


def _layers(given: Any) -> list[int]:
    if not isinstance(given, list) or len(given) != 2 or not all(type(n) is int for n in given):
        raise RecipeError(f"layer_range is [first, one past the last], got {given!r}")
    return given


def _list(value: Any, what: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        raise RecipeError(f"{what} must be a list of tables")
    return value


def _known(table: Any, keys: Sequence[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise RecipeError(f"{where} must be a table, got {table!r}")
    faults = Faults()
    faults.found += [unknown(f"key in {where}", str(key), keys) for key in table if key not in keys]
    faults.refuse()
