"""The kind `collaboration`: weights merged beside predictions ensembled (NeuLig)."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.collaboration.plan import CollaborationPlan
from smelt.suites.collaboration.report.pages import CollaborationPages
from smelt.suites.collaboration.suite import CollaborationSuite
from smelt.suites.kind import Kind, kinds

__all__: list[str] = []

kinds["collaboration"] = Kind(
    "collaboration", CollaborationSuite, CollaborationPlan, CollaborationPages(), folder=Path(__file__).parent
)
