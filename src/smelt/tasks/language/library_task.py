"""Tasks of the harness's own library: `lm-eval:gsm8k_cot`, its groups too (`lm-eval:m_mmlu`), each by its first metric
or by one that is named (`lm-eval:arc_multilingual@acc_norm`). Splits, and documents that are set apart for validation
(`lm-eval:mmlu_stem#validation`): library_splits.py.

They load their data from the Hugging Face hub, or from its cache; where that is not possible, a message names the task
and the data set. A group is one task here: its score is the mean over the examples of all its parts, read by the first
filter. Tasks that run code which a model wrote (HumanEval, MBPP) run it in Smelt's sandbox. SQuAD 2.0 is scored example
by example, and BLEU and chrF over all replies together (scoring/corpus.py).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.errors import MissingExtra, unknown
from smelt.tasks.documents import Documents
from smelt.tasks.kinds import TaskKind, task_kinds
from smelt.tasks.language.harness import library_parts, quiet_harness
from smelt.tasks.language.library_splits import LibraryName, documents_of, part_at, part_configs, splits_of
from smelt.tasks.language.scoring import instructions, reading
from smelt.tasks.language.task import LibraryTask
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    from smelt.tasks.pictures.data_cache import DataCache

__all__ = ["PREFIX", "LmEvalTask", "lm_eval_task"]

PREFIX = "lm-eval:"
_CHAT = frozenset({"ifeval"})
"""Tasks whose prompts are a user's words; others have prompts to be continued."""
_TESTED = ("humaneval", "mbpp")
"""Tasks that run programs, and whose reference is the code that tests them."""


@dataclass(frozen=True)
class LmEvalTask(LibraryTask):
    """A task or a group of the lm-evaluation-harness."""

    PREFIX: ClassVar[str] = PREFIX

    @property
    def source(self) -> str:
        return "the lm-evaluation-harness, with data of the Hugging Face hub"

    @property
    def library_name(self) -> LibraryName:
        """What its name says."""
        return LibraryName.read(self.name)

    @property
    def metric(self) -> str:
        return self.library_name.metric

    @property
    def splits(self) -> tuple[str, ...]:
        return splits_of(self._configs, self.library_name.held_out)

    @property
    def delimiter(self) -> str:
        (part,) = {str(one.config.target_delimiter) for one in _parts(self.library_name.task).values()}
        return part

    def check_split(self, split: str) -> None:
        """Refuse a split that the library does not name; `test` is nearly always there, and no index is read for it."""
        known = self.library_name
        if split == "test" and known.held_out is None:
            return
        if split == "val" and not (known.held_out or split in self.splits):
            there = ", ".join(self.splits)
            raise TaskError(
                f"{self.reference}: the library names no validation split of it (it has: {there}); say which documents "
                f"are for validation: {self.reference}#SPLIT with a split of its data set, or "
                f"{self.reference}#test[:200] for 200 documents of `test`, which are then not in `test`"
            )
        super().check_split(split)

    def data_sets(self) -> list[tuple[str, str | None]]:
        return [(str(one["dataset_path"]), one.get("dataset_name")) for one in self._configs if one.get("dataset_path")]

    def documents(self, split: str) -> list[Documents]:
        self.check_split(split)
        return documents_of(self._configs, split, self.library_name.held_out)

    def harness_tasks(self, split: str) -> dict[str, Any]:
        self.check_split(split)
        known = self.library_name
        return {name: part_at(part, split, known.held_out, self.reference) for name, part in _parts(known.task).items()}

    def number_of_examples(self, split: str, data: DataCache) -> int:
        return self.number_asked(split, None, data)

    def number_asked(self, split: str, limit: int | None, data: DataCache) -> int:
        """A limit is one of each part."""
        sizes = [len(part.eval_docs) for part in self.harness_tasks(split).values()]
        return sum(size if limit is None else min(size, limit) for size in sizes)

    @property
    def _configs(self) -> Sequence[Mapping[str, Any]]:
        return _configs(self.library_name.task)


def lm_eval_task(name: str) -> LmEvalTask:
    """A task by its name in the library, without a look whether it is there: its index takes seconds to read."""
    name = name.removeprefix(PREFIX)
    chat = {"chat": "if-any"} if LibraryName.read(name).task in _CHAT else {}
    return LmEvalTask(name, Path(), {"metadata": chat})


@functools.lru_cache(maxsize=64)
def _configs(name: str) -> Sequence[Mapping[str, Any]]:
    """Of all parts, without their data."""
    with quiet_harness():
        manager = _manager()
        if name not in manager.all_tasks:
            raise TaskError(unknown("task of the lm-evaluation-harness", name, manager.all_tasks))
        return list(part_configs(manager, name))


