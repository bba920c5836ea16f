"""Suites of language models: specialists merged, tuned on validation tasks, asked for their skills and for forgetting.

A suite (suite.py, YAML with `kind: language`) becomes steps (steps.py), each a job (units.py): a reference, or a merge
from the look at its data to its rows on the tests. Tuning is `smelt.search`'s own, in a folder of its own for each
entry, so that a run that was stopped goes on at the trial. Folder, rows and report are those of every suite.
"""

from __future__ import annotations
