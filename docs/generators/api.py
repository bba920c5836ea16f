"""The pages of docs/reference/api/: each names public things, whose signatures and docstrings mkdocstrings puts there.

Every name of `smelt.__all__` and of the public modules gets onto a page by itself: functions by the room that does the
work, so that a new one needs nothing here. A git host shows the tables; the site shows everything.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "reference" / "api"
_HEAD = "<!-- Written by docs/generators/api.py from signatures and docstrings. Change those. -->\n"
_ROOMS = {
    "merging": ("engine", "prepare.merge", "prepare.plan", "prepare.average", "recipe"),
    "evaluating": ("prepare.evaluate", "ensembles", "suites", "compat", "tasks", "advice"),
    "learning": ("learning", "measurement", "mixing", "search", "training"),
    "errors": ("errors",),
}
"""Page -> the rooms below `smelt` whose functions it has. What is in none of them is a tool."""
SHARED = {
    "allow_pickle": "read pickles (`.bin`, `.pt`), which can run code when they are loaded; without, they are refused.",
    "batch": "examples that are computed at a time.",
    "device": "where it computes: `cpu`, `cuda`, `cuda:1`.",
    "dtype": "the format that it computes or writes in: `float32`, `bfloat16`, `float16`, `float64`.",
    "force": "replace what is at the place of the result. Without it, a result that is there is an error.",
    "limit": "at most so many examples of each task: a fixed part, the same for every model.",
    "memory": "the most memory that a merge may take: bytes, or a text such as `4GB`.",
    "out": "the file or folder for the result.",
    "quiet": "show no bar of progress.",
    "resume": "go on with a run that was stopped, instead of beginning anew.",
    "seed": "the number that everything drawn at random follows from.",
    "split": "the part of each task's data: `train`, `val` or `test`.",
    "tasks": "names of tasks or folders with one, a list of them, or the name of a group such as `clip8`.",
    "tell": "a function that is called with each line of progress.",
    "text_from": "the model that lends its text tower to one that is a picture tower alone.",
    "threads": "how many threads compute; as many as there are cores unless given. The result does not depend on it.",
    "trust_remote_code": "let Python that comes with a model or a task run; without, it is refused.",
}
"""Parameters that mean the same wherever they are: explained once, on the first page."""


@dataclass(frozen=True)
class ApiPage:
    """One page: its title, what it is about, and the names on it."""

    title: str
    words: str
    names: tuple[str, ...]


_PLUG_INS = {
    "Merge methods": (
        "Register with a decorator; the entry point's group is `smelt.methods`. "
        "[Write a method](../../how-to/write-a-method.md) walks through an example.",
        "methods: merge_method merge_step merge_basis merge_wrapper stages Stage PerModel Fraction Positive Stack",
    ),
    "Families of models": (
        '`families["mine"] = MyFamily()` in a module that an entry point of the group `smelt.families` names. '
        "[Write a family](../../how-to/write-a-family.md).",
        "models.families.family: families Family Classifier LoadedModel; models.families.network: Network Encoder",
    ),
    "Formats, and layouts of names": (
        "Group `smelt.formats`: how a model is stored, and how its tensors are named.",
        "formats.open: formats Format OpenOptions; formats.source: Source; formats.views.view: views NameView",
    ),
    "References": (
        "Group `smelt.references`: what the word before the colon in `zoo:clip-tiny` means.",
        "models.references: reference_scheme schemes Scheme",
    ),
    "Kinds of tasks": (
        "Group `smelt.tasks`: what a folder or a name has to be to be a task.",
        "tasks.kinds: task_kinds TaskKind; tasks.task: Task",
    ),
    "Kinds of suites": (
        "Group `smelt.suites`: what `smelt bench` can run. [Write a suite](../../how-to/write-a-suite.md).",
        "suites.kind: suite_kinds SuiteKind",
    ),
    "Learners and mixers": (
        "Groups `smelt.learners` and `smelt.mixers`: methods that look at data first.",
        "learning.learner: learners learner Learner; mixing.mixers: mixers mixer",
    ),
}
"""Heading -> what is said about it, and the names by the modules below `smelt` that have them."""


def pages() -> dict[str, str]:
    """Every page by file name."""
    made = api_pages()
    written = {f"{name}.md": _page(page) for name, page in made.items()}
    return {"index.md": _index(made), **written, "plug-ins.md": _plug_ins()}


def api_pages() -> dict[str, ApiPage]:
    """The pages of functions and classes, by name."""
    import smelt

    found: dict[str, list[str]] = {name: [] for name in (*_ROOMS, "tools")}
    for name in smelt.__all__:
        thing = getattr(smelt, name)
        if not inspect.ismodule(thing) and name != "__version__":
            found[_room(thing)].append(f"smelt.{name}")
    words = {
        "merging": ("Merging", "From models to a model: what `smelt merge` and its neighbours do."),
        "evaluating": ("Evaluating and reporting", "From models and tasks to rows, suites and reports."),
        "learning": ("Merging with data", "Statistics, learned merges, mixtures and the search for settings."),
        "errors": ("Errors", "What a call raises. Each message says what is wrong, where, and what to do."),
        "tools": ("Tools", "What is here: models, methods, caches; and whether files are what they say."),
    }
    made = {name: ApiPage(*words[name], tuple(sorted(found[name], key=_is_class))) for name in words}
    for name, title in (
        ("analyse", "Analyses"),
        ("callbacks", "Averaging while training"),
        ("select", "Choosing models"),
        ("hub", "A hub of models"),
    ):
        module = importlib.import_module(f"smelt.{name}")
        made[name] = ApiPage(
            title, _lead(module), tuple(f"smelt.{name}.{one}" for one in sorted(module.__all__, key=_is_class))
        )
    testing = importlib.import_module("smelt.testing")
    names = tuple(f"smelt.testing.{one}" for one in testing.__all__)
    return made | {"testing": ApiPage("For the tests of plug-ins", _lead(testing), names)}


def write() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _is_class(name: str) -> bool:
    """Functions come first."""
    return name.rpartition(".")[2][0].isupper()


def _room(thing: Any) -> str:
    home = thing.__module__.removeprefix("smelt.")
    return next((page for page, rooms in _ROOMS.items() if home.startswith(rooms)), "tools")


def _index(made: dict[str, ApiPage]) -> str:
    lines = [_HEAD, "# Python\n"]
    lines.append(
        "`import smelt` is quick: what is heavy loads when it is first used. Functions are verbs, and the commands of "
        "the [command line](../commands.md) are these functions with the same words. What a parameter means is said in "
        "its function's text, or below where many functions share it.\n"
    )
    for name, page in made.items():
        lines += [f"## {page.title}\n", _table(page.names, f"{name}.md"), ""]
    lines += ["## Plug-ins\n", "[What a plug-in registers and what it has to be](plug-ins.md).\n"]
    lines += ["## Parameters that many functions share\n", "| parameter | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in SHARED.items()]
    return "\n".join(lines) + "\n"


def _page(page: ApiPage) -> str:
    lines = [_HEAD, f"# {page.title}\n", f"{page.words}\n", _table(page.names, ""), ""]
    lines += [f"::: {name}\n" for name in page.names]
    return "\n".join(lines)


def _plug_ins() -> str:
    lines = [_HEAD, "# Plug-ins\n"]
    lines.append(
        "A plug-in is any installed distribution with an entry point that names a module. The module enters what it "
        "has into a registry when it is imported, and Smelt finds it by its name from then on.\n"
    )
    for heading, (about, names) in _PLUG_INS.items():
        lines += [f"## {heading}\n", f"{about}\n"]
        for part in names.split("; "):
            module, _, words = part.partition(": ")
            lines += [f"::: smelt.{module}.{word}\n    options: {{heading_level: 3}}\n" for word in words.split()]
    return "\n".join(lines)


def _table(names: Iterable[str], page: str) -> str:
    lines = ["| name | what it is |", "|---|---|"]
    lines += [f"| [`{name}`]({page}#{name}) | {_summary(name)} |" for name in names]
    return "\n".join(lines)


def _summary(name: str) -> str:
    """The first sentence of a docstring; of a value, that of the text below it in its module."""
    module, _, word = name.rpartition(".")
    thing = getattr(importlib.import_module(module), word)
    text = inspect.getdoc(thing) if callable(thing) else _said_below(module, word)
    return (text or "").partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def _said_below(module: str, word: str) -> str:
    """Of `NAME = ...` in any module that the public one takes it from."""
    import ast

    source = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in source.body:
        if isinstance(node, ast.ImportFrom) and node.module and word in {one.asname or one.name for one in node.names}:
            return _said_below(node.module, word)
    for at, node in enumerate(source.body[:-1]):
        names = (
            [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        )
        after = source.body[at + 1]
        if word in {getattr(one, "id", None) for one in names} and isinstance(after, ast.Expr):
            return str(ast.literal_eval(after.value)) if isinstance(after.value, ast.Constant) else ""
    return ""


def _lead(module: Any) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
