"""The numbers of results/llm5 as tables: blocks for docs/results/llm5.md, through the report's own lines and tables.

`blocks(folder)` takes any folder that `smelt bench` wrote for a language suite; without one the blocks say so.
"""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "llm5"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]
MISSING = "Not measured yet: `smelt bench llm5 -o results/llm5 --device cuda --dtype bfloat16`."


@dataclass(frozen=True)
class Run:
    """A suite's folder, read."""

    rows: tuple[Any, ...]
    costs: tuple[Any, ...]
    plan: Any
    sheets: tuple[Any, ...]
    standings: tuple[Any, ...]


def blocks(folder: Path = RESULTS) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    makers: dict[str, Callable[[Run], str]] = {
        "run": run,
        "domains": domains,
        "made": made,
        "experts": experts,
        "tasks": tasks,
        "general": general,
        "tuning": tuning,
        "costs": costs,
        "order": lambda _: _order(folder),
        "paper": paper,
        "paper-general": paper_general,
    }
    found = read(folder) if (folder / "rows.jsonl").is_file() else None
    return {"results/llm5.md": {f"llm5-{name}": maker(found) if found else MISSING for name, maker in makers.items()}}


@functools.cache
def read(folder: Path = RESULTS) -> Run:
    from smelt.reporting.pages import read_folder
    from smelt.suites.language.report.standing import standings
    from smelt.suites.report import view_of

    rows, costs = read_folder(folder)
    pages, view = view_of(folder, rows, costs)
    assert view.own, f"{folder}: no analyses/language.json"
    sheets = pages.sheets(view)
    return Run(view.rows, view.costs, view.own, tuple(sheets), tuple(standings(sheets, costs, view.own)))


def run(found: Run) -> str:
    """What was run, in one line."""
    from smelt.suites.language.report.tables import base_name

    shown = [row for row in found.rows if row.variant != "curve" and row.split == "test"]
    sizes = {row.task: row.n for row in shown}

    def count(names: Sequence[str]) -> str:
        return f"{sum(sizes.get(name, 0) for name in names):,}"

    methods = [one for one in found.standings if one.kind == "method"]
    trials = sum(one.cost.trials for one in methods if one.cost)
    words = {word: ", ".join(sorted({getattr(row, word) for row in shown})) for word in ("device", "dtype", "code")}
    return (
        f"{base_name(found.rows, found.plan)}, {len(found.plan.domains)} specialists, {len(methods)} methods at "
        f"{trials} settings, {len(found.plan.tasks)} test tasks with "
        f"{count(found.plan.tasks)} examples, {len(found.plan.general)} general tasks with "
        f"{count(found.plan.general)}; {words['device']}, {words['dtype']}, seed 0, "
        f"code {words['code']}."
    )


def domains(found: Run) -> str:
    """As the paper's Tables 10 to 17: domains down, methods across, raw and normalised means below."""
    from smelt.suites.language.report.tables import DOMAINS

    return turned(sheet(found, DOMAINS))


def made(found: Run) -> str:
    """The setting of each method, and what it had looked at."""
    from smelt.suites.language.report.tables import DOMAINS

    lines = [
        [line.short or line.name, line.details or "nothing"] for line in sheet(found, DOMAINS).lines if line.merged
    ]
    return table(["method", "setting, and data that it looked at"], lines, left=2)


def experts(found: Run) -> str:
    """Every specialist on its own domain beside the base, with intervals and their difference."""
    from smelt.reporting.tables.cells import cell_of, mean_cell
    from smelt.suites.language.report.standing import difference

    at = {(row.entry, row.task): row for row in found.rows if row.variant == "reference" and row.split == "test"}
    lines = []
    for domain, names in found.plan.domains.items():
        pairs = [(at.get((found.plan.base, task)), at.get((found.plan.experts[domain], task))) for task in names]
        known = {task: (a, b) for task, (a, b) in zip(names, pairs, strict=True) if a and b}
        for task, (base, expert) in known.items():
            about = f"{expert.metric.replace('_', ' ')}, {expert.n}"
            lines.append([domain, task, about, *beside_base(cell_of(base), cell_of(expert), difference)])
        if len(known) > 1:
            base, expert = (mean_cell([cell_of(pair[side]) for pair in known.values()]) for side in (0, 1))
            bold = [f"**{one}**" for one in beside_base(base, expert, difference)]
            lines.append([f"**{domain}**", "**mean**", "", *bold])
    return table(["domain", "task", "metric, examples", "base", "specialist", "difference"], lines, left=3)


def beside_base(base: Any, expert: Any, difference: Callable[[Any, Any], Any]) -> list[str]:
    apart = difference(expert, base)
    gain = f"{100 * apart.value:+.1f} ({100 * apart.low:+.1f} to {100 * apart.high:+.1f})"
    return [with_interval(base), with_interval(expert), gain]


def tasks(found: Run) -> str:
    from smelt.suites.language.report.tables import TASKS

    return turned(sheet(found, TASKS))


def general(found: Run) -> str:
    from smelt.suites.language.report.tables import GENERAL

    return turned(sheet(found, GENERAL))


def tuning(found: Run) -> str:
    """What choosing settings found on the validation tasks."""
    from smelt.suites.language.report.standing import tuning as tried

    def share(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    lines = [
        [one.name, one.setting, str(one.trials), share(one.best), share(one.middle), share(one.worst)]
        for one in tried(found.rows, found.sheets)
        if one.trials
    ]
    return table(["method", "chosen", "settings asked in full", "best, %", "median", "worst"], lines, left=2)


def costs(found: Run) -> str:
    """Algorithm and validation time apart, as the paper has them; the peak of memory beside them."""
    from smelt.reporting.words import bytes_text, seconds_text

    lines = []
    for one in found.standings:
        if one.kind != "method" or one.cost is None:
            continue
        looked = one.cost.prepare_seconds
        where = f" ({one.cost.prepare_device})" if looked else ""
        lines.append(
            [
                one.name,
                f"{seconds_text(looked)}{where}" if looked else "–",
                seconds_text(one.cost.merge_seconds),
                str(one.cost.trials),
                seconds_text(one.cost.validate_seconds) if one.cost.trials else "–",
                seconds_text(one.total_seconds or 0.0),
                bytes_text(one.cost.most_bytes),
                "–" if one.skill is None else f"{100 * one.skill.accuracy:.1f}",
            ]
        )
    heads = [
        "method",
        "looking at data",
        "one merge",
        "settings",
        "validation",
        "in all",
        "peak memory",
        "Avg. Norm, %",
    ]
    return table(heads, lines)


def paper(found: Run) -> str:
    return turned(sheet(found, "table 8"))


def paper_general(found: Run) -> str:
    return turned(sheet(found, "table 9"))


def sheet(found: Run, key: str) -> Any:
    from smelt.suites.language.report.tables import sheet_of

    return sheet_of(found.sheets, key)


def turned(one: Any) -> str:
    """The table of a sheet as the report prints it, without the words around it."""
    from smelt.reporting.tables.as_markdown import as_markdown

    if one is None:
        return MISSING

    return "\n".join(line for line in as_markdown([one]).splitlines() if line.startswith("|"))


def with_interval(number: Any) -> str:
    """Of a row or a cell, in %."""
    return f"{100 * number.accuracy:.1f} ({100 * number.low:.1f} to {100 * number.high:.1f})"


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> str:
    """`left` columns are words, the others numbers."""
    marks = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, marks, *lines))
