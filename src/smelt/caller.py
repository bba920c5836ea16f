"""Who asked, and how what can be said is written there: in a shell, in a Python program, or in a recipe's file.

                    a shell                     Python                          a recipe's file
    option          --force                     force=True                      as the caller writes it
    word            --set 'skip=head.*'         skip='head.*'                   skip: head.*
    pipeline        -m dare,ties                method='dare,ties'              merge: [dare, ties]

An error names what to do in the words that whoever reads it can paste. A process that is the `smelt` command speaks as
a shell does in all of its threads; whether a request came as a recipe is known of the recipe itself (`Recipe.stated`),
and holds while it is worked on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "Blank",
    "asked_by_recipe",
    "base_word",
    "from_shell",
    "in_shell",
    "is_recipe",
    "join_caller",
    "model_word",
    "option",
    "pipeline",
    "set_flag",
    "shell_mark",
    "word",
]

_OWN_FLAGS = frozenset({"base", "dtype", "seed", "shard_size", "lora", "lora_format", "allow_pickle"})
"""Words of a recipe that have a flag; the others are given with --set."""

_MARK = "SMELT_CALLER"
_shell = os.environ.get(_MARK) == "shell"
_recipe: ContextVar[bool] = ContextVar("smelt_asked_by_recipe", default=False)


class Blank(str):
    """A value that the reader fills in: NAME, REF. It is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@contextmanager
def from_shell() -> Iterator[None]:
    """Inside, this process is the `smelt` command."""
    global _shell
    before, _shell = _shell, True
    try:
        yield
    finally:
        _shell = before


def in_shell() -> bool:
    """Whether errors are read in a shell."""
    return _shell


@contextmanager
def asked_by_recipe(recipe: bool) -> Iterator[None]:
    """Inside, the request at hand is one that a recipe states, or else one in a call's own words."""
    before = _recipe.set(recipe)
    try:
        yield
    finally:
        _recipe.reset(before)


def join_caller(recipe: bool) -> None:
    """The same for a thread that works for the caller, until it ends."""
    _recipe.set(recipe)


def is_recipe() -> bool:
    """Whether the request at hand is one that a recipe states; threads that work on it are told so."""
    return _recipe.get()


def shell_mark() -> dict[str, str]:
    """For the environment of a worker process: it speaks as its caller does."""
    return {_MARK: "shell"} if _shell else {}


def option(name: str, value: Any = True) -> str:
    """A parameter of the function or command that was called: `force` -> --force, or force=True."""
    if not _shell:
        return f"{name}={value!r}"
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


def word(name: str, value: Any) -> str:
    """A word of the recipe with a value, quoted: `skip: head.*`, `--set 'skip=head.*'`, `skip='head.*'`."""
    if _recipe.get():
        return f"`{name}: {_yaml(value)}`"
    if not _shell or name in _OWN_FLAGS:
        return f"`{option(name, value)}`"
    return set_flag(name, value)


def base_word() -> str:
    """How a base is given."""
    return "`base: REF` under `pool`" if _recipe.get() else f"`{option('base', Blank('REF'))}`"


def model_word() -> str:
    """How one more model is given."""
    return "`--model REF`" if _shell and not _recipe.get() else "another model"


def set_flag(name: str, value: Any) -> str:
    """A parameter of a stage, as a shell gives it: `--set dare.density=0.5`."""
    return f"`--set {_quoted(f'{name}={_yaml(value)}')}`"


def _quoted(text: str) -> str:
    """For a shell: in double quotes where there are single ones in it and nothing that a shell acts on."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def pipeline(names: Sequence[str]) -> str:
    """How a method is given, or several stages in their order."""
    if _recipe.get():
        return f"`merge: {_yaml(names[0] if len(names) == 1 else list(names))}`"
    joined = ",".join(names)
    return f"`-m {joined}`" if _shell else f"`method={joined!r}`"


def _yaml(value: Any) -> str:
    """A value as it stands in a YAML file, on one line."""
    import yaml

    plain = str(value) if isinstance(value, str) else value
    text = yaml.safe_dump([plain], default_flow_style=True, width=float("inf"), allow_unicode=True)
    return str(text).strip()[1:-1]  # of a list of one, since a scalar alone is followed by an end mark
