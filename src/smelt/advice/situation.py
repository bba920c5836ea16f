"""What a user has: models, data, time, memory, and how strong the base is. Wrong words are refused here.

In: the words of `smelt.advise`. Out: a `Situation`. Only headers and configs are read, and nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log, prod
from typing import Any, NamedTuple

from smelt.advice.evidence import guideline
from smelt.caller import Blank, option
from smelt.errors import RecipeError, unknown

__all__ = ["Situation", "kind_of_name", "read_situation"]

_KINDS = ("pretrained", "instruct")
_SPLIT = "val"
"""What `smelt tune` chooses on."""
_SIZES = {"": 1e-9, "K": 1e-6, "M": 1e-3, "B": 1.0, "T": 1e3}
_CLASSES = ("ForCausalLM", "LMHeadModel")
"""How configs name the classes of models that continue texts."""
_TOKENS = 512
"""Of a text of ordinary length, as the plan counts."""


@dataclass(frozen=True)
class Situation:
    """Sizes are in billions of parameters, memory in bytes. None is not known."""

    base: str | None = None
    models: dict[str, str] = field(default_factory=dict)
    validation: str | None = None
    """Tasks to choose a setting on, as `smelt tune --tasks` takes them."""
    training: dict[str, str] | None = None
    """A task with training data for each model, by the model's name; empty where tasks are named as the models are."""
    minutes: float | None = None
    validation_minutes: float | None = None
    """What one evaluation of one model on the validation tasks takes."""
    memory: int | None = None
    kind: str | None = None
    size: float | None = None
    shapes: dict[str, tuple[int, ...]] | None = None
    """Of the base's tensors, where it is at hand."""
    notes: tuple[str, ...] = ()
    """What was found out rather than said."""

    @property
    def has(self) -> frozenset[str]:
        """The kinds of data there are."""
        found = {"validation": self.validation is not None, "training": self.training is not None}
        return frozenset(name for name, there in found.items() if there)

    @property
    def small(self) -> bool | None:
        """Whether the base is one of the small ones; None where its size is not known."""
        return None if self.size is None else self.size < guideline().small_below

    def bytes_needed(self, entry: str) -> int:
        """What a method takes that looks at data, for one model at a time; 0 for one that looks at none: it streams.

        By the count that `smelt plan` uses. Where only the base's size is known, its shapes are those of the public
        model that is nearest in size (`smelt/formats/sizes`), and the bytes are scaled by the parameters.
        """
        from smelt.models.weightless import known_sizes
        from smelt.prepare.memory_needs import METHODS, memory_needs

        if self.memory is None or entry not in METHODS:
            return 0
        shapes, scale, size = self.shapes, 1.0, self.size
        if shapes is None:
            if size is None:
                raise RecipeError(
                    "memory: how much a method needs follows from the model's size; give "
                    f"{option('size', '8B')} or {option('base', Blank('REF'))}"
                )
            near = min(known_sizes().values(), key=lambda one: abs(log(one.parameters / 1e9 / size)))
            shapes = dict(near.shapes())
            scale = size * 1e9 / sum(map(prod, shapes.values()))
        # as much for Gram matrices as a measurement takes where nothing else is said: a quarter
        spare = int(self.memory / 4 / scale)
        words: Any = {"examples": guideline().examples, "tokens": _TOKENS, "memory": spare}
        return int(scale * memory_needs(shapes, entry, **words).total)  # type: ignore[arg-type]


class _Base(NamedTuple):
    """What a base tells of itself."""

    is_language: bool = False
    shapes: dict[str, tuple[int, ...]] | None = None


def read_situation(
    models: Any = None,
    *,
    base: str | None = None,
    validation: str | Sequence[str] | None = None,
    training: str | Sequence[str] | Mapping[str, str] | None = None,
    minutes: float | None = None,
    validation_minutes: float | None = None,
    memory: str | int | None = None,
    base_kind: str | None = None,
    size: str | float | None = None,
) -> Situation:
    """Check the words and find out what can be: the base's size from its headers, its kind from its name."""
    from smelt.recipe.schema import Pool, parse_size

    if base_kind is not None and base_kind not in _KINDS:
        raise RecipeError(unknown("kind of base", base_kind, _KINDS))
    for name, value in (("minutes", minutes), ("validation minutes", validation_minutes)):
        if value is not None and value <= 0:
            raise RecipeError(f"{name}: more than 0, got {value:g}")
    if models and base is None:
        raise RecipeError(
            f"models without their base: give {option('base', Blank('REF'))} too, which every recipe here is about"
        )
    named = Pool(base=base, models=models).models if models else {}
    notes = []
    billions = _billions(size) if size is not None else None
    known = _read_base(base)
    if not known.is_language:
        what = base or "the base"
        notes.append(f"{what} is taken for a language model that continues texts, the only kind that there are rows of")
    if base is not None and billions is None:
        billions = None if known.shapes is None else sum(map(prod, known.shapes.values())) / 1e9
        found = (
            f"has {_text(billions)} parameters, from its headers"
            if billions
            else f"may be of any size ({option('size', '8B')} says which)"
        )
        notes.append(f"{base} {found}")
    if base is not None and base_kind is None:
        base_kind = kind_of_name(base)
        notes.append(
            f"{base} is taken for {guideline().kinds[base_kind]} base, by its name "
            f"({option('base_kind', Blank('KIND'))} says otherwise)"
        )
    return Situation(
        base,
        named,
        _checked(",".join([validation] if isinstance(validation, str) else validation)) if validation else None,
        _pairs(training, named) if training is not None else None,
        minutes,
        validation_minutes,
        None if memory is None else parse_size(memory),
        base_kind,
        billions,
        known.shapes,
        tuple(notes),
    )


