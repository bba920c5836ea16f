"""A language task on one model: the harness asks and scores it, and a result comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from smelt.errors import SmeltError
from smelt.models.served.model import ServedModel
from smelt.system.progress import Progress
from smelt.system.threads import torch_threads
from smelt.tasks.language.harness import quiet_harness
from smelt.tasks.language.judge import judge_scores
from smelt.tasks.language.prepare import answer_of
from smelt.tasks.language.scoring.corpus import CORPUS_METRICS, corpus_score, is_pair
from smelt.tasks.language.served.at_once import REQUESTS
from smelt.tasks.language.served.needs import served_refusal
from smelt.tasks.result import Result, as_scores
from smelt.tasks.sandbox.protection import announced, protection
from smelt.tasks.task import PreparedTask, TaskError
from smelt.tasks.template_sandbox.rendering import TemplateFailed

if TYPE_CHECKING:
    from smelt.tasks.language.task import LanguageTask

__all__ = ["PreparedLanguage", "task_faults"]

_PROGRAMS = "smelt.tasks.language.scoring.programs"


@dataclass(frozen=True)
class PreparedLanguage(PreparedTask):
    """A task with the harness's own objects: one, or all those of a group of its library."""

    task: LanguageTask
    split: str
    limit: int | None
    parts: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.runs_programs:  # what this system does not protect from is said before a model is loaded
            announced()

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

    def result(self, scores: Sequence[float], samples: Sequence[dict[str, Any]], **more: Any) -> Result:
        """Scores of examples as a result."""
        task = self.task
        return Result(task.name, self.version, self.split, scores, self.metric, samples=tuple(samples), **more)

    def refusal(self, model: Any) -> SmeltError | None:
        if not isinstance(model, ServedModel):
            return None
        kinds = {str(part.OUTPUT_TYPE) for part in self.parts.values()}
        optional = self.task.metadata.get("chat") == "if-any"
        said = served_refusal(model, self.task.name, kinds, chat=self.task.chat, may_do_without=optional)
        return TaskError(said) if said else None

    def ask(self, model: Any, *, batch: int, threads: int | None, watch: Progress) -> Result:
        task = self.task
        chat = task.chat and _has_chat(model)
        if task.chat and not chat and task.metadata["chat"] != "if-any":
            raise TaskError(
                f"{task.name}: its prompts go into a chat template, but {model.label} has none; "
                "give the model one (`chat_template: from-base` where it is merged), or use tasks with `chat: false`"
            )
        with torch_threads(threads), quiet_harness() as library, task_faults(task.name):
            watch.begin(task.name, _requests(self))
            lm = _asked_by_harness(model, batch, threads, watch)
            found = library.evaluator.evaluate(
                lm,
                {"tasks": dict(self.parts)},
                limit=self.limit,
                bootstrap_iters=0,
                log_samples=True,
                apply_chat_template=chat,
                fewshot_as_multiturn=True,
                confirm_run_unsafe_code=True,  # library_task.py has put our sandbox in the place of what runs code
            )
            samples = [sample for name in self.parts for sample in found["samples"][name]]
            loss = _loss(lm, self, chat) if task.wants_loss and getattr(lm, "scores", True) else None
        scored = _of_first_filter(samples)
        metric = self.metric
        if task.judge is not None:
            return self._judged(task.judge, scored, model)
        missing = next((sample for sample in scored if metric not in sample), None)
        if missing is not None:
            known = ", ".join(missing.get("metrics", ())) or "none"
            raise TaskError(f"{task.name}: its scoring gives no {metric!r}, which is its score; it gives: {known}")
        values = [sample[metric] for sample in scored]
        if metric in CORPUS_METRICS and all(map(is_pair, values)):
            found = corpus_score(metric, values)
            alone = [corpus_score(metric, [pair]).score for pair in values]
            whole = (found.score, found.low, found.high)
            return self.result(alone, scored, domain=task.domain, whole=whole, loss=loss)
        scores = as_scores(task.name, metric, values)
        sandbox = protection().name if self.runs_programs else None
        return self.result(scores, scored, domain=task.domain, loss=loss, sandbox=sandbox)

    def _judged(self, judge: str, samples: Sequence[dict[str, Any]], model: Any) -> Result:
        """The replies as another model judges them."""
        task, (part,) = self.task, self.parts.values()
        exchanges = [(str(part.doc_to_text(one["doc"])), str(one["filtered_resps"][0]), one["doc"]) for one in samples]
        with task_faults(task.name):
            place = {} if isinstance(model, ServedModel) else {"device": model.device, "dtype": model.dtype}
            scores = judge_scores(judge, task.judged, exchanges, **place)
        metric = f"{task.judged}, judged by {judge}"
        return replace(self.result(scores, samples, domain=task.domain), metric=metric)


@contextmanager
def task_faults(name: str) -> Iterator[None]:
    """Whatever a task's own functions, templates or a harness raise is one error that names the task."""
    try:
        yield
    except TemplateFailed as error:
        raise TaskError(f"{name}: {error}") from None
    except (SmeltError, KeyboardInterrupt):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise TaskError(f"{name}: cannot be asked ({type(error).__name__}: {lines[0]})") from error


def _has_chat(model: Any) -> bool:
    """Whether there is a template that its chats go into."""
    return model.has_chat if isinstance(model, ServedModel) else bool(model.tokenizer.chat_template)


def _asked_by_harness(model: Any, batch: int, threads: int | None, watch: Progress) -> Any:
    """A model as the harness asks it: one in memory, or one that a server holds."""
    if isinstance(model, ServedModel):
        from smelt.tasks.language.served.harness_model import served_harness_model

        return served_harness_model(model, requests=min(batch, threads or REQUESTS), tell=watch.advance)
    from smelt.tasks.language.harness_model import harness_model

    return harness_model(model, rows=batch, tell=watch.advance)


def _requests(one: PreparedLanguage) -> int:
    """About how many there are: choices count one by one."""
    total = 0
    for part in one.parts.values():
        docs = part.eval_docs
        count = len(docs) if one.limit is None else min(one.limit, len(docs))
        choices = part.config.doc_to_choice is not None and part.OUTPUT_TYPE == "multiple_choice"
        total += count * (len(part.doc_to_choice(docs[0])) if choices else 1)
    return total


def _of_first_filter(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A task may read answers in several ways (strict, flexible); the first is the one that counts."""
    return [sample for sample in samples if sample["filter"] == samples[0]["filter"]]


def _loss(lm: Any, one: PreparedLanguage, chat: bool) -> float:
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
