"""Suites that compare the two levels at which models collaborate: their weights merged, their predictions ensembled.

A suite (suite.py, YAML with `kind: collaboration`) becomes steps (steps.py), each a job (units.py) whose rows say at
which level several models met. The loop is its own (loop.py); folder, rows and report are those of every suite.
"""

from __future__ import annotations
