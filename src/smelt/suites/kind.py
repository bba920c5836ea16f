"""A kind of suite: one line of work as one object. The `kind:` of a suite's YAML names it; without one it is `clip`.

Smelt's own kinds each have a folder here, whose plan.py enters it. A plug-in does the same, in a module that an entry
point of the group `smelt.suites` names: `suite_kinds["mine"] = SuiteKind("mine", MySuite, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.registry import Registry
from smelt.reporting.pages import Pages

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions, SuitePlan
    from smelt.suites.suite import BaseSuite

__all__ = ["DEFAULT", "OWN", "SuiteKind", "suite_kinds"]

DEFAULT = "clip"
OWN = ("clip", "collaboration", "hub", "language", "selection")
_PUBLISHED = "published"
"""The file beside the shipped suites with other people's numbers."""


@dataclass(frozen=True)
class SuiteKind:
    """What tells one line of work from another."""

    name: str
    schema: type[BaseSuite]
    """Of its YAML."""
    plan: Callable[[Any, BenchOptions], SuitePlan]
    """From a suite and what is asked of it to the rounds of steps that a run goes through."""
    pages: Pages | None = None
    """What its report shows, from a read-only view of the folder; the general pages if nothing is given."""
    folder: Path | None = None
    """Where its shipped suites lie."""

    def suites(self) -> dict[str, Path]:
        """Its shipped suites by name."""
        files = sorted(self.folder.glob("*.yaml")) if self.folder else []
        return {file.stem: file for file in files if file.stem != _PUBLISHED}


suite_kinds: Registry[SuiteKind] = Registry(
    "smelt.suites",
    own=lambda: {name: f"smelt.suites.{name}.plan" for name in OWN},
    home=lambda kind: f"smelt.suites.{kind.name}.plan",
)
"""Every kind by name."""
