"""Printed uncertainties beside ours, in nats: of every model in each repeat (Table 7), and of every step (Table 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smelt.reporting.published import ComparedCell, ComparedLine, ComparedTable, PublishedLine, PublishedTable
from smelt.suites.selection.report.analyses import SelectionAnalysis, Uncertain

__all__ = ["RepeatLine", "compared_uncertainties", "repeats_table"]


@dataclass(frozen=True)
class RepeatLine:
    """A model in one repeat: its uncertainty on every set, and their mean."""

    model: str
    repeat: int
    sets: tuple[float, ...]
    mean: float


def repeats_table(selection: SelectionAnalysis) -> list[RepeatLine]:
    """Every single model in every repeat, in the paper's form: all models of one repeat after the other."""
    tasks, known = selection.sets["held_in"], selection.singles[selection.guide]
    found = []
    for repeat in range(max((len(one.repeats) for one in known.values()), default=0)):
        for name in selection.models:
            values = tuple(known[f"expert-{name}"].repeats[repeat][task] for task in tasks)
            found.append(RepeatLine(name, repeat + 1, values, sum(values) / len(values)))
    return found


def compared_uncertainties(selection: SelectionAnalysis) -> list[ComparedTable]:
    """The printed tables with ours in every cell."""
    return [_compared(table, selection) for table in selection.printed]


def _compared(table: PublishedTable, selection: SelectionAnalysis) -> ComparedTable:
    lines, measured = [], 0
    for name, line in table.lines.items():
        known = _ours(line, name, selection)
        ours = [known.get(task) for task in table.columns]
        whole = [value for value in ours if value is not None]
        measured = max(measured, len(whole))
        if table.average:
            ours.append(sum(whole) / len(whole) if len(whole) == len(table.columns) else None)
        cells = tuple(ComparedCell(mine, theirs) for mine, theirs in zip(ours, line.values, strict=True))
        lines.append(ComparedLine(line.label, line.note, cells))
    heads = (*(table.heads or table.columns), *(["Average"] if table.average else []))
    return ComparedTable(table, heads, tuple(lines), measured)


def _ours(line: PublishedLine, name: str, selection: SelectionAnalysis) -> Mapping[str, float]:
    entry = line.entry or name
    who = entry if line.part is None else f"{entry}@{line.part}"
    found = _known(selection).get(who)
    if found is None:
        return {}
    if line.level is None:
        return found.sets
    repeats: Sequence[Mapping[str, float]] = found.repeats
    number = int(line.level) - 1
    return repeats[number] if number < len(repeats) else {}


def _known(selection: SelectionAnalysis) -> dict[str, Uncertain]:
    own = selection.own
    return {**selection.singles[selection.guide], **dict(zip(own.who, own.uncertainty, strict=True))}
