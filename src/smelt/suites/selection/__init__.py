"""Suites about which models to merge: many experts, groups of them merged, chosen by uncertainty or by accuracy.

A suite (suite.py, YAML with `kind: selection`) becomes rounds of steps (steps.py): single models, growing groups, then
what depends on the group that was chosen. A step (units.py) makes one model and asks it; all answers go into one store,
from which orders, choices and paired differences follow without another pass (answers.py, plan.py, paired.py,
compare.py, describe.py).
"""

from __future__ import annotations
