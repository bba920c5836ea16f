"""Coding: what a line prints, what goes in a gap, and whether a function passes its tests.

Printed values are compared with doctest's own checker, and where both are plain Python values, by their value. Anything
else that the model writes is run in the sandbox, without network and within its limits: a gap is filled and the line is
run; a function is called by its tests, which run elsewhere. Code that never ends is stopped there and counts as wrong.
"""

from __future__ import annotations

import ast
import doctest
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["passes", "printed", "solved"]

_SECONDS = 5
_FENCE = re.compile(r"```(?:python|py)?[ ]*\n(.*?)(?:```|\Z)", re.DOTALL)


def printed(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 where the reply is what the example prints, or fills its gap so that it prints it."""
    judge = _fills if doc.get("code") else _same
    return {"exact_match": float(any(judge(doc, reply) for reply in _said(results[0])))}


def solved(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 where the completed function passes its tests (pass@1 of one greedy answer)."""
    return {"pass@1": float(passes(doc, results[0]))}


def passes(doc: Mapping[str, Any], reply: str) -> bool:
    """Whether the reply, a function's body or the whole function, passes the tests of a HumanEval problem.

    The tests have what the problem itself gives (helpers that stand before the function), and of the reply only calls
    of the function.
    """
    from smelt.tasks.sandbox.execution import judge

    name = doc["entry_point"]
    code = _function(doc["start"], name, reply)
    if not _compiles(code):
        return False
    tests, given = f"{doc['test']}\n\ncheck({name})\n", f"{doc['start']}    pass\n"
    return judge(code, tests, given=given, names=[name], seconds=_SECONDS).status == "ok"


def _function(start: str, name: str, reply: str) -> str:
    fenced = _FENCE.search(reply)
    code = fenced[1] if fenced else reply
    if re.search(rf"^def {name}\b", code, re.MULTILINE):  # the whole function: what came before it may be needed
        return f"{start}    pass\n\n{code}"
    lines = code.rstrip().splitlines()
    first = next((line for line in lines if line.strip()), "")
    indent = "" if first[:1].isspace() else "    "
    body: list[str] = []
    for line in lines:
        if body and line.strip() and not indent and not line[:1].isspace():
            break  # words or another function after the body
        body.append(indent + line if line.strip() else "")
    return start + "\n".join(body)


def _said(reply: str) -> list[str]:
    """What a reply may mean by its answer: its first line, what stands there after a colon, and the first line of code.

    >>> _said("The last line prints: `[1, 2]`.")
    ['The last line prints: `[1, 2]`.', '[1, 2]']
    """
    fenced = _FENCE.search(reply)
    first = _first(reply)
    found = [first, first.partition(": ")[2].strip().rstrip(".").strip("`"), _first(fenced[1]) if fenced else ""]
    return [one for one in dict.fromkeys(found) if one]


def _first(text: str) -> str:
    lines = (line.strip().strip("`").removeprefix(">>>").strip() for line in text.splitlines())
    return next((line for line in lines if line and line not in ("python", "py")), "")


def _same(doc: Mapping[str, Any], reply: str) -> bool:
    expected, rules = doc["answer"], doctest.NORMALIZE_WHITESPACE | doctest.DONT_ACCEPT_TRUE_FOR_1
    if doctest.OutputChecker().check_output(f"{expected}\n", f"{reply}\n", rules):
        return True
    try:
        wanted, given = ast.literal_eval(expected), ast.literal_eval(reply)
        return type(wanted) is type(given) and bool(wanted == given)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False  # not plain values


def _fills(doc: Mapping[str, Any], reply: str) -> bool:
    if reply == doc["answer"]:  # it was run when the task was made
        return True
    if not reply or len(reply) > 40:
        return False
    return _prints(doc["code"].replace("____", reply), doc["printed"])


def _prints(code: str, expected: str) -> bool:
    from smelt.tasks.sandbox.execution import run

    if not _compiles(code):
        return False
    outcome = run(code, seconds=_SECONDS)
    return outcome.status == "ok" and outcome.stdout.strip().splitlines()[-1:] == [expected]


def _compiles(code: str) -> bool:
    """Where it does not, there is no need to start anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python finds odd in a reply is nobody's concern
            compile(code, "<reply>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
