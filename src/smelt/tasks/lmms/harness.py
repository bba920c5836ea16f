"""lmms-eval without its chatter, and its task objects with their data."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from smelt.errors import MissingExtra, unknown
from smelt.tasks.language.harness import library_parts, silenced
from smelt.tasks.lmms.task import PREFIX
from smelt.tasks.task import TaskError

__all__ = ["part_configs", "parts", "quiet_lmms"]

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

    logger.disable("lmms_eval")
    try:
        with silenced(library), redirect_stdout(io.StringIO()):
            yield library
    finally:
        logger.enable("lmms_eval")


@functools.lru_cache(maxsize=32)
def parts(name: str) -> Mapping[str, Any]:
    """The task objects of a task or of a group, by name, with their data."""

    def load() -> dict[str, Any]:
        try:
            return dict(_leaves(manager.load_task_or_group([name])))
        except (Exception, SystemExit) as error:  # the library tries several times and says only that it did
            raise (error.__cause__ or error) from None

    with quiet_lmms():
        manager = _manager()
        return library_parts(PREFIX, "lmms-eval", name, manager, load, manager._get_config)


def part_configs(name: str) -> list[Mapping[str, Any]]:
    """The configs of a task, or of all tasks of a group, without their data."""
    with quiet_lmms():
        manager = _manager()
        if name not in manager.all_tasks:
            raise TaskError(unknown("task of lmms-eval", name, manager.all_tasks))
        return list(_configs(manager, name))


def _configs(manager: Any, name: str) -> Iterator[Mapping[str, Any]]:
    config = manager._get_config(name)
    parts = config.get("task")
    if "dataset_path" in config or not isinstance(parts, list):
        yield config
        return
    for part in parts:
        inner = part.get("task") if isinstance(part, dict) else part
        if isinstance(inner, str) and inner != name and inner in manager.all_tasks:
            yield from _configs(manager, inner)


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
