"""The numbers of results/hub and results/hub-scale.json as tables: blocks for docs/how-to/hub.md.

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
SCALE = RESULTS.parent / "hub-scale.json"
LONG = RESULTS.parent / "hub-scale-long.json"
METHODS = ("mll", "mll-sure", "mll-domain", "mll-gloss", "mll-code", "graph-best", "modelgpt", "oracle", "random")
SHOWN = ("mll", "mll-domain", "graph-best", "modelgpt", "oracle", "random")


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    made = {"hub-run": run(), "hub-methods": methods(), "hub-tasks": tasks(), "hub-alpha": over_alpha()}
    made |= {"hub-order": _order(RESULTS)}
    made |= {"hub-k": over_k(), "hub-growth": growth(), "hub-ranks": ranks(), "hub-scale": scale()}
    return {"how-to/hub.md": made}


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


def methods() -> str:
    lines = []
    for entry in METHODS:
        one, three = found(entry, "hub: k = 1"), found(entry, "hub: k = 3")
        lines.append([label(entry), *(f"{mean(each):.1f} ± {spread(each):.1f}" for each in (one, three))])
    return table(["average of all tasks, %", "k = 1", "k = 3"], lines)


def tasks() -> str:
    by_entry = {entry: found(entry, "hub: k = 1") for entry in SHOWN}
    lines = []
    for task in by_entry["mll"]:
        own = {entry: 100 * by_entry[entry][task].accuracy for entry in SHOWN}
        best = max(own[entry] for entry in ("mll", "graph-best", "modelgpt"))
        cells = [
            f"**{value:.1f}**" if value == best and entry in ("mll", "graph-best", "modelgpt") else f"{value:.1f}"
            for entry, value in own.items()
        ]
        lines.append([f"{task} ({by_entry['mll'][task].n:,})", *cells])
    return table(["k = 1, accuracy in % (pictures)", *(label(entry) for entry in SHOWN)], lines)


def over_alpha() -> str:
    values = sorted({row.setting["alpha"] for row in rows() if row.part == "hub: alpha"})
    cells = [f"{mean(found('mll', 'hub: alpha', alpha=value)):.1f}" for value in values]
    return table(["alpha", *(f"{value:g}" for value in values)], [["average, %", *cells]])


def over_k() -> str:
    values = sorted({row.setting["k"] for row in rows() if row.part == "hub: k"})
    cells = [f"{mean(found('mll', 'hub: k', k=value)):.1f}" for value in values]
    spent = {row.setting["k"]: row for row in costs() if row.part == "hub: k"}
    times = [f"{spent[k].evaluate_seconds / spent[1].evaluate_seconds:.2f}" for k in values]
    flops = [f"{spent[k].setting['flops'] / spent[1].setting['flops']:.2f}" for k in values]
    asked = [str(spent[k].setting["models"]) for k in values]
    return table(
        ["k", *map(str, values)],
        [
            ["average, %", *cells],
            ["time, of k = 1 (measured on photos)", *times],
            ["models that answer there", *asked],
            ["operations, of k = 1 (all tasks)", *flops],
        ],
    )


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
    for place in (SCALE, LONG):
        content = json.loads(place.read_text(encoding="utf-8"))
        length = f"{content['hub']['mean_list_length']:.0f}"
        by_size: dict[tuple[int, int], dict[str, Any]] = {}
        for row in content["rows"]:
            by_size.setdefault((row["models"], row["selected_nodes"]), {}).update(
                {key: value for key, value in row.items() if key.endswith("_s") or key == "peak_anonymous_bytes"}
                if "cold_s" not in row
                else {"cold_s": row["open_s"] + row["cold_s"]}
            )
        for (models, nodes), row in sorted(by_size.items()):
            cold = f"{row['cold_s']:.1f} s" if "cold_s" in row else ""
            memory = f"{row['peak_anonymous_bytes'] / 1e6:.0f} MB"
            lines.append(
                [f"{models:,}", f"{nodes}", length, f"{row['warm_s']:.2f} s", f"{row['first_s']:.2f} s", cold, memory]
            )
    heads = [
        "models",
        "selected nodes",
        "mean list",
        "warm",
        "first in a process",
        "files not in memory",
        "peak memory",
    ]
    return table(heads, lines)
