"""The numbers of results/hub and results/hub-scale-100k.json as tables: blocks for docs/how-to/hub.md.

Every average is counted again from the right answers of the rows.
"""

from __future__ import annotations

import functools
import json
import math
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "hub"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]
SCALE = RESULTS.parent / "hub-scale-100k.json"
MISSING = "Not measured yet: `smelt bench hub -o results/hub`."
NO_READERS = "Not measured yet: `smelt bench hub --preset readers -o results/hub`."
METHODS = (
    *("mll", "mll-sure", "mll-domain", "mll-unseen", "mll-gloss", "mll-code"),
    *("mll-reads", "mll-reads-name", "mll-reads-definition", "mll-reads-unseen"),
    *("graph-best", "graph-best-reads", "modelgpt", "modelgpt-reads", "oracle", "random"),
)
SHOWN = ("mll", "mll-reads", "mll-domain", "graph-best", "modelgpt", "oracle", "random")
RULES = {
    "entropy": "the less certain counts more (the paper)",
    "inverse_entropy": "the more certain counts more (the released code)",
    "uniform": "all alike",
}


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py. Methods that a run lacks are left out; without numbers a block says so."""
    makers = {
        "run": run,
        "methods": methods,
        "tasks": tasks,
        "readers": readers,
        "unseen": unseen,
        "order": order,
        "alpha": over_alpha,
        "k": over_k,
        "growth": growth,
        "ranks": ranks,
    }
    there = (RESULTS / "rows.jsonl").is_file()
    made = {f"hub-{name}": maker() if there else MISSING for name, maker in makers.items()}
    return {"how-to/hub.md": {**made, "hub-scale": scale()}, "scale.md": {"scale-hub": scale()}}


@functools.cache
def rows() -> tuple[Any, ...]:
    from smelt.evaluation.row import Row, read_rows

    return tuple(row for row in read_rows(RESULTS / "rows.jsonl") if isinstance(row, Row))


@functools.cache
def costs() -> tuple[Any, ...]:
    from smelt.evaluation.row import CostRow, read_rows

    return tuple(row for row in read_rows(RESULTS / "rows.jsonl") if isinstance(row, CostRow))


@functools.cache
def analysis(name: str) -> Any:
    return json.loads((RESULTS / "analyses" / f"{name}.json").read_text(encoding="utf-8"))


def found(entry: str, part: str, **at: Any) -> dict[str, Any]:
    """Rows by task."""
    mine = [row for row in rows() if row.entry == entry and row.part == part]
    return {row.task: row for row in mine if all(row.setting.get(word) == value for word, value in at.items())}


def mean(by_task: dict[str, Any]) -> float:
    """The mean over tasks of the share of right answers, in %."""
    return 100 * sum(row.correct / row.n for row in by_task.values()) / len(by_task)


def spread(by_task: dict[str, Any]) -> float:
    """Half the 95 % interval of the mean: tasks and pictures taken as independent."""
    shares = [(row.correct / row.n, row.n) for row in by_task.values()]
    return 100 * 1.96 * math.sqrt(sum(p * (1 - p) / n for p, n in shares)) / len(shares)


def label(entry: str) -> str:
    return str(next(row.label for row in rows() if row.entry == entry))


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join([line(heads), f"|{'|'.join(marks)}|", *(line(one) for one in lines)])


def run() -> str:
    pictures = found("mll", "hub: k = 1")
    models = {row.entry for row in rows() if row.part == "hub: models"}
    devices = sorted({row.device for row in rows()})
    code = sorted({row.code for row in rows()})
    count = sum(row.n for row in pictures.values())
    return (
        f"{len(models)} models, {len(pictures)} tasks, {count:,} test pictures, {', '.join(devices)}, seed 0, "
        f"code {', '.join(code)}."
    )


def measured(entries: Sequence[str]) -> list[str]:
    """Those of some methods that the run had, at one model for each class."""
    return [entry for entry in entries if found(entry, "hub: k = 1")]


def methods() -> str:
    lines = []
    for entry in measured(METHODS):
        lines.append([label(entry), *(with_spread(entry, k) for k in (1, 3))])
    return table(["average of all tasks, %", "k = 1", "k = 3"], lines)


def tasks() -> str:
    by_entry = {entry: found(entry, "hub: k = 1") for entry in measured(SHOWN)}
    rivals = [entry for entry in ("mll", "mll-reads", "graph-best", "modelgpt") if entry in by_entry]
    lines = []
    for task in by_entry["mll"]:
        own = {entry: 100 * rows_of[task].accuracy for entry, rows_of in by_entry.items()}
        best = max(own[entry] for entry in rivals)
        cells = [f"**{v:.1f}**" if v == best and entry in rivals else f"{v:.1f}" for entry, v in own.items()]
        lines.append([f"{task} ({by_entry['mll'][task].n:,})", *cells])
    return table(["k = 1, accuracy in % (pictures)", *map(label, by_entry)], lines)


def readers() -> str:
    """What models read of a node, by their own text towers and by readers."""
    texts = {
        "name, in prompts": ("mll", "mll-reads-name"),
        "name and definition (the paper)": ("mll-gloss", "mll-reads"),
        "definition (the released code)": (None, "mll-reads-definition"),
    }
    if not measured(["mll-reads"]):
        return NO_READERS
    lines = [[text, *(with_spread(entry, 1) if entry else "–" for entry in pair)] for text, pair in texts.items()]
    return table(["MLL, k = 1: what is read of a node", "own text towers", "readers"], lines)


def unseen() -> str:
    """Records over all pictures of the graph, and over those alone that no model was trained on."""
    pairs = [("mll", "mll-unseen"), ("mll-reads", "mll-reads-unseen")]
    lines = []
    for every, alone in pairs:
        for k in (1, 3) if measured([every]) and measured([alone]) else ():
            pair = [mean(found(entry, f"hub: k = {k}")) for entry in (every, alone)]
            lines.append([f"{label(every)}, k = {k}", *(f"{one:.1f}" for one in pair), f"{pair[1] - pair[0]:+.1f}"])
    heads = ["average of all tasks, %", "all pictures", "pictures that no model was trained on", "difference"]
    return table(heads, lines) if lines else MISSING


def order() -> str:
    """The paper's methods in its order and in ours, and how far the two agree."""
    text: str = _order(RESULTS)
    return text


