"""The public functions of merging. The command line and YAML recipes use the same words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.sink.verify import Verification, verify_folder
from smelt.prepare.merge import merge
from smelt.prepare.plan import plan

if TYPE_CHECKING:
    from smelt.methods import Stage

__all__ = ["list_methods", "merge", "plan", "verify"]


def verify(folder: str | Path) -> Verification:
    """Recompute every hash of a merged model's folder and compare it with its manifest."""
    return verify_folder(Path(folder))


def list_methods() -> dict[str, Stage]:
    """Every registered stage by name."""
    from smelt.methods import stages

    return dict(stages)
