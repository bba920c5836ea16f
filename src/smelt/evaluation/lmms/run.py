"""Tasks of lmms-eval on one model, one after the other: what goes wrong with one costs that one.

The library's own objects build the prompts, filter the answers and score each; what it does after that (counts, files
for servers, judges over the network) is left out: a score here is a mean over examples, with its interval.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError, SmeltError
from smelt.evaluation.language.result import LanguageResult, as_scores
from smelt.evaluation.language.run import Failure, Prepared
from smelt.system.progress import Progress
from smelt.tasks.lmms.library import quiet_lmms
from smelt.tasks.lmms.scores import score_of
from smelt.tasks.pictures.task import TaskError

if TYPE_CHECKING:
    from smelt.models.families.image_text.model import ImageText

__all__ = ["ask_lmms"]


def ask_lmms(
    model: ImageText, tasks: Sequence[Prepared], *, limit: int | None = None, rows: int = 256, quiet: bool = True
) -> tuple[list[LanguageResult], list[Failure]]:
    """The results of every task that could be asked, and what went wrong with the others."""
    from smelt.evaluation.lmms.model import lmms_model

    results, failures = [], []
    with Progress(quiet, "requests") as watch:
        for one in tasks:
            try:
                with quiet_lmms():
                    lm = lmms_model(model, rows=rows, tell=watch.advance)
                    results.append(_ask(lm, one, limit, watch))
            except NumericalError:  # the model's own fault, whatever the task
                raise NumericalError(
                    f"{model.label} gives NaN or infinite scores on {one.task.name}; its weights are not sound"
                ) from None
            except SmeltError as error:
                failures.append(Failure(one.task.name, error))
    return results, failures


def _ask(lm: Any, one: Prepared, limit: int | None, watch: Progress) -> LanguageResult:
    began, task = time.perf_counter(), one.task
    try:
        for part in one.parts.values():
            part.build_all_requests(limit=limit)
            lm.task_dict[part.config.task] = part.dataset
        watch.begin(task.name, sum(len(part.instances) for part in one.parts.values()))
        samples = [sample for part in one.parts.values() for sample in _samples(lm, part, one.metric)]
    except (SmeltError, KeyboardInterrupt):
        raise
    except Exception as error:  # of a task's own functions, or of the library
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise TaskError(f"{task.reference}: cannot be asked ({type(error).__name__}: {lines[0]})") from error
    scored = [sample for sample in samples if sample["score"] is not None]
    if not scored:
        known = ", ".join(samples[0]["told"])
        raise TaskError(f"{task.reference}: its scoring gives no {one.metric!r}, which is its score; it gives: {known}")
    scores = as_scores(task.reference, one.metric, [sample["score"] for sample in scored])
    seconds = time.perf_counter() - began
    result = LanguageResult(task.name, _version(one), one.split, one.metric, scores, seconds, samples=tuple(scored))
    watch.end(f"{100 * result.accuracy:.1f} %")
    return result


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
        score = score_of(part, metric, told)
        found.append(
            {"doc_id": number, "prompt": instances[0].args[0], "answers": answers, "told": told, "score": score}
        )
    return found


def _version(one: Prepared) -> int:
    """What the library says: a number, or a list with one; mostly 0."""
    noted = next(iter(one.parts.values())).config.metadata
    first = noted[0] if isinstance(noted, list) and noted else noted
    told = first.get("version") if isinstance(first, Mapping) else None
    return int(float(told)) if isinstance(told, int | float) else one.task.version
