"""Public functions that inspect: what there is, whether models fit each other, whether a folder is what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Table
from smelt.display.shown import ShownDict
from smelt.engine.sink.verify import Verification, verify_folder
from smelt.methods import Stage

if TYPE_CHECKING:
    from smelt.engine.plan.compatibility import Compatibility
    from smelt.models.zoo.catalogue import ZooModels

__all__ = ["check_models", "list_methods", "list_models", "verify"]


def verify(folder: str | Path) -> Verification:
    """Recompute every hash of a merged model's folder and compare it with its manifest."""
    return verify_folder(Path(folder))


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


def check_models(
    pool: str | Path | Mapping[str, Any] | Sequence[str], *, base: str | None = None, allow_pickle: bool = False
) -> Compatibility:
    """Whether the models of a pool fit each other, tensor by tensor.

    `pool` is a YAML file with `base` and `models`, a table {name: reference} or a list of references. With
    `allow_pickle` these may name pickles.
    """
    from smelt.engine.plan.compatibility import compare
    from smelt.engine.pool import ModelPool

    with ModelPool.open(pool, base=base, allow_pickle=allow_pickle) as opened:
        return compare(opened)
