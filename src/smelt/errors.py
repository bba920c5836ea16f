"""The tree of errors a user can meet, and the did-you-mean that goes with a wrong name.

Every message says what is wrong, where, what was given and what to do. `exit_code` is the contract of
the command line: 2 for a request that cannot be served (recipe, models, parameters), 1 for the rest.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

__all__ = [
    "CorruptFile",
    "Faults",
    "IncompatibleModels",
    "InputChanged",
    "MissingExtra",
    "NumericalError",
    "OutputError",
    "RecipeError",
    "SmeltError",
    "did_you_mean",
    "listed",
    "nearest",
    "shortened",
    "some",
    "unknown",
]


T = TypeVar("T")
_LONGEST = 20_000
"""Letters of a message; a list of two hundred faults fits."""
_FEW = 12
"""Options that are worth listing."""


class SmeltError(Exception):
    """Anything Smelt refuses or fails at, with a message written for the person who asked.

    What a message quotes comes from files that anybody may have written, so that it is never printed without end.
    """

    exit_code = 1

    def __str__(self) -> str:
        return shortened(super().__str__(), _LONGEST)


class RecipeError(SmeltError):
    """The request itself is wrong: an unknown name, a bad value, a missing part. `faults` has them one by one."""

    exit_code = 2
    faults: tuple[str, ...] = ()


class Faults:
    """What is wrong with a request, gathered while it is read, and told together at the end."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """A RecipeError inside ends this part of the reading, and not the whole."""
        try:
            yield
        except RecipeError as error:
            self.found += error.faults or [str(error)]

    def attempt(self, read: Callable[[], T], instead: T) -> T:
        """What is read; `instead` where a fault was found."""
        found = [instead]
        with self.gathering():
            found = [read()]
        return found[0]

    def refuse(self, head: str = "", alone: str = "") -> None:
        """Raise if anything was found; `head` stands above several, `alone` before a single one."""
        found = tuple(dict.fromkeys(self.found))
        if found:
            error = RecipeError(listed(found, head) if len(found) > 1 else f"{alone}{found[0]}")
            error.faults = found
            raise error


class IncompatibleModels(SmeltError):
    """The models do not fit each other. `faults` holds every reason, not only the first.

    Where it is known what the models differ in, `causes` says so; the message then has a few faults as examples, and
    not what can be done about each.
    """

    exit_code = 2

    def __init__(self, faults: Iterable[str], cannot: str = "be merged", causes: Iterable[str] = (), remedy: str = ""):
        self.faults, self.causes = tuple(faults), tuple(causes)
        if self.causes:
            said = [fault.partition("; ")[0] for fault in self.faults]
            head = f"{'; '.join(self.causes)}: these cannot {cannot}{f'; {remedy}' if remedy else ''}"
            super().__init__(head + "".join(f"\n  - {one}" for one in some(said)))
            return
        head = f"the models cannot {cannot}:" + ("" if len(self.faults) > 1 else " ")
        super().__init__(head + listed(self.faults))


class CorruptFile(SmeltError):
    """A file is truncated, lies about its content, or is of a kind that is not read."""

    exit_code = 2


class InputChanged(SmeltError):
    """A file that was being read is not the one any more that it was when it was opened."""


class NumericalError(SmeltError):
    """NaN or infinity in an input or in the result."""

    exit_code = 2


class OutputError(SmeltError):
    """The result cannot be written where it was asked for."""


class MissingExtra(SmeltError):
    """An optional library is needed; the message names the extra that brings it."""

    exit_code = 2


def shortened(text: str, most: int = 200) -> str:
    """What is quoted of somebody's file: its beginning, where it is longer than that, and how much there is of it."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} letters in all)"


def some(faults: Sequence[str], most: int = 3) -> list[str]:
    """The first few, and how many more there are."""
    return [*faults[:most], *([f"and {len(faults) - most:,} more"] if len(faults) > most else [])]


def listed(faults: Sequence[str], head: str = "") -> str:
    """One fault as it is; several below a head, a line for each."""
    return faults[0] if len(faults) == 1 else head + "".join(f"\n  - {fault}" for fault in faults)


def nearest(name: object, options: Iterable[str]) -> str | None:
    """The option that was probably meant; none for what is no text (a key of a YAML file can be anything)."""
    if not isinstance(name, str):
        return None
    if len(name) > 200:  # the search takes the square of it, and nobody mistypes so much
        return None
    near = difflib.get_close_matches(name, sorted(options), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """` (did you mean 'ties'?)`, to stand after a name that is unknown; nothing where no option is near."""
    near = nearest(name, options)
    return f" (did you mean {near!r}?)" if near else ""


def unknown(what: str, name: object, options: Iterable[str]) -> str:
    """`no merge method named 'tise' (did you mean 'ties'?)`; lists the options where none is near."""
    options = sorted(options)
    near = nearest(name, options)
    more = f" and {len(options) - _FEW:,} more" if len(options) > _FEW else ""
    listed = ", ".join(shortened(option) for option in options[:_FEW]) + more
    hint = f"did you mean {shortened(near)!r}?" if near else f"there is: {listed or 'nothing'}"
    shown = repr(shortened(name)) if isinstance(name, str) else shortened(repr(name))
    return f"no {what} named {shown} ({hint})"
