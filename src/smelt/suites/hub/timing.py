"""Time, really spent: the chosen models classify pictures of a task, as anyone who reuses them would."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from smelt.suites.hub.rows import used_in
from smelt.suites.hub.suite import Method
from smelt.suites.hub.task_scores import Chosen
from smelt.suites.hub.work import WorkingHub

__all__ = ["timed"]


def timed(work: WorkingHub, method: Method, timing: Mapping[str, Any], every: Mapping[int, Chosen]) -> dict[int, float]:
    """For every k the seconds that its models take for some pictures of a task: the least of a few rounds.

    All k have their turn in every round, so that a machine that slows down does so for all of them.
    """
    import numpy as np

    from smelt.ensembles.per_class import PerClass
    from smelt.suites.units import shared_data

    task = work.tasks[timing["task"]]
    split = shared_data().split(task, "test")
    pictures = list(split.read(np.arange(min(timing["pictures"], len(split.labels)))))
    together = {}
    for k, chosen in every.items():
        names = [[work.names[number] for number in numbers] for numbers in chosen]
        members = {name: work.members[name].classifier for name in used_in(work, chosen)}
        together[k] = PerClass(members, names, weights=method.weights, scale=work.words["scale"])
        together[k].scores_of(pictures[:2], task.classes, task.templates)  # heads are built, memory is there
    least = dict.fromkeys(every, float("inf"))
    for _ in range(timing["repeats"]):
        for k, predictor in together.items():
            began = time.perf_counter()
            predictor.scores_of(pictures, task.classes, task.templates)
            least[k] = min(least[k], time.perf_counter() - began)
    return least
