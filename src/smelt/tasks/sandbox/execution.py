"""Running what a model wrote: a program alone, for what it prints, or a program and its tests, for a verdict.

The verdict is given outside the program's process. Tests run in a process of their own, the judge, and know the
program as functions that take and give plain data over a pipe. The program sees arguments, one call at a time, and
never what is expected.
"""

from __future__ import annotations

import ast
import builtins
import os
import signal
import symtable
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from smelt.errors import RecipeError
from smelt.tasks.sandbox.inside.channel import BEGIN, END, NO_MEMORY
from smelt.tasks.sandbox.process import Process, watch
from smelt.tasks.sandbox.protection import SandboxError, announced

__all__ = ["ProgramOutcome", "Status", "judge", "run"]

Status: TypeAlias = Literal["ok", "error", "timeout", "memory", "output"]
"""`ok`: it ran to its end, or passed its tests; `error`: it did not; the others name the limit that it met."""


@dataclass(frozen=True)
class ProgramOutcome:
    """How it went, what was written, and how long it took."""

    status: Status
    stdout: str
    stderr: str
    seconds: float


def run(code: str, *, stdin: str = "", seconds: float = 5, memory: int = 512 << 20) -> ProgramOutcome:
    """Run a Python program with the standard library alone; it ends within about `seconds`, whatever it does.

    It gets a folder of its own to write in, which is deleted, an empty environment, at most `memory` bytes of address
    space, no network and no other processes. That a program got to its end is something that only it can say, so `ok`
    is no verdict: compare what it printed, or have it judged.
    """
    with _order(code, seconds, memory) as order, Process(order, stdin=_bytes(stdin)) as program:
        return _outcome(program, program, seconds)


def judge(
    program: str,
    tests: str,
    *,
    given: str = "",
    names: Iterable[str] | None = None,
    seconds: float = 5,
    memory: int = 512 << 20,
) -> ProgramOutcome:
    """Whether a program passes tests, which are Python code that raises where something is wrong.

    The tests may use what they import, what `given` defines (code of the task, which they trust as themselves), and the
    program's `names`: if none are told, all that they use and do not define. What crosses is plain data; results of
    other kinds stay with the program, where tests can call, index and iterate them, and equal only themselves.
    """
    meant, modules = names_meant(tests) if names is None else (list(names), [])
    about = {"role": "judge", "folder": None, "source": tests, "given": given, "names": meant, "modules": modules}
    with ExitStack() as stack:
        order = stack.enter_context(_order(program, seconds, memory))
        with _pipe() as asks, _pipe() as answers:
            judged = stack.enter_context(Process(order, channel=(asks[0], answers[1])))
            judging = stack.enter_context(Process(order | about, channel=(answers[0], asks[1])))
        return _outcome(judging, judged, seconds)


@contextmanager
def _order(source: str, seconds: float, memory: int) -> Iterator[dict[str, Any]]:
    """What a program's process is told, with a folder of its own for as long as it may run."""
    if seconds <= 0 or memory < 1 << 26:
        raise RecipeError(f"a sandbox needs some seconds and at least 64 MB, got {seconds} s and {memory} bytes")
    offered = announced()
    layers, libraries = list(offered.layers), list(offered.libraries)
    with tempfile.TemporaryDirectory(prefix="smelt-sandbox-", ignore_cleanup_errors=True) as folder:
        yield {
            "role": "program",
            "source": source,
            "folder": os.path.realpath(folder),
            "seconds": float(seconds),
            "memory": memory,
            "layers": layers,
            "libraries": libraries,
        }


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Both ends, which are the processes' alone once these have started."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _outcome(chief: Process, program: Process, seconds: float) -> ProgramOutcome:
    """The chief, the program itself or its judge, says how it went, unless a limit was met."""
    everyone = list(dict.fromkeys([chief, program]))
    late, took = watch(everyone, seconds)
    codes = [process.end() for process in everyone]
    for process in everyone:
        if not process.began:
            reason = process.text("stderr").strip() or "it did not begin in time"
            raise SandboxError(f"the sandbox for programs does not work here; nothing was run ({reason})")
    stderr = "".join(process.text("stderr") for process in reversed(everyone))
    return ProgramOutcome(_status(everyone, codes, late), program.text("stdout"), stderr, took)


def _status(everyone: list[Process], codes: list[int], late: bool) -> Status:
    if any(process.full for process in everyone):
        return "output"
    if not late and codes[0] == 0 and everyone[0].said["mark"] == BEGIN + END:
        return "ok"
    if late or -signal.SIGXCPU in codes:
        return "timeout"
    return "memory" if NO_MEMORY in codes else "error"


def names_meant(tests: str) -> tuple[list[str], list[str]]:
    """Names of the program that tests use, and modules of the standard library that they take for imported.

    >>> names_meant("assert double(2) == 4 and math.isclose(half(1), 0.5)")
    (['double', 'half'], ['math'])

    Tests that use no name of the program test a function that is called as one of Python's (`sum`).
    """
    try:
        tree, free = ast.parse(tests), _free(symtable.symtable(tests, "tests.py", "exec"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], []  # they will fail when they are run
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    before_dots = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    alone = {node.id for node in names if id(node) not in before_dots}
    modules = (free & sys.stdlib_module_names) - alone
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    own = free - modules - vars(builtins).keys()
    return sorted(own or free & called), sorted(modules)


def _free(table: symtable.SymbolTable) -> set[str]:
    defined = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    return _global_names(table) - defined


def _global_names(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    here = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
    return here.union(*(_global_names(child) for child in table.get_children()))
