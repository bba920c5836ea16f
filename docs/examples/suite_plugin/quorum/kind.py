"""The kind `quorum`: the module that the entry point names. Importing it registers the kind."""

from __future__ import annotations

from pathlib import Path

from quorum.pages import QuorumPages
from quorum.plan import QuorumPlan
from quorum.suite import QuorumSuite

from smelt.suites.kind import SuiteKind, suite_kinds

suite_kinds["quorum"] = SuiteKind("quorum", QuorumSuite, QuorumPlan, QuorumPages(), folder=Path(__file__).parent)
