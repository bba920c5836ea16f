"""The judge's end of a channel: tests run here, and what they call runs in the program's process.

Expected values are known here alone, and only plain data come back, so equality is Python's own. What is no plain data
(an object of a class of the program, a generator, a function) stays there: tests can call it, index it, go through it,
ask for its attributes and give it back to the program, and it equals itself alone.
"""

from __future__ import annotations

import builtins

from .channel import Channel
from .plain import NotPlain, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

__all__ = ["ProgramLeft", "ProgramUnderTest", "Remote", "judge"]


def judge(order: dict[str, Any], channel: Channel, space: dict[str, Any]) -> None:
    """Run the tests to their end; whatever is raised says that one failed.

    `given` is code that comes first and is the task's, as the tests are; `names` are what the tests use of the program,
    and `modules` of the standard library.
    """
    program = ProgramUnderTest(channel)
    exec(compile(order["given"], "given.py", "exec"), space)
    space.update({name: __import__(name) for name in order["modules"]})
    for name in order["names"]:
        program.lend(name, space)
    exec(compile(order["source"], "tests.py", "exec"), space)
    if program.left:
        raise ProgramLeft


class ProgramLeft(BaseException):
    """The program ended, or speaks nonsense. No test is meant to catch this, and one that does is told again."""


class ProgramUnderTest:
    """The program as the judge sees it: something that answers calls with plain data."""

    def __init__(self, channel: Channel):
        self._channel = channel
        self._known: dict[str, Remote] = {}
        self.left = False
        if self._said() != "loaded":
            self._leave()

    def lend(self, name: str, space: dict[str, Any]) -> None:
        """Put what the program calls so into a space; there is no such name in it where the program has none."""
        space.pop(name, None)
        try:
            found = self.call(None, (Remote(self, "n", name),), {})
        except NameError:
            return
        space[name] = found

    def call(self, function: Remote | None, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What the function gives there; lists, tables and sets among the arguments change as they did there.

        No function gives what it is given.
        """
        message = encode((function, list(given), named), _refer)
        if self.left:
            raise ProgramLeft
        try:
            self._channel.send(message)
        except OSError:
            self._leave()
        match self._said():
            case ("value", value, [*changes]):
                for change in changes:
                    self._change(given, change)
                return value
            case ("raised", str(kind), str(text)):
                raise _exception(kind, text)
            case _:
                return self._leave()

    def _said(self) -> Any:
        try:
            message = self._channel.receive()
            return None if message is None else decode(message, self._find)
        except (OSError, NotPlain):
            return None

    def _find(self, tag: str, text: str) -> Any:
        if tag == "p" and isinstance(vars(builtins).get(text), type):
            return vars(builtins)[text]
        if tag != "k" or not text.isdecimal():
            raise ValueError(tag)
        return self._known.setdefault(text, Remote(self, tag, text))

    def _change(self, given: tuple[Any, ...], change: Any) -> None:
        match change:
            case (int(at), list() | bytearray() as value) if at in range(len(given)):
                given[at][:] = value
            case (int(at), dict() | set() as value) if at in range(len(given)):
                given[at].clear()
                given[at].update(value)
            case _:
                self._leave()

    def _leave(self) -> NoReturn:
        self.left = True
        raise ProgramLeft


class Remote:
    """Something that stays in the program: `n`, a name in it; `k`, a result kept there; `p`, a builtin of Python."""

    def __init__(self, program: ProgramUnderTest, tag: str, text: str):
        vars(self)["__where__"] = (program, tag, text)

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        program: ProgramUnderTest = vars(self)["__where__"][0]
        return program.call(self, given, named)

    def __getattr__(self, name: str) -> Any:
        return _there("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _there("setattr", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return _there("getattr", self, "__getitem__")(key)

    def __iter__(self) -> Iterator[Any]:
        rest = _there("iter", self)
        while True:
            try:
                yield _there("next", rest)
            except StopIteration:
                return

    def __next__(self) -> Any:
        return _there("next", self)

    def __len__(self) -> int:
        return int(_there("len", self))

    def __bool__(self) -> bool:
        return _there("bool", self) is True

    def __str__(self) -> str:
        return str(_there("str", self))

    def __repr__(self) -> str:
        return str(_there("repr", self))


def _there(function: str, thing: Remote, *more: Any) -> Any:
    """What one of Python's own functions says of a thing, in the program."""
    return Remote(vars(thing)["__where__"][0], "p", function)(thing, *more)


def _refer(value: Any) -> tuple[str, str]:
    if type(value) is Remote:
        _, tag, text = vars(value)["__where__"]
        return tag, text
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and vars(builtins).get(name) is value:
        return "p", name
    raise TypeError(f"a {type(value).__name__} cannot be given to a program in a sandbox: it is no plain data")


def _exception(kind: str, text: str) -> Exception:
    """What was raised there, as one of Python's own exceptions."""
    found = getattr(builtins, kind, None)
    try:
        return found(text) if isinstance(found, type) and issubclass(found, Exception) else Exception(text)
    except TypeError:  # some take more than a text
        return Exception(f"{kind}: {text}")
