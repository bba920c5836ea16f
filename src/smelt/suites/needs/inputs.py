"""What a suite refers to, before anything of it is opened: models, tasks, and the merges that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from smelt.recipe.schema import Recipe

__all__ = ["SuiteInputs"]


@dataclass(frozen=True)
class SuiteInputs:
    """Plain names; `smelt.models.references` and `smelt.tasks.registry` know what they mean."""

    models: Mapping[str, str]
    """References by name, the base among them."""
    tasks: tuple[str, ...]
    """What results are reported on."""
    methods: tuple[str, ...] = ()
    """Every name that `--methods` may give."""
    merges: Mapping[str, Recipe] = field(default_factory=dict)
    """By entry; what is no recipe (an ensemble, a hub's choice) is not among them."""
    asked: int = 0
    """How many models are asked all tasks: the references, and what is made."""
    trials: int = 0
    """How many settings are tried on validation tasks, over all entries."""
    validation: tuple[str, ...] = ()
    trial_examples: int | None = None
    """Of each validation task, for one setting."""
    data: tuple[str, ...] = ()
    """Tasks that are looked at to measure or to learn, and not asked."""
