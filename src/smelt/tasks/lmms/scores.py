"""The score of one example, between 0 and 1, so that a task's score is their mean and has an interval.

Most tasks say it themselves. Some hand on a note of the answer and count notes at the end; of those that are means over
examples, the count over one note is the score of that example. Others (F1, a judge over the network, a file for a
server) are refused.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from smelt.tasks.task import TaskError

__all__ = ["score_of"]

_COUNTED = {"pope_accuracy": 1, "mmmu_acc": 1, "seed_image": 1, "seed_video": 1, "seed_all": 1, "gpt_eval_score": 100}
"""Metrics that are counted at the end, and the count where all is right."""


def score_of(part: Any, metric: str, told: Mapping[str, Any]) -> float | None:
    """What one example scores by what the task told of it; nothing where this metric is not about that example."""
    if metric not in told:
        return None
    value = told[metric]
    if isinstance(value, bool | int | float):
        return float(value)
    if metric not in _COUNTED:
        raise TaskError(
            f"{part.config.task}: {metric} is no number for every example ({type(value).__name__}), so it is no mean "
            f"over examples; name another metric with @: {', '.join(told)}"
        )
    count = part.aggregation()[metric]
    if len(inspect.signature(count).parameters) == 1:
        return float(count([value])) / _COUNTED[metric]
    with tempfile.TemporaryDirectory(prefix="smelt-lmms-") as scratch:  # it writes a file besides
        return float(count([value], SimpleNamespace(output_path=scratch))) / _COUNTED[metric]