def with_spread(entry: str, k: int) -> str:
    own = found(entry, f"hub: k = {k}")
    return f"{mean(own):.1f} ± {spread(own):.1f}" if own else "–"


def over_alpha() -> str:
    values = sorted({row.setting["alpha"] for row in rows() if row.part == "hub: alpha"})
    cells = [f"{mean(found('mll', 'hub: alpha', alpha=value)):.1f}" for value in values]
    return table(["alpha", *(f"{value:g}" for value in values)], [["average, %", *cells]])


def at_k(k: int, rule: str) -> dict[str, Any]:
    """Rows by task; a row that says no rule has the paper's."""
    own = [row for row in rows() if row.part == "hub: k" and row.setting["k"] == k]
    return {row.task: row for row in own if row.setting.get("weights", "entropy") == rule}


def over_k() -> str:
    """Averages for every k and rule of weights, and what each k costs with the method's own rule."""
    values = sorted({row.setting["k"] for row in rows() if row.part == "hub: k"})
    rules = [rule for rule in RULES if all(at_k(k, rule) for k in values)]
    averages = [[f"average, %: {RULES[rule]}", *(f"{mean(at_k(k, rule)):.1f}" for k in values)] for rule in rules]
    spent = {row.setting["k"]: row for row in costs() if row.part == "hub: k"}
    times = [f"{spent[k].evaluate_seconds / spent[1].evaluate_seconds:.2f}" for k in values]
    flops = [f"{spent[k].setting['flops'] / spent[1].setting['flops']:.2f}" for k in values]
    asked = [str(spent[k].setting["models"]) for k in values]
    made = table(
        ["k", *map(str, values)],
        [
            *averages,
            ["time, of k = 1 (measured on photos)", *times],
            ["models that answer there", *asked],
            ["operations, of k = 1 (all tasks)", *flops],
        ],
    )
    others = ", ".join(f"`{rule}`" for rule in RULES if rule not in rules)
    return f"{made}\n\nWith {others}: {MISSING[0].lower()}{MISSING[1:]}" if others else made


def growth() -> str:
    content = analysis("hub-growth")
    sizes = [size for size in (1, 2, 5, 10, 20, len(content["models"])) if size <= len(content["models"])]
    lines = []
    for words in content["methods"].values():
        mid, low, high = (words[word] for word in ("mean", "low", "high"))
        cells = [
            f"{100 * mid[n - 1]:.1f} ({100 * low[n - 1]:.1f} to {100 * high[n - 1]:.1f})"
            if n < sizes[-1]
            else f"{100 * mid[n - 1]:.1f}"
            for n in sizes
        ]
        lines.append([words["label"], *cells])
    return table(["models in the hub", *map(str, sizes)], lines)


def ranks() -> str:
    lines = []
    for words in analysis("hub-ranks")["methods"].values():
        cells = []
        for kind in ("spearman", "kendall"):
            known = [value for value in words[kind].values() if value is not None]
            cells.append(f"{sum(known) / len(known):.2f}")
        lines.append([words["label"], *cells])
    return table(["order of the models, predicted and true; mean over tasks", "Spearman", "Kendall"], lines)


def scale() -> str:
    lines = []
    for row in json.loads(SCALE.read_text(encoding="utf-8"))["rows"]:
        times = [f"{row[f'{word}_s']:.2f} s ({row[f'{word}_cpu_s']:.2f})" for word in ("warm", "first", "cold")]
        sizes = [f"{row['cold_read_bytes'] / 1e9:.2f} GB", f"{row['peak_anonymous_bytes'] / 1e6:.0f} MB"]
        form = f"{row['models']:,}" + ("" if row["form"] == "with holes" else f", {row['form']}")
        lines.append([form, str(row["files"]), f"{row['bytes'] / 1e9:,.0f} GB", *times, *sizes])
    heads = [
        "models",
        "files",
        "whole size",
        "warm",
        "first in a process",
        "files not in memory",
        "read then",
        "memory",
    ]
    return table(heads, lines)