@functools.lru_cache(maxsize=64)
def _parts(name: str) -> Mapping[str, Any]:
    def load() -> dict[str, Any]:
        with _code_allowed(), _squad_metrics(), contextlib.redirect_stdout(io.StringIO()):
            return dict(manager.load([name])["tasks"])

    def config_of(one: str) -> Mapping[str, Any]:
        from lm_eval.tasks._yaml_loader import load_yaml

        return dict(load_yaml(manager.task_index[one].yaml_path, resolve_func=False, recursive=True))

    with quiet_harness():
        manager = _manager()
        parts = library_parts(PREFIX, "the lm-evaluation-harness", name, manager, load, config_of)
    for part in parts.values():
        if getattr(part, "UNSAFE_CODE", False):
            _judge_in_sandbox(part)
        if str(part.config.task) == "squadv2":
            _score_each(part)
        if str(part.config.task) == "ifeval":
            _fetch_tokenizer()
    return parts


def _fetch_tokenizer() -> None:
    """IFEval's own import leaves it out where our scoring has loaded its checkers before."""
    with contextlib.suppress(MissingExtra):  # most prompts do without
        instructions.fetch_tokenizer()


def _score_each(part: Any) -> None:
    """Have SQuAD 2.0 scored example by example: the library scores all at once, by a script from the network."""
    metrics = ("exact", "f1")
    part._metric_fn_list = dict.fromkeys(metrics)
    part.process_results = lambda doc, results: reading.score(doc, results)
    part.aggregation = lambda: dict.fromkeys(metrics, lambda scores: sum(scores) / len(scores))
    part.higher_is_better = lambda: dict.fromkeys(metrics, True)


def _judge_in_sandbox(part: Any) -> None:
    """Have a task that runs programs run them here; one that would not is refused."""
    name = str(part.config.task)
    if not name.startswith(_TESTED) or callable(part.config.process_results):
        raise TaskError(
            f"{PREFIX}{name}: runs what a model wrote by functions of its own, outside of Smelt's sandbox, and is not "
            f"asked; tasks that test programs by assertions are ({', '.join(_TESTED)})"
        )
    part._metric_fn_list = dict.fromkeys(part._metric_fn_list, passes_in_sandbox)


@contextmanager
def _code_allowed() -> Iterator[None]:
    """Some tasks ask for this word when they are loaded; their programs run in the sandbox all the same.

    They also fetch a script that runs programs. Ours is given to them in its place, so that no code comes from the
    network.
    """
    import evaluate

    word, load = "HF_ALLOW_CODE_EVAL", evaluate.load
    before = os.environ.get(word)
    os.environ[word] = "1"
    evaluate.load = lambda name, *how, **words: _CodeEval() if name == "code_eval" else load(name, *how, **words)
    try:
        yield
    finally:
        evaluate.load = load
        if before is None:
            del os.environ[word]
        else:
            os.environ[word] = before


@contextmanager
def _squad_metrics() -> Iterator[None]:
    """CoQA imports SQuAD's scores from transformers, which has them no longer from version 5 on: ours do the same."""
    home = "transformers.data.metrics"
    if importlib.util.find_spec("transformers.data") and importlib.util.find_spec(home):
        yield
        return
    package, module = ModuleType(home), ModuleType(f"{home}.squad_metrics")
    module.compute_exact, module.compute_f1 = reading.compute_exact, reading.compute_f1  # type: ignore[attr-defined]
    package.squad_metrics = module  # type: ignore[attr-defined]
    sys.modules |= {home: package, module.__name__: module}
    try:
        yield
    finally:
        del sys.modules[home], sys.modules[module.__name__]


class _CodeEval:
    """What `evaluate.load("code_eval")` would give, with the sandbox behind it."""

    def compute(self, references: Sequence[str], predictions: Sequence[Any], **_: Any) -> tuple[dict[str, float], Any]:
        return {"pass@1": passes_in_sandbox(references, predictions)}, {}


@functools.cache
def _manager() -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager()


def passes_in_sandbox(references: Sequence[str], predictions: Sequence[Any], **_: Any) -> float:
    """Pass@1: the share of predictions whose first program passes its tests."""
    from smelt.tasks.sandbox.execution import judge

    programs = [one if isinstance(one, str) else one[0] for one in predictions]
    outcomes = [judge(program, tests) for program, tests in zip(programs, references, strict=True)]
    return sum(outcome.status == "ok" for outcome in outcomes) / len(outcomes)


task_kinds["lm-eval"] = TaskKind(lm_eval_task, prefix=PREFIX)
