"""A command from a public function: types and defaults of its flags are the function's own, written once.

    @command("smelt.search.tune:tune", trials=Option("Settings to try.", min=1), quiet=QUIET, as_json=JSON)
    def tune(given: Given) -> None:
        \"\"\"The text of `smelt tune --help`.\"\"\"
        tuned = given.call()

The table says how a parameter looks on the command line, in the order of the help. Signatures are read from the
source and not from the imported function: `smelt tune --help` must not load torch.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.cli.parser import CommandGroup

__all__ = ["REQUIRED", "Argument", "Command", "Given", "Option", "command", "group"]

REQUIRED = inspect.Parameter.empty
_UNSAID: Any = object()
_ROOT = Path(__file__).parents[2]
_PLAIN = {"bool": bool, "int": int, "float": float}


@dataclass(frozen=True)
class Option:
    """How one parameter looks on the command line. Type and default come from the function unless they stand here."""

    help: str
    names: tuple[str, ...] = ()
    """Its flags where they are not `--its-name`."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    switch: bool = False
    """Of a bool: also --no-its-name."""
    type: Any = None
    """What a command line can say of it, where the function takes more."""
    default: Any = _UNSAID
    show_default: bool | str = True
    complete: str = ""
    """What a shell offers for it: a kind of names (`smelt.cli.completion.names`). Paths are offered where it is one."""
    stores: bool = False
    """Of a path: whether it may be a place in an object store, s3://bucket/name, too."""
    own: bool = False
    """The command's own, which `Given.call` does not hand on."""

    def but(self, help: str = "", **changes: Any) -> Any:  # noqa: A002 - as typer calls it
        """The same with another text, or with other words."""
        return dataclasses.replace(self, **{**changes, "help": help or self.help})

    def info(self, name: str, kind: Any) -> Any:
        names = self.names or ((f"--{name.replace('_', '-')}",) if kind is bool and not self.switch else ())
        shown: Any = {"metavar": self.metavar, "min": self.min, "max": self.max, "show_default": self.show_default}
        return typer.Option(*names, help=self.help, **shown)


@dataclass(frozen=True)
class Argument(Option):
    """A parameter that is given by its place."""

    def info(self, name: str, kind: Any) -> Any:
        return typer.Argument(metavar=self.metavar, help=self.help, show_default=self.show_default)


@dataclass
class Given:
    """What was typed, and the function that it is meant for."""

    command: Command
    flags: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.flags[name]

    @property
    def quiet(self) -> bool:
        return bool(self.flags.get("quiet"))

    @property
    def as_json(self) -> bool:
        return bool(self.flags.get("as_json"))

    @property
    def silent(self) -> bool:
        """Whether nothing is to be told on the way."""
        return self.quiet or self.as_json

    def tell(self, line: str) -> None:
        """Print a line about the progress."""
        if not self.silent:
            typer.echo(line, err=True)

    def words(self) -> dict[str, Any]:
        """The flags as keywords of the function; those for its `**words` only where they were given."""
        parameters, words = self.command.parameters, dict[str, Any]()
        for name, option in self.command.options.items():
            said, default = self.flags[name], (self.command.known(name) or (None, None))[1]
            if not option.own and (name in parameters or (said or None) != (default or None)):
                words[name] = said
        if "quiet" in parameters:
            words["quiet"] = self.silent
        if "tell" in parameters:
            words["tell"] = self.tell
        return words

    def call(self, *models: Any, **words: Any) -> Any:
        """Call the function with what was given; `words` go before it."""
        return self.command.function()(*models, **{**self.words(), **words})

    def answer(self, content: Callable[[], Any], show: Callable[[], None], *, ascii: bool = True) -> None:  # noqa: A002
        """Print a result: as JSON where that was asked for, else by `show`, unless all is to be quiet."""
        if self.as_json:
            typer.echo(json.dumps(content(), indent=2, ensure_ascii=ascii))
        elif not self.quiet:
            show()