def kind_of_name(ref: str) -> str:
    """`hf:google/gemma-2-2b-it` is an instruction-tuned base, by the words of its own name, without its folders'."""
    words = re.split(r"[^a-z0-9]+", ref.lower().rstrip("/").rpartition("/")[2])
    return "instruct" if set(words) & set(guideline().instruct) else "pretrained"


def _read_base(ref: str | None) -> _Base:
    """From config and headers. Nothing is known of a model that is not here; what is no language model is refused."""
    if ref is None or ref.startswith("hf:") or "+hf:" in ref:
        return _Base()
    from smelt.formats.folder_files import read_config
    from smelt.models.references import open_ref

    source = open_ref(ref)
    try:
        shapes = {name: info.shape for name, info in source.tensors.items()}
        if callable(getattr(source, "config", None)):  # a GGUF file: llama.cpp's
            return _Base(True, shapes)
        config = read_config(source.folder) or {}
    finally:
        source.close()
    listed = config.get("architectures")
    classes = [str(name) for name in listed] if isinstance(listed, list) else []
    if any(name.endswith(_CLASSES) for name in classes):
        return _Base(True, shapes)
    sees = any("vision" in name or name.startswith("visual.") for name in shapes)
    if classes or sees or "vision_config" in config:
        what = f"a {classes[0]}" if classes else "a model of pictures"
        raise RecipeError(
            f"{ref} is {what}, and all rows that advice rests on are of language models that continue texts; choose "
            "among what `smelt methods` lists, and compare by `smelt eval`"
        )
    return _Base(False, shapes)


def _checked(validation: str) -> str:
    """Tasks that exist and have the split that a setting is chosen on."""
    from smelt.tasks.registry import find_tasks

    for task in find_tasks(validation):
        if _SPLIT not in task.splits:
            has = ", ".join(task.splits)
            raise RecipeError(
                f"validation: {task.name} has no `{_SPLIT}` split (it has {has}), and a setting is not chosen on test "
                "data; name tasks that have one (`smelt tasks` lists them)"
            )
    return validation


def _pairs(training: str | Sequence[str] | Mapping[str, str], models: Mapping[str, str]) -> dict[str, str]:
    """`maths=my/task,coding` → {maths: my/task}; a task that is named as a model is that model's own."""
    if isinstance(training, Mapping):
        pairs = {str(name): str(task) for name, task in training.items()}
    else:
        words = [training] if isinstance(training, str) else list(training)
        items = [item.strip() for word in words for item in word.split(",") if item.strip()]
        if not items:
            raise RecipeError("training: names no task; write MODEL=TASK,... or the names of tasks")
        pairs = {}
        for item in items:
            name, equals, task = item.partition("=")
            if equals and not task:
                raise RecipeError(f"training: MODEL=TASK, got {item!r}")
            if equals:
                pairs[name] = task
            else:
                _check_named(item, models)
    for name in pairs:
        if models and name not in models:
            raise RecipeError(f"training: {unknown('model', name, models)}")
    return pairs


def _check_named(item: str, models: Mapping[str, str]) -> None:
    """A task or a group that says no model belongs to those whose names its tasks have."""
    if not models or item in models:
        return
    from smelt.tasks.registry import find_tasks

    if not any(task.name in models for task in find_tasks(item)):
        raise RecipeError(f"training: {item!r} has the name of no model ({', '.join(models)}); write MODEL={item}")


def _billions(size: str | float) -> float:
    """`8B`, `135M`, or a number of billions."""
    if isinstance(size, int | float):
        value = float(size)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMBT]?)\s*", size.upper())
        if match is None:
            raise RecipeError(f"not a number of parameters: {size!r} (write 8B or 135M)")
        value = float(match[1]) * _SIZES[match[2]]
    if value <= 0:
        raise RecipeError(f"size: more than 0, got {size!r}")
    return value


def _text(billions: float) -> str:
    return f"{billions:.3g} B" if billions >= 1 else f"{1000 * billions:.3g} M"
