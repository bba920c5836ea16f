"""Suites of a hub: models that were labelled once are selected and reused for tasks of which only words are known.

A suite (suite.py, YAML with `kind: hub`) becomes steps (steps.py): first every model by itself (its label, its cosines
on every task, kept by content), then methods, sweeps and the growth of the hub, which are arithmetic on those (desk.py,
growth.py). The loop is its own (loop.py); folder, rows and report are those of every suite.
"""

from __future__ import annotations