class Command:
    """A command in typer's eyes: a function whose signature is made when typer asks for it."""

    def __init__(self, body: Callable[[Given], None], sources: tuple[str, ...], options: dict[str, Option]):
        self.body, self.sources, self.options = body, sources, options
        self.__name__, self.__doc__, self.__module__ = body.__name__, body.__doc__, body.__module__

    def __call__(self, **flags: Any) -> None:
        for name, option in self.options.items():
            if isinstance(flags[name], Path) and not option.stores:
                from smelt.files.writing import refuse_url

                refuse_url(flags[name])
        self.body(Given(self, flags))

    def function(self) -> Callable[..., Any]:
        """The public function, imported."""
        module, _, name = self.sources[0].partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found

    @property
    def parameters(self) -> dict[str, tuple[str, Any]]:
        """Every parameter of the function and of its settings: the annotation's text, and the default."""
        return {} if not self.sources else read_signature(self.sources[0])

    def known(self, name: str) -> tuple[str, Any] | None:
        """What the first source that has this parameter says of it."""
        return next((found[name] for found in map(read_signature, self.sources) if name in found), None)

    def typed(self, name: str) -> tuple[Any, Any]:
        """Type and default of a flag."""
        option, known = self.options[name], self.known(name)
        if known is None and option.type is None:
            raise TypeError(f"{self.__module__}: {name} is no parameter of {', '.join(self.sources)}; give its type")
        written, default = known or ("", None)
        kind = option.type or _plain_type(written)
        default = default if option.default is _UNSAID else option.default
        return kind | None if default is None else kind, default

    @property
    def __signature__(self) -> inspect.Signature:
        found = []
        for name, option in self.options.items():
            kind, default = self.typed(name)
            annotated: Any = Annotated[kind, option.info(name, kind)]
            found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated))
        return inspect.Signature(found)

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {name: one.annotation for name, one in self.__signature__.parameters.items()}


def command(*sources: str, **options: Option) -> Callable[[Callable[[Given], None]], Command]:
    """A command for the function `module:name`; further sources tell what its `**words` are."""
    return lambda body: Command(body, sources, options)


def group(name: str, text: str, *, default: str | None = None) -> typer.Typer:
    """Commands under one name; `default` is the one that is meant where none is named."""
    kind = CommandGroup if default is None else type("DefaultGroup", (CommandGroup,), {"default": default})
    return typer.Typer(name=name, help=text, cls=kind, no_args_is_help=default is None, rich_markup_mode=None)


def _plain_type(written: str) -> Any:
    """bool, int, float or a list of texts; all else is told in text."""
    names = {part.strip() for part in written.split("|")}
    if any(name.startswith(("Sequence[str]", "list[str]", "tuple[str")) for name in names):
        return list[str]
    return next((_PLAIN[name] for name in names if name in _PLAIN), str)


@cache
def read_signature(source: str) -> dict[str, tuple[str, Any]]:
    """Parameters of a function, or fields of a class, as the source has them: annotation and default."""
    module, _, path = source.partition(":")
    node: Any = _tree(module)
    for name in path.split("."):
        found = [one for one in node.body if getattr(one, "name", None) == name]
        if not found:
            raise TypeError(f"{module} has no {name}")
        node = found[-1]  # after its overloads
    if isinstance(node, ast.ClassDef):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
        return {one.target.id: (ast.unparse(one.annotation), _value(one.value, module, None)) for one in fields}  # type: ignore[union-attr]
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    pairs = [*zip(plain, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return {
        one.arg: (ast.unparse(one.annotation) if one.annotation else "", _value(default, module, REQUIRED))
        for one, default in pairs
    }


@cache
def _tree(module: str) -> ast.Module:
    """A module of Smelt, parsed; its room is not imported for it."""
    return ast.parse(_ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))


def _value(node: ast.expr | None, module: str, absent: Any) -> Any:
    """A default: a literal, a constant of its module or of where that imports it from; None for anything else."""
    if node is None:
        return absent
    if isinstance(node, ast.Name):
        return _constant(node.id, module)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _constant(name: str, module: str) -> Any:
    for line in _tree(module).body:
        if isinstance(line, ast.Assign):
            target, value = line.targets[0], line.value
            pairs = zip(target.elts, value.elts, strict=True) if isinstance(target, ast.Tuple) else [(target, value)]  # type: ignore[attr-defined]
            for one, meant in pairs:
                if isinstance(one, ast.Name) and one.id == name:
                    return _value(meant, module, None)
        elif isinstance(line, ast.ImportFrom) and line.module and any(one.name == name for one in line.names):
            return _constant(name, line.module)
    return None
