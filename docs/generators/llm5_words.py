"""What the numbers of results/llm5 say in words: blocks for docs/results/llm5.md that are true whatever came out.

The report's own first sentences, and one block beside each table. "Surely": a 95 % interval that leaves out zero.
"""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("llm5.py")))
SMALL, NEAR = 3.0, 2
"""Billions of parameters of the paper's bases that are nearest to ours; places that are called near."""


def blocks(folder: Path = TABLES["RESULTS"]) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    makers: dict[str, Callable[[Any], str]] = {
        "headline": headline,
        "learned": learned,
        "by-domain": by_domain,
        "forgotten": forgotten,
        "places": places,
        "times": times,
    }
    found = TABLES["read"](folder) if (folder / "rows.jsonl").is_file() else None
    made = {f"llm5-{name}": maker(found) if found else TABLES["MISSING"] for name, maker in makers.items()}
    return {"results/llm5.md": made}


def headline(found: Any) -> str:
    """The first words of the report."""
    from smelt.suites.language.report.headline import language_sentences

    return "\n\n".join(language_sentences(found.rows, found.costs, found.sheets, found.plan))


def learned(found: Any) -> str:
    """On which tests specialists are better than the base, and on which they are not."""
    from smelt.reporting.tables.cells import cell_of, mean_cell
    from smelt.suites.language.report.standing import difference

    reference = [row for row in found.rows if row.variant == "reference" and row.split == "test"]
    at = {(row.entry, row.task): cell_of(row) for row in reference}
    better, tests = [], {}
    for domain, names in found.plan.domains.items():
        own = [at.get((found.plan.experts[domain], task)) for task in names]
        base = [at.get((found.plan.base, task)) for task in names]
        pairs = zip(names, own, base, strict=True)
        tests |= {task: difference(one, other) for task, one, other in pairs if one and other}
        ours, theirs = mean_cell(own), mean_cell(base)
        if ours and theirs and difference(ours, theirs).low > 0:
            better.append(domain)
    others = [domain for domain in found.plan.domains if domain not in better]
    worse = [f"`{task}` ({100 * gap.value:+.1f} points)" for task, gap in tests.items() if gap.high < 0]
    same = [f"`{task}`" for task, gap in tests.items() if not gap.sure]
    not_so = f"; not so: {joined(others)}" if others else ""
    return (
        f"{len(better)} of {len(found.plan.domains)} specialists are surely better than the base in their own domain"
        f"{not_so}. Tests on which a specialist is surely worse than the base: {joined(worse)}. "
        f"Tests on which no difference is shown: {joined(same)}."
    )


def by_domain(found: Any) -> str:
    """Who is first in how many domains, and where merges are below the base."""
    from smelt.suites.language.report.standing import difference
    from smelt.suites.language.report.tables import DOMAINS

    grid = TABLES["sheet"](found, DOMAINS).blocks[0].grid
    base = next((line for line in grid.lines if line.entry == found.plan.base), None)
    methods = [line for line in grid.lines if line.merged]
    firsts: Counter[str] = Counter()
    below = []
    for at, domain in enumerate(grid.tasks):
        known = [(line, line.cells[at]) for line in methods if line.cells[at]]
        most = max((cell.accuracy for _, cell in known), default=0.0)
        firsts.update(line.short or line.name for line, cell in known if cell.accuracy == most)
        own = base.cells[at] if base else None
        worse = [line.short or line.name for line, cell in known if own and difference(cell, own).high < 0]
        below += [f"{domain} ({joined(worse)})"] if worse else []
    counts = joined(f"{name} in {number}" for name, number in firsts.most_common())
    said = f"First among the methods, of {len(grid.tasks)} domains: {counts}. "
    return f"{said}Surely worse than the base by itself: {joined(below) if below else 'no method in any domain'}."


def forgotten(found: Any) -> str:
    """Who is surely below the base on general tasks, and who above it."""
    from smelt.suites.language.report.standing import difference

    base = next((one.generalisation for one in found.standings if one.kind == "base"), None)
    known = [(one.name, one.generalisation) for one in found.standings if one.kind != "base" and one.generalisation]
    if base is None or not known:
        return "General tasks were not asked."
    gaps = [(name, difference(cell, base)) for name, cell in known]
    return (
        f"Surely below the base's 100 %: {joined(name for name, gap in gaps if gap.high < 0)}. "
        f"Surely above it: {joined(name for name, gap in gaps if gap.low > 0)}."
    )


def places(found: Any) -> str:
    """Which methods stand alike here and in the paper, and who leads on its smallest bases."""
    from smelt.suites.language.published import mergebench
    from smelt.suites.language.report.standing import ranked

    paper = mergebench()
    overall = paper.multitask.overall
    ours = [one for one in ranked(found.standings) if one.entry in overall]
    if not ours:
        return "No method of the paper was measured on all domains."
    apart = {
        f"{one.name} ({place} here, {there} there)": abs(place - there)
        for place, one in enumerate(ours, 1)
        for there in [1 + sum(value > overall[one.entry] for value in overall.values())]
    }
    near, far = ([name for name, gap in apart.items() if (gap <= NEAR) is close] for close in (True, False))
    small = [base for base, about in paper.bases.items() if about.size <= SMALL]
    first = [
        f"{base}: {joined(paper.methods[entry] for entry, value in line.items() if value == max(line.values()))}"
        for base in small
        for line in [paper.multitask.lines[base]]
    ]
    return (
        f"At most {NEAR} places apart here and in the paper's overall line: {joined(near)}. "
        f"Further apart: {joined(far)}. "
        f"First on the paper's bases of at most {SMALL:g} billion parameters, the nearest to ours: {'; '.join(first)}. "
        f"First here: {ours[0].name}."
    )


def times(found: Any) -> str:
    """Whether choosing a setting takes longer than all else, and what the longest choice bought."""
    from smelt.reporting.words import seconds_text
    from smelt.suites.language.report.standing import ranked

    chosen = [one for one in found.standings if one.kind == "method" and one.cost and one.cost.trials]
    if not chosen:
        return "No setting was chosen in this run."
    more = [one for one in chosen if one.cost.validate_seconds > one.algorithm_seconds]
    longest = max(chosen, key=lambda one: one.cost.validate_seconds)
    order = [one.entry for one in ranked(found.standings)]
    place = f", for place {order.index(longest.entry) + 1} of {len(order)}" if longest.entry in order else ""
    return (
        f"For {len(more)} of the {len(chosen)} methods that choose a setting, choosing it took longer than all else. "
        f"Longest: {longest.name}, {seconds_text(longest.cost.validate_seconds)}{place}."
    )


def joined(names: Iterable[str]) -> str:
    """`a, b`; `none` where there is nothing."""
    known: Sequence[str] = list(names)
    return ", ".join(known) if known else "none"
