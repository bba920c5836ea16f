"""Suites of language models: specialists merged, tuned on validation tasks, asked for their skills and for forgetting.

Tuning is that of `smelt.search`, in a folder of its own for each entry, so that a run that was stopped goes on at the
trial.
"""
