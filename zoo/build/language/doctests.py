"""Doctest examples of sympy, networkx, more-itertools, boltons and the standard library, run again one by one.

An example is cut to what it needs: the earlier lines of its docstring that define or change a name it uses, and the
imports of names that doctest would have taken from the module. It is kept if it then prints, in a fresh name space,
one short line that agrees with the docstring.

    python doctests.py PACKAGE      prints the examples as JSON (used by `examples`, one process per package)
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import files
from files import fetch

PACKAGES = ("boltons", "more_itertools", "networkx", "stdlib", "sympy")
SKIP = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "ensurepip", "tkinter", "dist-packages"}
SKIP |= {"antigravity.py", "this.py", "turtle.py", "__main__.py", "multiprocessing", "smtpd.py", "pydoc.py", "pyctlib"}
LONGEST = 60


def examples(package: str) -> list[dict]:
    """Every usable example of a package: module, lines (the last is the question) and what it prints."""
    cached = files.FULL / "doctests" / f"{package}.json"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            environment = {**os.environ, "PYTHONHASHSEED": "0"}
            command = [sys.executable, __file__, package]
            ran = subprocess.run(command, cwd=scratch, env=environment, stdout=subprocess.PIPE, check=True)
        cached.write_bytes(ran.stdout)
    return json.loads(cached.read_text())


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """The modules of a package with their files, in the order of their names."""
    root = Path(sysconfig.get_path("stdlib"))
    if package == "boltons":
        sys.path.append(str(fetch.package("boltons")))
    if package != "stdlib":
        root = Path(importlib.import_module(package).__file__).parent
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root)
        if not SKIP & set(inner.parts) and (package != "stdlib" or not inner.parts[0].startswith("_")):
            parts = [*([] if package == "stdlib" else [package]), *inner.with_suffix("").parts]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text and ">>>" in text:
                yield text


def names(code: str) -> tuple[set[str], set[str]]:
    """The names that a statement reads, and those that it binds (an import binds, a call on a name may change it)."""
    read, bound = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return read, bound


def needed(earlier: list[str], last: str, module: str, known: dict, *, calls: bool) -> list[str] | None:
    """The lines that the last one needs, in order, itself included; None where a name cannot be found.

    With `calls`, lines that only use a needed name count too: they may change what it stands for.
    """
    wanted, _ = names(last)
    kept = [last]
    for line in reversed(earlier):
        read, bound = names(line)
        if "*" in bound:
            return None
        if bound & wanted or (calls and read & wanted):
            kept.insert(0, line)
            wanted = (wanted - bound) | read
    from builtins import __dict__ as builtin

    free = sorted(name for name in wanted if name not in builtin)
    defined = {name for line in kept for name in names(line)[1]}
    for name in (name for name in free if name not in defined):
        if name == "nx":
            kept.insert(0, "import networkx as nx")
        elif name in known:
            kept.insert(0, f"import {name}" if name == module else f"from {module} import {name}")
        else:
            return None
    return kept


def printed(lines: list[str]) -> str | None:
    """What the last line prints in a fresh name space; None for an error or more than a second."""
    space: dict = {"__name__": "__main__"}
    out = io.StringIO()
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error")
            for number, line in enumerate(lines):
                if number == len(lines) - 1:
                    out.seek(0), out.truncate()
                exec(compile(line + "\n", "<doctest>", "single"), space)
    except BaseException:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return out.getvalue().strip()


def usable(package: str) -> Iterator[dict]:
    parser, checker = doctest.DocTestParser(), doctest.OutputChecker()
    for module, path in modules(package):
        try:
            texts = list(docstrings(path))
            known = vars(importlib.import_module(module)) if texts else {}
        except BaseException:
            continue  # for another system, or with an optional library
        for text in texts:
            try:
                found = parser.get_examples(text)
            except ValueError:
                continue
            for number, example in enumerate(found):
                want, last = example.want.strip(), example.source.strip()
                if (
                    not want
                    or "\n" in want
                    or "..." in want
                    or len(want) > LONGEST
                    or "Traceback" in want
                    or example.options
                ):
                    continue
                earlier = [before.source.strip() for before in found[:number]]
                for calls in (False, True):  # the fewest lines that print what the docstring says
                    lines = shortened(earlier, last, module, known, calls=calls)
                    got = printed(lines) if lines else None
                    if got and " at 0x" not in got and checker.check_output(want, got, doctest.NORMALIZE_WHITESPACE):
                        yield {"module": module, "lines": lines, "printed": got}
                        break


def shortened(earlier: list[str], last: str, module: str, known: dict, *, calls: bool) -> list[str] | None:
    """`needed`, or None where that is too long for a question."""
    try:
        lines = needed(earlier, last, module, known, calls=calls)
    except SyntaxError:
        return None
    if lines is None or len(lines) > 8 or sum(map(len, lines)) > 300 or "random" in " ".join(lines):
        return None
    return lines


def _late(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _late)
    real, sys.stdout = sys.stdout, io.StringIO()
    found = list(usable(sys.argv[1]))
    json.dump(found, real)
