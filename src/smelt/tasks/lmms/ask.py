"""A task of lmms-eval on one model.

The library's own objects build the prompts, filter the answers and score each; what it does after that (counts, files
for servers, judges over the network) is left out: a score here is a mean over examples, with its interval.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from smelt.system.progress import Progress
from smelt.system.threads import torch_threads
from smelt.tasks.language.ask import PreparedLanguage, task_faults
from smelt.tasks.lmms.harness import quiet_lmms
from smelt.tasks.result import Result, as_scores
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["PreparedLmms"]

_COUNTED = {
    "pope_accuracy": 1,
    "mmmu_acc": 1,
    "seed_image": 1,
    "seed_video": 1,
    "seed_all": 1,
    "gpt_eval_score": 100,
    "seedbench_2_plus_all": 1,
}
"""Metrics that are counted at the end, and the count where all is right."""
_NOTED = {"ocrbench_accuracy": "score"}
"""Metrics whose count goes on from one call to the next, and the word of a note that is the example's score."""


@dataclass(frozen=True)
class PreparedLmms(PreparedLanguage):
    """A task with the library's own objects: one, or all those of a group."""

    @property
    def version(self) -> int:
        """What the library says: a number, or a list with one; mostly 0."""
        noted = next(iter(self.parts.values())).config.metadata
        first = noted[0] if isinstance(noted, list) and noted else noted
        told = first.get("version") if isinstance(first, Mapping) else None
        return int(float(told)) if isinstance(told, int | float) else self.task.version

    def ask(self, model: ImageText, *, batch: int, threads: int | None, watch: Progress) -> Result:
        from smelt.tasks.lmms.harness_model import lmms_model

        who = self.task.reference
        with torch_threads(threads), quiet_lmms(), task_faults(who):
            lm = lmms_model(model, rows=batch, tell=watch.advance)
            for part in self.parts.values():
                part.build_all_requests(limit=self.limit)
                lm.task_dict[part.config.task] = part.dataset
            watch.begin(self.task.name, sum(len(part.instances) for part in self.parts.values()))
            samples = [sample for part in self.parts.values() for sample in _samples(lm, part, self.metric)]
        scored = [sample for sample in samples if sample["score"] is not None]
        if not scored:
            known = ", ".join(samples[0]["told"])
            raise TaskError(f"{who}: its scoring gives no {self.metric!r}, which is its score; it gives: {known}")
        return self.result(as_scores(who, self.metric, [sample["score"] for sample in scored]), scored)


def _samples(lm: Any, part: Any, metric: str) -> list[dict[str, Any]]:
    """Every example of a part, with its answers by the first filter and its score."""
    kinds: dict[str, list[Any]] = {}
    for instance in part.instances:
        kinds.setdefault(instance.request_type, []).append(instance)
    for kind, instances in kinds.items():
        if not hasattr(lm, kind):
            raise TaskError(f"{part.config.task}: its requests are of the kind {kind}, which cannot be asked here")
        for instance, answer in zip(instances, getattr(lm, kind)(instances), strict=True):
            instance.resps.append(answer)
    part.apply_filters()
    groups: dict[int, list[Any]] = {}
    for instance in part.instances:
        groups.setdefault(instance.doc_id, []).append(instance)
    docs, found = part.eval_docs_no_media, []
    for number, instances in sorted(groups.items()):
        instances.sort(key=lambda one: one.idx)
        first = next(iter(instances[0].filtered_resps))
        answers = [one.filtered_resps[first] for one in instances]
        told: Mapping[str, Any] = part.process_results(docs[number], answers)
        score = _score(part, metric, told)
        found.append(
            {"doc_id": number, "prompt": instances[0].args[0], "answers": answers, "told": told, "score": score}
        )
    return found


def _score(part: Any, metric: str, told: Mapping[str, Any]) -> float | None:
    """What one example scores, between 0 and 1; nothing where this metric is not about that example.

    Most tasks say it themselves. Some hand on a note of the answer and count notes at the end; of those that are means
    over examples, the count over one note is the score of that example. Others (F1, a judge over the network, a file
    for a server) are refused.
    """
    if metric not in told:
        return None
    value = told[metric]
    if isinstance(value, bool | int | float):
        return float(value)
    if metric in _NOTED and isinstance(value, Mapping):
        return float(value[_NOTED[metric]])
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
