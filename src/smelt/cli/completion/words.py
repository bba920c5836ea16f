"""The words that could stand where the cursor is: commands, flags, and what a flag takes.

What the parser knows of a command says which word is a flag and which the value of one; `complete` of an `Option` says
what its values are. Paths are offered wherever one may stand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from smelt.cli.completion.names import names_of, parameters_of

if TYPE_CHECKING:
    from smelt.cli.from_function import Command

__all__ = ["Word", "words_after"]

_LISTS = ("methods", "tasks")
"""Names of which several may follow each other, with commas."""
_WITH_PATHS = ("models", "tasks", "suites", "pools", "files")
_NAMED = ("models",)
"""May be given as NAME=REF."""


class Word(NamedTuple):
    """A word that could be typed, whole, and what it is."""

    text: str
    about: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether more is typed after it without a space."""
        return self.text.endswith(("/", "=", ":", ","))


def words_after(typed: Sequence[str]) -> list[Word]:
    """What could stand in the place of the last of the words that follow `smelt`; the last one may be empty."""
    *before, current = typed or [""]
    command, rest = _command(before)
    if rest[-1:] in (["--show-completion"], ["--install-completion"]):
        return _starting(current, [Word(*one) for one in names_of("shells").items()])
    if hasattr(command, "commands") and not getattr(command, "default", None):
        return _starting(current, _commands(command) if not current.startswith("-") else _flags(command))
    if hasattr(command, "commands"):
        found = [] if current.startswith("-") or rest else _commands(command)
        command = command.commands[command.default]
        if found:
            return _starting(current, found)
    return _of_command(command, rest, current)


def _command(before: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that was named, or the group so far, and the words after its name."""
    import typer

    from smelt.cli.commands import COMMANDS, application

    named = before[0] if before and before[0] in COMMANDS else None
    command: Any = typer.main.get_command(application([named] if named else COMMANDS, listed=named is None))
    for number, word in enumerate(before):
        if not hasattr(command, "commands") or word not in command.commands:
            return command, list(before[number:])
        command = command.commands[word]
    return command, []


def _of_command(command: Any, before: Sequence[str], current: str) -> list[Word]:
    by_flag = {flag: one for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    flag, equals, value = current.partition("=")
    if equals and flag in by_flag:
        return [Word(f"{flag}={one.text}", one.about) for one in _values(command, by_flag[flag], before, value)]
    if before and (taker := _takes_value(by_flag.get(before[-1]))):
        return _values(command, taker, before, current)
    if current.startswith("-"):
        return _starting(current, _flags(command))
    places = [one for one in command.params if one.param_type_name == "argument"]
    number = _places_filled(before, by_flag)
    if number < len(places) or (places and places[-1].nargs == -1):
        return _values(command, places[min(number, len(places) - 1)], before, current)
    return []


def _takes_value(parameter: Any) -> Any:
    return (
        parameter if parameter is not None and parameter.param_type_name == "option" and not parameter.is_flag else None
    )


def _places_filled(before: Sequence[str], by_flag: dict[str, Any]) -> int:
    """How many of the words are neither flags nor their values."""
    filled, skip = 0, False
    for word in before:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = "=" not in word and _takes_value(by_flag.get(word)) is not None
        else:
            filled += 1
    return filled


def _values(command: Any, parameter: Any, before: Sequence[str], current: str) -> list[Word]:
    """What a parameter can be."""
    own: Command = command.callback.__wrapped__
    kind = own.options[parameter.name].complete or ("files" if _is_path(own.typed(parameter.name)[0]) else "")
    if kind == "settings":
        return _starting(current, [Word(*one) for one in parameters_of(_method(command, before)).items()])
    kept = ""
    if kind in _LISTS and "," in current:
        kept = current[: current.rindex(",") + 1]
    elif kind in _NAMED and "=" in current and not current.startswith(("/", ".", "~")):
        kept = current[: current.index("=") + 1]
    last = current[len(kept) :]
    names = {} if kind in ("", "files") else names_of(kind)
    found = _starting(last, [Word(*one) for one in names.items()])
    if kind in _WITH_PATHS:
        found += _paths(last)
    return [Word(f"{kept}{one.text}", one.about) for one in found]


def _is_path(kind: Any) -> bool:
    return kind is Path or any(map(_is_path, get_args(kind)))


def _method(command: Any, before: Sequence[str]) -> str:
    """The method that was typed."""
    flags = {flag for one in command.params if one.name == "method" for flag in one.opts}
    for word, following in zip(before, [*before[1:], ""], strict=True):
        if word in flags:
            return following
        if word.partition("=")[0] in flags and "=" in word:
            return word.partition("=")[2]
    return ""


def _paths(current: str) -> list[Word]:
    """Files and folders whose path begins so; hidden ones where that is typed."""
    folder, slash, start = current.rpartition("/")
    place = os.path.expanduser(folder + slash) or "."
    try:
        entries = sorted(os.scandir(place), key=lambda one: one.name)
    except OSError:
        return []
    return [
        Word(f"{folder}{slash}{one.name}{'/' if one.is_dir() else ''}")
        for one in entries
        if one.name.startswith(start) and (start.startswith(".") or not one.name.startswith("."))
    ]


def _commands(group: Any) -> Iterator[Word]:
    for name, one in group.commands.items():
        yield Word(name, one.get_short_help_str(200))


def _flags(command: Any) -> Iterator[Word]:
    for one in command.params:
        if one.param_type_name == "option":
            about = (getattr(one, "help", None) or "").split("\n")[0]
            yield from (Word(flag, about) for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--"))
    yield Word("--help", "Show this message and exit.")


def _starting(current: str, words: Iterable[Word]) -> list[Word]:
    """Each once, those that begin as typed; case does not matter where nothing begins so."""
    every = list({word.text: word for word in words}.values())
    exact = [word for word in every if word.text.startswith(current)]
    return exact or [word for word in every if word.text.lower().startswith(current.lower())]
