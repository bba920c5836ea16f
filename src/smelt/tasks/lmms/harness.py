"""lmms-eval without its chatter, and its task objects with their data."""

from __future__ import annotations

import functools
import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from smelt.errors import MissingExtra, unknown
from smelt.tasks.lmms.task import PREFIX
from smelt.tasks.task import TaskError

__all__ = ["parts", "quiet_lmms"]

_VERSION = "lmms-eval==0.7.3"
"""What the tests ran with."""


def lmms() -> Any:
    """The library, or the name of the extra that brings it.

    Loading it tells Pillow to take pictures that are cut off as they are, for the whole process: that is undone.
    """
    try:
        from PIL import ImageFile

        strict = ImageFile.LOAD_TRUNCATED_IMAGES
        try:
            import lmms_eval.api.task
            import lmms_eval.tasks
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = strict
    except ImportError as error:
        raise MissingExtra(
            f"{PREFIX}NAME needs lmms-eval ({error}): pip install 'smelt[vlm]', then pip install --no-deps {_VERSION} "
            "(with all that it requires it brings a torchvision that may not fit torch)"
        ) from None
    return lmms_eval


@contextmanager
def quiet_lmms() -> Iterator[Any]:
    """The library, silent in here: it logs, prints and draws bars; Smelt says itself how far it is."""
    library = lmms()
    from loguru import logger

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub", "httpx")]
    levels = [one.level for one in loggers]
    bar = library.api.task.tqdm
    logger.disable("lmms_eval")
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        library.api.task.tqdm = functools.partial(bar, disable=True)
        with redirect_stdout(io.StringIO()):
            yield library
    finally:
        library.api.task.tqdm = bar
        logger.enable("lmms_eval")
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


@functools.lru_cache(maxsize=32)
def parts(name: str) -> Mapping[str, Any]:
    """The task objects of a task or of a group, by name, with their data."""
    with quiet_lmms():
        manager = _manager()
        if name not in manager.all_tasks:
            raise TaskError(unknown("task of lmms-eval", name, manager.all_tasks))
        try:
            return dict(_leaves(manager.load_task_or_group([name])))
        except (Exception, SystemExit) as error:  # whatever the library, the data library and the network raise
            reason = error.__cause__ or error  # the library tries several times and says only that it did
            lines = str(reason).strip().splitlines() or ["no reason given"]
            raise TaskError(
                f"{PREFIX}{name}: it, or its data set ({_data_of(manager, name)}), could not be loaded "
                f"({type(reason).__name__}: {lines[0][:200]}); what is not in the local cache needs the network"
            ) from error


@functools.cache
def _manager() -> Any:
    from lmms_eval.tasks import TaskManager

    return TaskManager()


def _leaves(tree: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The tasks of a tree of groups."""
    for name, one in tree.items():
        if isinstance(one, Mapping):
            yield from _leaves(one)
        else:
            yield str(name), one


def _data_of(manager: Any, name: str) -> str:
    """The data set that a task names, or the first part of a group; a word for a message."""
    try:
        config = manager._get_config(name)
        members = config.get("task")
        if "dataset_path" in config or not isinstance(members, list):
            return str(config.get("dataset_path", "not named"))
        first = members[0]["task"] if isinstance(members[0], dict) else members[0]
        return "not named" if first == name else _data_of(manager, str(first))
    except Exception:
        return "not named"
