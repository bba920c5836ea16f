"""The harness without its chatter: it logs and draws bars; Smelt says itself how far it is."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smelt.errors import MissingExtra
from smelt.tasks.templates.rendering import render

__all__ = ["harness", "quiet_harness"]


def harness() -> Any:
    """The library, or the name of the extra that brings it.

    Its templates are rendered by `evaluate/templates`, which it knows nothing of: it would give them all of Python.
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
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "huggingface_hub", "httpx")]
    levels = [logger.level for logger in loggers]
    bar = library.api.task.tqdm
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        library.api.task.tqdm = functools.partial(bar, disable=True)
        yield library
    finally:
        library.api.task.tqdm = bar
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
