"""The harness without its chatter (it logs and draws bars; Smelt says itself how far it is), and libraries of tasks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from smelt.errors import MissingExtra, unknown
from smelt.models.verified_download import WrongHash, hub_fault, verified_data_sets
from smelt.tasks.task import TaskError
from smelt.tasks.template_sandbox.rendering import render

__all__ = ["harness", "library_parts", "quiet_harness", "silenced"]


def harness() -> Any:
    """The library, or the name of the extra that brings it.

    Its templates are rendered by `tasks/templates`, which it knows nothing of: it would give them all of Python.
    """
    try:
        import lm_eval.api.task
        import lm_eval.evaluator
        import lm_eval.utils
    except ImportError as error:
        raise MissingExtra(
            f"language tasks need the lm-evaluation-harness ({error}): pip install 'smelt[llm]'"
        ) from None
    lm_eval.utils.apply_template = render
    return lm_eval


@contextmanager
def quiet_harness() -> Iterator[Any]:
    """The library, silent in here but for errors."""
    library = harness()
    with silenced(library, "lm_eval"):
        yield library


@contextmanager
def silenced(library: Any, *loggers: str) -> Iterator[None]:
    """A harness, and the libraries that load its data, say nothing but errors in here and draw no bars."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    several = [logging.getLogger(name) for name in (*loggers, "datasets", "huggingface_hub", "httpx")]
    levels = [logger.level for logger in several]
    bar = library.api.task.tqdm
    try:
        for logger in several:
            logger.setLevel(logging.ERROR)
        library.api.task.tqdm = functools.partial(bar, disable=True)
        datasets.disable_progress_bars()
        yield
    finally:
        library.api.task.tqdm = bar
        if not hidden:
            datasets.enable_progress_bars()
        for logger, level in zip(several, levels, strict=True):
            logger.setLevel(level)


def library_parts(
    prefix: str,
    what: str,
    name: str,
    manager: Any,
    load: Callable[[], dict[str, Any]],
    config_of: Callable[[str], Mapping[str, Any]],
) -> dict[str, Any]:
    """The task objects of a task or of a group of a library, by name, with their data.

    `what` is the library, for messages; `config_of` gives the config of a task by its name.
    """
    if name not in manager.all_tasks:
        raise TaskError(unknown(f"task of {what}", name, manager.all_tasks))
    try:
        with verified_data_sets():
            return load()
    except WrongHash:
        raise
    except (Exception, SystemExit) as error:  # whatever the library, the data library and the network raise
        if (reason := hub_fault(error)) is not None:
            raise TaskError(f"{prefix}{name}: its data set ({_data_of(name, config_of)}) {reason}") from error
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise TaskError(
            f"{prefix}{name}: it, or its data set ({_data_of(name, config_of)}), could not be loaded "
            f"({type(error).__name__}: {lines[0][:200]}); what is not in the local cache needs the network"
        ) from error


def _data_of(name: str, config_of: Callable[[str], Mapping[str, Any]]) -> str:
    """The data set that a task names, or the first part of a group; a word for a message."""
    try:
        config = config_of(name)
        parts = config.get("task")
        if "dataset_path" in config or not isinstance(parts, list):
            return str(config.get("dataset_path", "not named"))
        first = parts[0]["task"] if isinstance(parts[0], dict) else parts[0]
        return "not named" if first == name else _data_of(str(first), config_of)
    except Exception:
        return "not named"
