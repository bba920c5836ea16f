"""What Smelt has: methods, and the models of its zoo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.display.blocks import Table
from smelt.display.shown import ShownDict
from smelt.methods import Stage

if TYPE_CHECKING:
    from smelt.models.zoo.catalogue import ZooModels

__all__ = ["Methods", "list_methods", "list_models"]


class Methods(ShownDict[Stage]):
    """Registered stages by name."""

    def shown(self) -> list[Table]:
        rows = [[name, stage.kind, stage.summary] for name, stage in sorted(self.items())]
        return [Table(["method", "kind", "what it does"], rows, left=(0, 1, 2), cut=True)]


def list_methods() -> Methods:
    """Every registered stage by name."""
    from smelt.methods import stages

    return Methods(stages)


def list_models() -> ZooModels:
    """The models of the zoo."""
    from smelt.models.zoo.catalogue import zoo_models

    return zoo_models()
