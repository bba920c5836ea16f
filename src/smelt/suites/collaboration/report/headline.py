"""The first words about merging beside ensembling: NeuLig where most methods are, beside the best of the others."""

from __future__ import annotations

from smelt.reporting.headline import named
from smelt.reporting.pages import Tile
from smelt.reporting.tables.grid import best_first
from smelt.reporting.tables.lines import EXPERTS, TableLine
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.collaboration.report.levels import AVERAGE, NEULIG

__all__ = ["level_sentences", "level_tiles"]

_FIRST = "neulig-supervised"
"""The entry that the page opens with; another of the same method where it is not there."""


def level_sentences(sheet: Sheet, *, pools: int = 1) -> list[str]:
    """What was compared, how close NeuLig's two ways come to each other and to the experts, and what others reach."""
    tasks = [block for block in sheet.blocks if block.key != AVERAGE]
    # Both columns of a task are of the same pictures.
    pictures = sum(max((c.n for m in block.grid.lines for c in m.cells if c), default=0) for block in tasks)
    where = f" Of {pools} groups, {sheet.title}:" if pools > 1 else ""
    entries = {line.entry for line in sheet.lines if line.group != "reference"}
    said = [
        "The same coefficients merge the weights of several experts, or weigh what the experts answer together; the "
        f"closer the two, the smaller the gap.{where} {plural(len(entries), 'method')} on the same {count(pictures)} "
        f"{sheet.split} pictures of {plural(len(tasks), 'task')}."
    ]
    ours, best = _ours(sheet), _best(sheet)
    if ours:
        said.append(f"{named(ours)}: {_reached(ours)}.{_experts(sheet)}")
    if best:
        said.append(f"The best other merge, {named(best)}: {_reached(best)}.")
    return said


def level_tiles(sheet: Sheet) -> list[Tile]:
    """Both ways of NeuLig, its gap, its share of the experts, and the best of the others."""
    tiles, ours, best = [], _ours(sheet), _best(sheet)
    if ours:
        merged, ensembled = ours.cells
        tiles += [Tile("Merged", percent(merged.accuracy), ours.name, best=True)] if merged else []
        tiles += [Tile("Ensembled", percent(ensembled.accuracy), ours.name)] if ensembled else []
        tiles += [] if ours.gap is None else [Tile("Gap", percent(ours.gap), "between the two", unit="points")]
        if ours.normalised is not None:
            share = min(max(ours.normalised, 0.0), 1.0)
            tiles.append(Tile("Of the experts", percent(ours.normalised), "when merged", meter=share))
    if best and best.average:
        apart = "" if best.gap is None else f", gap {percent(best.gap)}"
        tiles.append(Tile("Best other merge", percent(best.average.accuracy), f"{best.name}{apart}"))
    return tiles


def _averages(sheet: Sheet) -> tuple[TableLine, ...]:
    return sheet.blocks[-1].grid.lines


def _ours(sheet: Sheet) -> TableLine | None:
    lines = [line for line in _averages(sheet) if line.entry.startswith(NEULIG) and line.average]
    return next((line for line in lines if line.entry == _FIRST), lines[0] if lines else None)


def _best(sheet: Sheet) -> TableLine | None:
    return next(iter(best_first(line for line in _averages(sheet) if line.group == "collaboration")), None)


def _reached(line: TableLine) -> str:
    merged, ensembled = line.cells
    said = [f"merged {percent(merged.accuracy)} %"] if merged else []
    said += [f"ensembled {percent(ensembled.accuracy)} %"] if ensembled else []
    said += [] if line.gap is None else [f"a gap of {percent(line.gap)} points"]
    share = "" if line.normalised is None else f"; merged, that is {percent(line.normalised)} % of the experts"
    return ", ".join(said) + share


def _experts(sheet: Sheet) -> str:
    experts = next((line.average for line in _averages(sheet) if line.entry == EXPERTS), None)
    return f" The experts themselves get {percent(experts.accuracy)} %, each on its own task." if experts else ""
