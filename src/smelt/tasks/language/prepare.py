"""From a task to the harness's own task object: data in memory, functions in place, one split under the word test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import SmeltError, unknown
from smelt.files.remote_code import permit_code
from smelt.tasks.language.harness import quiet_harness
from smelt.tasks.language.harness_file import resolved
from smelt.tasks.language.records import as_dataset
from smelt.tasks.task import TaskError
from smelt.tasks.template_sandbox.rendering import TemplateFailed

if TYPE_CHECKING:
    from smelt.tasks.language.task import LanguageTask

__all__ = ["built", "harness_task", "pairs_of"]


def harness_task(task: LanguageTask, split: str) -> Any:
    """A ConfigurableTask that is evaluated on this split, whichever it is."""
    config = resolved(dict(task.config))
    config["test_split"] = task.harness_split(split)
    config.pop("validation_split", None)
    shots = int(config.get("num_fewshot") or 0)
    if not shots or config.get("training_split") == config["test_split"]:
        config.pop("training_split", None)  # examples in the prompt are the only use for it here
    if task.files:
        wanted = {split, *(["train"] if shots and "train" in task.files else [])}
        if config.get("fewshot_split") in task.files:
            wanted.add(config["fewshot_split"])
        data = {name: as_dataset(task.records(name)) for name in task.splits if name in wanted}
        config |= {"custom_dataset": lambda **_: data, "dataset_kwargs": None}
    return built(task.name, task.source, config)


def built(name: str, source: str, config: dict[str, Any]) -> Any:
    """The harness's object, or a message that names the task and its data."""
    with quiet_harness() as library:
        from lm_eval.config.task import TaskConfig

        words = [one.name for one in dataclasses.fields(TaskConfig)]
        strange = [word for word in config if word not in words]
        if strange:
            raise TaskError(f"{name}: {unknown('word of a language task', strange[0], words)}")
        _permit(name, config)
        try:
            return library.api.task.ConfigurableTask(config=config)
        except TemplateFailed as error:
            raise TaskError(f"{name}: {error}") from None
        except SmeltError:
            raise
        except Exception as error:  # whatever the harness, the data library and the network raise
            raise TaskError(f"{name}: cannot be prepared from {source} ({_said(error)})") from error


def _permit(name: str, config: Mapping[str, Any]) -> None:
    """Refuse words that make libraries run code, or load pickles, that a task chooses by name."""
    from lm_eval.api.registry import get_metric, metric_registry

    get_metric("acc")  # fills the registry
    scored = config.get("process_results") is not None  # then metrics are only names of what it gives
    for one in () if scored else config.get("metric_list") or ():
        metric = one.get("metric") if isinstance(one, dict) else None
        if isinstance(metric, str) and (one.get("hf_evaluate") or metric not in metric_registry):
            permit_code(name, f"the metric {metric!r}, a script of the evaluate library")
    if config.get("use_prompt") is not None:
        permit_code(name, f"use_prompt: {config['use_prompt']}, a template of another library")
    if config.get("dataset_path") == "pandas":
        permit_code(name, "dataset_path: pandas, whose files are pickles")


def pairs_of(task: Any) -> list[tuple[str, str]]:
    """Prompt and answer of every example of a prepared task; of several right answers the first."""
    try:
        return [(str(task.doc_to_text(doc)), answer_of(task, doc)) for doc in task.eval_docs]
    except TemplateFailed as error:
        raise TaskError(f"{task.config.task}: {error}") from None


def answer_of(task: Any, doc: dict[str, Any]) -> str:
    """The reference answer of one example as text."""
    target = task.doc_to_target(doc)
    if isinstance(target, int) and task.config.doc_to_choice is not None:
        return str(task.doc_to_choice(doc)[target])
    if isinstance(target, list):
        stored = doc.get("answer")  # an answer that looks like a list is read as one by the harness
        return stored if isinstance(stored, str) else str(target[0] if target else "")
    return str(target)


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no reason given'}"
