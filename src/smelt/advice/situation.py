"""What a user has: models, data, time, memory, and how strong the base is. Wrong words are refused here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.advice.base import is_language_model, kind_of_name, parameters_of
from smelt.advice.rules import rules
from smelt.errors import RecipeError, unknown

__all__ = ["KINDS", "Situation", "article", "read_situation"]

KINDS = ("pretrained", "instruct")
SPLIT = "val"
"""What `smelt tune` chooses on."""
_SIZES = {"": 1e-9, "K": 1e-6, "M": 1e-3, "B": 1.0, "T": 1e3}


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
        return None if self.size is None else self.size < rules().small_below


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

    if base_kind is not None and base_kind not in KINDS:
        raise RecipeError(unknown("kind of base", base_kind, KINDS))
    for name, value in (("minutes", minutes), ("validation minutes", validation_minutes)):
        if value is not None and value <= 0:
            raise RecipeError(f"{name}: more than 0, got {value:g}")
    if models and base is None:
        raise RecipeError("models without their base: give --base too (base=...), which every recipe here is about")
    named = Pool(base=base, models=models).models if models else {}
    notes = []
    billions = _billions(size) if size is not None else None
    if not is_language_model(base):
        what = base or "the base"
        notes.append(f"{what} is taken for a language model that continues texts, the only kind that there are rows of")
    if base is not None and billions is None:
        billions = parameters_of(base)
        found = f"has {_text(billions)} parameters, from its headers" if billions else "may be of any size (see --size)"
        notes.append(f"{base} {found}")
    if base is not None and base_kind is None:
        base_kind = kind_of_name(base)
        notes.append(f"{base} is taken for {article(base_kind)} base, by its name (--base-kind says otherwise)")
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
        tuple(notes),
    )


def _checked(validation: str) -> str:
    """Tasks that exist and have the split that a setting is chosen on."""
    from smelt.tasks.registry import find_tasks

    for task in find_tasks(validation):
        if SPLIT not in task.splits:
            has = ", ".join(task.splits)
            raise RecipeError(
                f"validation: {task.name} has no `{SPLIT}` split (it has {has}), and a setting is not chosen on test "
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


def article(kind: str | None) -> str:
    """In words."""
    return "an instruction-tuned" if kind == "instruct" else "a pretrained"
