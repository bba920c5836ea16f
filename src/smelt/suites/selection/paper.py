"""UQ-Merge's own tables, from the files in `published/`: their averages, by the paper's names of methods.

A line of these files may be about a model that is known only when a suite has run: `entry: "@chosen"`, `"@step-3"` or
`"@path-accuracy-ascending"` or `"@perturbed-input"`, `part: "@all"`, `"@chosen"` or `"@random-1"`. `resolved` puts our
names in the place of these words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from smelt.reporting.order import PublishedOrder
from smelt.reporting.published import PublishedLine, PublishedTable
from smelt.suites.published import PUBLISHED, read_table

__all__ = ["UNCERTAIN", "UqMerge", "paper_table", "resolved", "resolved_order", "uqmerge"]

UNCERTAIN = "published_uncertainty"
"""The analysis with printed tables of uncertainties, in nats: no rows of ours stand beside them, but the trace."""
_FOLDER = Path(__file__).parent / PUBLISHED


@dataclass(frozen=True)
class UqMerge:
    """Averages of the paper's Tables 1 to 6 (13 is 1), and what is wrong with some of them."""

    source: str
    random: dict[str, tuple[float, ...]]
    """Held-in, held-out: means over three random groups of seven."""
    all: dict[str, tuple[float, ...]]
    chosen: tuple[float, ...]
    joint: tuple[float, ...]
    guidance: dict[str, float]
    steps: dict[str, list[float]]
    perturbations: dict[str, list[float]]
    methods: dict[str, list[float]]
    notes: dict[str, str]


@cache
def paper_table(name: str) -> PublishedTable:
    """One of the files, by its name without `uqmerge-`."""
    return read_table(_FOLDER, f"uqmerge-{name}")


@cache
def uqmerge() -> UqMerge:
    """Read once."""
    random = _averages("table13-held-in", "table13-held-out")
    every = _averages("table2-held-in", "table2-held-out")
    steps = {"validation": "table10", "uncertainty": "table11", "held_out": "table12"}
    notes = {"random": "table13-held-in", "all": "table2-held-in", "perturbations": "table5", "methods": "table6"}
    said = {word: paper_table(name).notes[0] for word, name in notes.items()}
    said["steps"] = f"{paper_table('table11').notes[1]} {paper_table('table12').notes[1]}"
    return UqMerge(
        source=paper_table("table2-held-in").source,
        random={name: one for name, one in random.items() if name not in ("UQ-Merge", "LLaVA-v1.5-7B")},
        all={name: one for name, one in every.items() if name != "UQ-Merge"},
        chosen=random["UQ-Merge"],
        joint=random["LLaVA-v1.5-7B"],
        guidance={name: _last(line) for name, line in paper_table("table3").lines.items()},
        steps={kind: [_last(line) for line in paper_table(name).lines.values()] for kind, name in steps.items()},
        perturbations=_values("table5", by_label=False),
        methods=_values("table6", by_label=True),
        notes=said,
    )


def resolved(tables: Sequence[PublishedTable], found: Mapping[str, Any]) -> list[PublishedTable]:
    """The same tables with the names of a run's own models; `found` is its `selection.json`. What a run does not have
    (a tenth step of three models) keeps its word, and no number stands beside it.
    """
    return [
        table.model_copy(update={"lines": {name: _named(line, name, found) for name, line in table.lines.items()}})
        for table in tables
    ]


def resolved_order(orders: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The orders of `order.json` with the names of a run's own models; `@held_in` among tasks stands for its sets."""
    named = []
    for words in orders["orders"]:
        one = PublishedOrder.model_validate(words)
        sets = {f"@{kind}": names for kind, names in found["sets"].items()}
        tasks = [task for word in one.tasks for task in sets.get(word, [word])]
        named.append(one.model_copy(update={"table": resolved([one.table], found)[0], "tasks": tasks}))
    return {"orders": [one.model_dump(mode="json") for one in named]}


def _named(line: PublishedLine, name: str, found: Mapping[str, Any]) -> PublishedLine:
    entry = line.entry or name
    who: str | None = None
    if entry.startswith("@"):
        who = _models(found).get(entry)
    elif line.part and line.part.startswith("@"):
        who = _groups(found, entry).get(line.part)
    if who is None:
        return line
    own, _, part = who.partition("@")
    return line.model_copy(update={"entry": own, "part": part or None})


def _models(found: Mapping[str, Any]) -> dict[str, str]:
    known = {"@chosen": found["chosen"]["who"]}
    known |= {f"@step-{number}": step["who"] for number, step in enumerate(found["courses"][0]["steps"], 1)}
    for course in found["courses"]:
        step = course["steps"][course["chosen"][found["choose"]] - 1]
        if course["perturbation"] in (None, found["guide"]):
            known[f"@path-{course['guide']}-{course['order']}"] = step["who"]
        if course["perturbation"] is not None and course["order"] == "descending":
            known[f"@perturbed-{course['perturbation']}"] = step["who"]
    return known


def _groups(found: Mapping[str, Any], entry: str) -> dict[str, str]:
    on = found["on"].get(entry)
    if on is None:
        return {}
    random = {f"@random-{number}": who for number, who in enumerate(on["subsets"], 1)}
    return {"@all": on["all"], "@chosen": on["chosen"], **random}


def _averages(*names: str) -> dict[str, tuple[float, ...]]:
    """The averages of several tables with the same lines, by their labels."""
    tables = [{line.label: _last(line) for line in paper_table(name).lines.values()} for name in names]
    return {label: tuple(table[label] for table in tables) for label in tables[0] if all(label in t for t in tables)}


def _values(name: str, *, by_label: bool) -> dict[str, list[float]]:
    lines = paper_table(name).lines
    return {
        line.label if by_label else key: [value for value in line.values if value is not None]
        for key, line in lines.items()
    }


def _last(line: PublishedLine) -> float:
    value = line.values[-1]
    assert value is not None
    return value
