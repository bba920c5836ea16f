"""Suites of a hub: models that were labelled once are selected and reused for tasks of which only words are known.

First every model by itself (model.py: its label, its cosines on every task, kept by content), then methods, sweeps and
the growth of the hub, which are arithmetic on those (task_scores.py, growth.py).
"""
