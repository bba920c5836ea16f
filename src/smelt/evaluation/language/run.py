"""Language tasks on one model, one after the other: what goes wrong with one costs that one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError, SmeltError
from smelt.evaluation.language.result import LanguageResult, as_scores
from smelt.files.remote_code import CodeNotTrusted
from smelt.system.progress import Progress
from smelt.tasks.language.prepare import answer_of
from smelt.tasks.language.quiet import quiet_harness
from smelt.tasks.pictures.task import TaskError
from smelt.tasks.sandbox import announced, protection
from smelt.tasks.templates import TemplateFailed

if TYPE_CHECKING:
    from smelt.models.families.causal_lm.model import CausalLM
    from smelt.tasks.language.task import LanguageTask

__all__ = ["Failure", "Prepared", "ask", "prepared"]

_PROGRAMS = "smelt.tasks.language.scoring.programs"


@dataclass(frozen=True)
class Failure:
    """A task that could not be asked, and why."""

    task: str
    error: SmeltError


@dataclass(frozen=True)
class Prepared:
    """A task with the harness's own objects: one, or all those of a group of its library."""

    task: LanguageTask
    split: str
    parts: Mapping[str, Any]

    @property
    def metric(self) -> str:
        """The task's, or the first of its first part where the task is the library's."""
        return self.task.metric or str(next(iter(next(iter(self.parts.values()))._metric_fn_list)))

    @property
    def version(self) -> int:
        """The task's, or what the library says."""
        told = next(iter(self.parts.values())).VERSION
        return int(float(told)) if isinstance(told, int | float) else self.task.version

    @property
    def runs_programs(self) -> bool:
        """Whether judging its answers runs code that they contain: it says so, or our functions for that judge them."""
        return any(
            getattr(part, "UNSAFE_CODE", False)
            or getattr(getattr(part.config, "process_results", None), "__module__", None) == _PROGRAMS
            for part in self.parts.values()
        )


def prepared(tasks: Sequence[LanguageTask], split: str) -> tuple[list[Prepared], list[Failure]]:
    """Tasks with their data, before any model is loaded.

    A split that a task lacks is refused for all, and so is code that nobody allowed: a flag is quickly given, and what
    the others would take by then is not. Where programs of models will run, what this system does not protect from is
    said now.
    """
    for task in tasks:
        task.check_split(split)
    ready, failures = [], []
    for task in tasks:
        try:
            ready.append(Prepared(task, split, task.harness_tasks(split)))
        except CodeNotTrusted:
            raise
        except SmeltError as error:
            failures.append(Failure(task.name, error))
    if any(one.runs_programs for one in ready):
        announced()
    return ready, failures


def ask(
    model: CausalLM,
    tasks: Sequence[Prepared],
    *,
    limit: int | None = None,
    rows: int = 256,
    quiet: bool = True,
) -> tuple[list[LanguageResult], list[Failure]]:
    """The results of every task that could be asked, and what went wrong with the others."""
    from smelt.evaluation.language.model import harness_model

    results, failures = [], []
    with quiet_harness() as library, Progress(quiet, "requests") as watch:
        lm = harness_model(model, rows=rows, tell=watch.advance)
        for one in tasks:
            try:
                results.append(_ask(library, lm, model, one, limit, watch))
            except NumericalError:  # the model's own fault, whatever the task
                raise NumericalError(
                    f"{model.label} gives NaN or infinite scores on {one.task.name}; its weights are not sound"
                ) from None
            except TemplateFailed as error:
                failures.append(Failure(one.task.name, TaskError(f"{one.task.name}: {error}")))
            except SmeltError as error:
                failures.append(Failure(one.task.name, error))
    return results, failures


def _ask(library: Any, lm: Any, model: CausalLM, one: Prepared, limit: int | None, watch: Progress) -> LanguageResult:
    began, task = time.perf_counter(), one.task
    chat = task.chat and bool(model.tokenizer.chat_template)
    if task.chat and not chat and task.metadata["chat"] != "if-any":
        raise TaskError(
            f"{task.name}: its prompts go into a chat template, but {model.label} has none; "
            "give the model one (`chat_template: from-base` where it is merged), or use tasks with `chat: false`"
        )
    watch.begin(task.name, _requests(one, limit))
    try:
        found = library.evaluator.evaluate(
            lm,
            {"tasks": dict(one.parts)},
            limit=limit,
            bootstrap_iters=0,
            log_samples=True,
            apply_chat_template=chat,
            fewshot_as_multiturn=True,
            confirm_run_unsafe_code=True,  # library.py has put our sandbox in the place of what runs code
        )
        samples = [sample for name in one.parts for sample in found["samples"][name]]
    except (SmeltError, KeyboardInterrupt):
        raise
    except Exception as error:  # of a task's own functions, or of the harness
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise TaskError(f"{task.name}: cannot be asked ({type(error).__name__}: {lines[0]})") from error
    scored = _of_first_filter(samples)
    metric = one.metric
    missing = next((sample for sample in scored if metric not in sample), None)
    if missing is not None:
        known = ", ".join(missing.get("metrics", ())) or "none"
        raise TaskError(f"{task.name}: its scoring gives no {metric!r}, which is its score; it gives: {known}")
    scores = as_scores(task.name, metric, [sample[metric] for sample in scored])
    loss = _loss(lm, one, chat) if task.wants_loss else None
    seconds = time.perf_counter() - began
    sandbox = protection().name if one.runs_programs else None
    result = LanguageResult(
        task.name, one.version, one.split, metric, scores, seconds, task.domain, loss, tuple(scored), sandbox
    )
    watch.end(f"{100 * result.accuracy:.1f} %")
    return result


def _requests(one: Prepared, limit: int | None) -> int:
    """About how many there are: choices count one by one."""
    total = 0
    for part in one.parts.values():
        docs = part.eval_docs
        count = len(docs) if limit is None else min(limit, len(docs))
        choices = part.config.doc_to_choice is not None and part.OUTPUT_TYPE == "multiple_choice"
        total += count * (len(part.doc_to_choice(docs[0])) if choices else 1)
    return total


def _of_first_filter(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A task may read answers in several ways (strict, flexible); the first is the one that counts."""
    return [sample for sample in samples if sample["filter"] == samples[0]["filter"]]


def _loss(lm: Any, one: Prepared, chat: bool) -> float:
    """The mean negative log-likelihood per token of the reference answers, after the prompts that were asked."""
    pairs = []
    for part in one.parts.values():
        asked = {instance.doc_id: instance for instance in reversed(part.instances)}
        between = "" if chat else part.config.target_delimiter
        for _, instance in sorted(asked.items()):
            answer = lm.tok_encode(between + answer_of(part, instance.doc), add_special_tokens=False)
            pairs.append((None, lm.tok_encode(instance.args[0]), answer))
    logs = lm._loglikelihood_tokens(pairs)
    return float(-sum(log for log, _ in logs) / max(1, sum(len(answer) for _, _, answer in pairs)))
