"""mteb without its chatter, and its task objects with their data."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smelt.errors import MissingExtra, SmeltError, shortened, unknown
from smelt.models.verified_download import hub_fault, verified_data_sets
from smelt.tasks.task import TaskError

__all__ = ["library_version", "loaded_task", "quiet_mteb", "task_object"]

_LOGGERS = ("mteb", "datasets", "huggingface_hub", "httpx", "sentence_transformers")


def library() -> Any:
    """The library, or the name of what brings it."""
    try:
        import mteb
    except ImportError as error:
        raise MissingExtra(f"mteb:NAME needs mteb ({error}): pip install 'smelt[embed]'") from None
    return mteb


def library_version() -> str:
    """As it calls itself."""
    return str(library().__version__)


def task_object(name: str, data: Path | None) -> Any:
    """The library's own object for a task, without its data; they are read from `data` where that is given."""
    with quiet_mteb():
        mteb = library()
        try:
            found = mteb.get_task(name)
        except KeyError:
            names = sorted(one.metadata.name for one in mteb.get_tasks(exclude_superseded=False))
            raise TaskError(unknown("task of mteb", name, names)) from None
    if data is not None:
        found.metadata = found.metadata.model_copy(update={"dataset": {"path": str(data.resolve()), "revision": None}})
    return found


def loaded_task(name: str, data: Path | None) -> Any:
    """The same with its data."""
    found = task_object(name, data)
    place = str(data or found.metadata.dataset.get("path"))
    try:
        with quiet_mteb(), verified_data_sets():
            found.load_data()
    except (SmeltError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:  # whatever the library, the data library and the network raise
        if data is None and (reason := hub_fault(error)) is not None:
            raise TaskError(f"mteb:{name}: its data set ({place}) {reason}") from error
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise TaskError(
            f"mteb:{name}: its data set ({place}) could not be loaded ({type(error).__name__}: {shortened(lines[0])}); "
            "what is not in the local cache needs the network, or a folder with the data: mteb:NAME@FOLDER"
        ) from error
    return found


@contextlib.contextmanager
def quiet_mteb() -> Iterator[None]:
    """The library logs, warns, prints and draws bars; Smelt says itself how far it is."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [one.level for one in loggers]
    datasets.disable_progress_bars()
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
