"""The models of a language suite over its tasks, and from there over its domains: lines of tables.

    score of a domain     = mean over its test tasks
    normalised            = mean over domains of  score / score of the domain's own expert
    generalisation        = mean over general tasks of  score / the base model's score

Intervals of means of ratios: the tasks' own intervals, divided by the expert's (the base's) score and combined as those
of independent samples. The divisor is taken as known, so that it shifts all methods alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.budget import split_words
from smelt.reporting.tables.cells import Cell, mean_cell
from smelt.reporting.tables.lines import EXPERTS, LineReader, TableLine, is_expert, last_cell
from smelt.suites.language.published import mergebench
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.single import SingleSpecialist

__all__ = ["ExampleReader", "domain_lines", "general_lines", "ratio_cell", "task_lines"]


class ExampleReader(LineReader):
    """Data is counted in examples."""

    unit = "example"


def task_lines(
    rows: Sequence[Row], language: Language, split: str, single: SingleSpecialist | None = None
) -> list[TableLine]:
    """Every model over the test tasks: base, methods in their order, best single specialist, multi-task, experts."""
    lines = [*_models(rows, language, language.tasks, split), *_single(rows, single, language.tasks)]
    lines.append(_experts(rows, language))
    return sorted(lines, key=lambda line: _place(line.entry, language))


def domain_lines(lines: Sequence[TableLine], language: Language) -> list[TableLine]:
    """The same models over the domains, with their share of the experts."""
    places = {task: at for at, task in enumerate(language.tasks)}
    found = []
    for line in lines:
        cells = tuple(mean_cell([line.cells[places[t]] for t in tasks]) for tasks in language.domains.values())
        found.append(replace(line, cells=cells, average=mean_cell(cells)))
    experts = next((line.cells for line in found if line.entry == EXPERTS), ())
    return [_with_share(line, ratio_cell(line.cells, experts)) for line in found]


def general_lines(
    rows: Sequence[Row], language: Language, split: str, single: SingleSpecialist | None = None
) -> list[TableLine]:
    """Every model over the general tasks, with its share of the base's scores; the experts together are left out."""
    lines = [*_models(rows, language, language.general, split), *_single(rows, single, language.general)]
    base = next((line.cells for line in lines if line.entry == language.base), ())
    lines = [_with_share(line, ratio_cell(line.cells, base)) for line in lines]
    return sorted(lines, key=lambda line: _place(line.entry, language))


def ratio_cell(cells: Sequence[Cell | None], divisors: Sequence[Cell | None]) -> Cell | None:
    """The mean of ratios with its interval; None where a number is missing or a divisor is 0."""
    pairs = [(one, by.accuracy) for one, by in zip(cells, divisors, strict=False) if one and by and by.accuracy > 0]
    if not pairs or len(pairs) < len(cells):
        return None
    mean = sum(one.accuracy / by for one, by in pairs) / len(pairs)
    below = math.hypot(*((one.accuracy - one.low) / by for one, by in pairs)) / len(pairs)
    above = math.hypot(*((one.high - one.accuracy) / by for one, by in pairs)) / len(pairs)
    return Cell(mean, mean - below, mean + above, sum(one.n for one, _ in pairs))


def _models(rows: Sequence[Row], language: Language, tasks: Sequence[str], split: str) -> list[TableLine]:
    """Lines with a short name, in a group by whether training data was used."""
    found = []
    for line in ExampleReader().lines([row for row in rows if not is_expert(row)], tasks, split):
        trained = any("train" in split_words(row.data_budget) for row in line.rows)
        group = "data-driven" if line.merged and trained else line.group
        found.append(replace(line, group=group, short=_short_name(line, language)))
    return found


def _experts(rows: Sequence[Row], language: Language) -> TableLine:
    own = [(language.experts[domain], task) for domain, tasks in language.domains.items() for task in tasks]
    return replace(_of_experts(EXPERTS, "Experts", rows, own), note="each on its own domain", short="Experts")


def _single(rows: Sequence[Row], single: SingleSpecialist | None, tasks: Sequence[str]) -> list[TableLine]:
    """One specialist on all tasks, where it was asked any of these."""
    if single is None:
        return []
    line = _of_experts(single.entry, single.label, rows, [(single.entry, task) for task in tasks])
    return [replace(line, note=single.note, short=single.short)] if line.rows else []


def _of_experts(entry: str, label: str, rows: Sequence[Row], asked: Sequence[tuple[str, str]]) -> TableLine:
    """A line of numbers that specialists have, each (entry, task) in its place."""
    found = [[row for row in rows if (row.entry, row.task) == one] for one in asked]
    cells = tuple(map(last_cell, found))
    latest = tuple(own[-1] for own in found if own)
    return TableLine(entry, "reference", label, {}, "reference", cells, latest, mean_cell(cells))


def _short_name(line: TableLine, language: Language) -> str:
    """What heads a column: the paper's name where it has the method."""
    references = {language.base: "Base", language.multitask: "Multi-task"}
    return references.get(line.entry) or mergebench().methods.get(line.entry, line.label)


def _with_share(line: TableLine, share: Cell | None) -> TableLine:
    if share is None:
        return replace(line, normalised=None, normalised_interval=None)
    return replace(line, normalised=share.accuracy, normalised_interval=(share.low, share.high))


def _place(entry: str, language: Language) -> tuple[int, int]:
    if entry in language.entries:
        return 1, language.entries.index(entry)
    order = {language.base: 0, language.multitask: 3, EXPERTS: 4}
    return order.get(entry, 2), 0
