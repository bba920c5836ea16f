"""The kind `hub`: models that were labelled once are chosen for tasks of which only words are known (MLL)."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.hub.plan import HubPlan
from smelt.suites.hub.report.pages import HubPages
from smelt.suites.hub.suite import HubSuite
from smelt.suites.kind import Kind, kinds

__all__: list[str] = []

kinds["hub"] = Kind("hub", HubSuite, HubPlan, HubPages(), folder=Path(__file__).parent)
