"""Python that comes with a model or a task: it runs only where the person who asked has said so, and is told aloud.

`--trust-remote-code` on a command line, `trust_remote_code=True` in Python. The permission holds for one call: what is
called inside has it, threads of others do not, and workers get it with their jobs. No recipe, suite or config can give
it. It never changes a number: where something can be done without such code it is, with the permission or without.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from smelt.caller import option
from smelt.errors import RecipeError

__all__ = ["FLAG", "CodeNotTrusted", "is_trusted", "permit_code", "takes_trust", "trusting"]

FLAG = "--trust-remote-code"

_HELP = "With `trust_remote_code` Python that comes with a model or a task may run; without, it is refused."

_Words = ParamSpec("_Words")
_Result = TypeVar("_Result")
_trusted: ContextVar[bool] = ContextVar("smelt_trust_remote_code", default=False)
_told: set[str] = set()


class CodeNotTrusted(RecipeError):
    """A model or a task would run Python of its own, and nobody allowed it."""


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    """Allow such code inside this block. False takes nothing away that a caller allowed."""
    before = _trusted.set(trust or _trusted.get())
    try:
        yield
    finally:
        _trusted.reset(before)


def takes_trust(function: Callable[_Words, _Result]) -> Callable[_Words, _Result]:
    """For public functions with a keyword `trust_remote_code`: it holds as long as they run, and their help says so."""

    @functools.wraps(function)
    def call(*args: _Words.args, **words: _Words.kwargs) -> _Result:
        with trusting(words.get("trust_remote_code") is True):
            return function(*args, **words)

    call.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n    {_HELP}\n    "
    return call


def is_trusted() -> bool:
    """Whether such code may run here and now."""
    return _trusted.get()


def permit_code(whose: str, code: str) -> None:
    """Call before code runs: refuse, or warn. `whose` is what it belongs to, `code` its files or functions."""
    if not is_trusted():
        raise CodeNotTrusted(
            f"{whose} needs Python code that comes with it ({code}), and that is not run unasked; read it, and if you "
            f"trust it allow it with {option('trust_remote_code')} (a hub never runs it)"
        )
    allowed = option("trust_remote_code")
    line = f"smelt: warning: {whose} runs Python code that comes with it ({code}), as {allowed} allows\n"
    if line not in _told:
        _told.add(line)
        sys.stderr.write(line)
        sys.stderr.flush()
