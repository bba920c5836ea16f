"""A kind of suite: one line of work as one object. The `kind:` of a suite's YAML names it; without one it is `clip`.

Smelt's own kinds each have a folder here. One of a plug-in is entered the same way, by a module that an entry point in
the group `smelt.suites` names: `kinds["mine"] = Kind("mine", MySuite, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.registry import Registry

if TYPE_CHECKING:
    from smelt.reporting.pages import Pages
    from smelt.suites.plan import BenchOptions, SuitePlan
    from smelt.suites.suite import BaseSuite
from smelt.reporting.pages import Pages

__all__ = ["DEFAULT", "OWN", "Kind", "kinds"]

DEFAULT = "clip"
OWN = ("clip", "collaboration", "hub", "language", "selection")
_PUBLISHED = "published"
"""The file beside the shipped suites with other people's numbers."""


@dataclass(frozen=True)
class Kind:
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


kinds: Registry[Kind] = Registry(
    "smelt.suites",
    own=lambda: {name: f"smelt.suites.{name}.kind" for name in OWN},
    home=lambda kind: f"smelt.suites.{kind.name}.kind",
)
"""Every kind by name."""
