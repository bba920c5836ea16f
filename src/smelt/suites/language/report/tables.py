"""A language suite as tables, turned as the paper prints them: domains or tasks down, methods across.

Per domain (its Tables 10 to 17), per task, general tasks; and beside the paper's own numbers its Tables 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.tables.as_csv import task_records
from smelt.reporting.tables.cells import Cell, printed_cell
from smelt.reporting.tables.grid import Grid, table_rows
from smelt.reporting.tables.lines import EXPERTS, TableLine
from smelt.reporting.tables.ranks import with_ranks
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.reporting.words import count
from smelt.suites.language.published import PaperTable, mergebench
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.lines import ExampleReader, domain_lines, general_lines, task_lines
from smelt.suites.language.report.single import best_single

__all__ = ["DOMAINS", "GENERAL", "PAPER", "TASKS", "base_name", "language_sheets", "paper_sheets", "sheet_of"]

DOMAINS, TASKS, GENERAL, PAPER = "domains", "tasks", "general", "paper"
"""The keys of the blocks; one with the paper's own numbers begins with the last."""

_DOMAINS = (
    "The score of a domain is the mean over its test tasks. Avg. Norm: the mean over the domains of the score divided "
    "by that of the domain's own expert. References take no place."
)
_SINGLE = " Best single: the one specialist with the largest Avg. Norm over all domains, {}."
_GENERAL = (
    "Tasks that no specialist was trained for: what is lost here was forgotten. Avg. Norm: the mean over the tasks of "
    "the score divided by the base model's."
)


def language_sheets(rows: Iterable[Row], language: Language) -> list[Sheet]:
    """The tables of our own rows: domains, tasks, and general tasks where they were measured."""
    rows = list(rows)
    shown, split = table_rows(rows)
    single = best_single(rows, language, split)
    lines = task_lines(shown, language, split, single)
    over_domains = with_ranks(domain_lines(lines, language))
    titles = tuple(mergebench().domains.get(name, name.capitalize()) for name in language.domains)
    grid = Grid(titles, split, tuple(over_domains), "Avg. Acc", "Avg. Norm")
    over_tasks = Grid(language.tasks, split, tuple(with_ranks(lines)), "", notes=_notes(shown, language.tasks))
    about = _DOMAINS + (_SINGLE.format(single.note) if single else "")
    sheets = [
        replace(_sheet(DOMAINS, "Per domain", grid, about, "Domain"), made=_made(over_domains)),
        _sheet(TASKS, "Per task", over_tasks, "Below each task its metric and its number of examples.", "Task"),
    ]
    general = general_lines(shown, language, split, single)
    if any(cell for line in general for cell in line.cells):
        notes = _notes(shown, language.general)
        grid = Grid(language.general, split, tuple(with_ranks(general)), "Avg. Acc", "Avg. Norm", notes)
        sheets.append(_sheet(GENERAL, "General tasks", grid, _GENERAL, "Task"))
    return sheets


def paper_sheets(sheets: Sequence[Sheet], rows: Sequence[Row], language: Language) -> list[Sheet]:
    """Tables 8 and 9: one line of ours, and below it the paper's own eight, marked as such."""
    paper, name = mergebench(), base_name(rows, language)
    found = [
        (sheet_of(sheets, DOMAINS), paper.multitask, "Normalised multi-task performance", "the domain's expert"),
        (sheet_of(sheets, GENERAL), paper.generalisation, "Normalised generalisation", "the base model"),
    ]
    return [_beside_paper(*one, name) for one in found if one[0] is not None and any(m.merged for m in one[0].lines)]


def sheet_of(sheets: Sequence[Sheet], key: str) -> Sheet | None:
    """The table whose first block has this key."""
    return next((sheet for sheet in sheets if sheet.blocks[0].key == key), None)


def base_name(rows: Sequence[Row], language: Language) -> str:
    """The base model as people write it."""
    ref = next((row.model for row in rows if row.entry == language.base), language.base)
    return mergebench().names.get(ref, ref.rpartition(":")[2].rpartition("/")[2])


def _sheet(key: str, title: str, grid: Grid, about: str, corner: str) -> Sheet:
    places = "Best method of a line in bold, second underlined."
    return _transposed(Sheet((ColumnBlock(key, "", grid),), title, about, places=places), "Score", corner)


def _transposed(sheet: Sheet, measure: str, corner: str) -> Sheet:
    blocks = tuple(replace(block, grid=replace(block.grid, unit=ExampleReader.unit)) for block in sheet.blocks)
    return replace(
        sheet,
        blocks=blocks,
        headings=False,
        transposed=True,
        measure=measure,
        corner=corner,
        extra="metric",
        records=_records,
    )


def _records(line: TableLine, block: ColumnBlock, part: str | None) -> Iterator[list[object]]:
    """With the metric of every task, where it has one."""
    metrics = {row.task: row.metric for row in line.rows}
    for record in task_records(line, block, part):
        yield [*record, metrics.get(str(record[5]), "")]


def _made(lines: Sequence[TableLine]) -> str:
    """`Made with: TIES (tuned: density 0.2; 500 labelled val examples), ...`."""
    said = [f"{line.short or line.name} ({text})" for line in lines if line.merged and (text := line.details)]
    return f"Made with: {', '.join(said)}." if said else ""


def _notes(rows: Sequence[Row], tasks: Sequence[str]) -> tuple[str, ...]:
    """`exact match, n = 500` below every task."""
    found = []
    for task in tasks:
        here = [row for row in rows if row.task == task and row.entry != EXPERTS]
        numbers = sorted({row.n for row in here})
        n = "–".join(count(number) for number in ([numbers[0], numbers[-1]] if len(numbers) > 1 else numbers))
        found.append(f"{here[-1].metric.replace('_', ' ')}, n = {n}" if here else "not measured")
    return tuple(found)


def _beside_paper(sheet: Sheet | None, table: PaperTable, title: str, by: str, name: str) -> Sheet:
    """Our line above the paper's; columns rise with our number, as the paper's rise with its overall."""
    assert sheet is not None
    paper = mergebench()
    methods = [line for line in sheet.lines if line.merged]
    methods.sort(key=lambda m: (m.normalised is None, m.normalised or 0.0, table.overall.get(m.entry, 0.0)))
    ours = [_over(line, [line.share]) for line in methods]
    bases = [*table.lines.items(), ("Overall, of the paper", table.overall)]
    theirs = [_of_paper(line, [printed_cell(numbers.get(line.entry)) for _, numbers in bases]) for line in methods]
    heading = f"The paper's own numbers: {paper.source}, Table {table.number}"
    blocks = (
        ColumnBlock(f"table {table.number}", "This run", Grid((name,), sheet.split, tuple(with_ranks(ours)), "")),
        ColumnBlock(
            f"{PAPER} table {table.number}",
            heading,
            Grid(tuple(base for base, _ in bases), "paper", tuple(with_ranks(theirs)), ""),
        ),
    )
    others = (
        f"that of {name} is of the same models" if name in paper.bases else "they are other base models, tests and data"
    )
    about = (
        f"In % of {by}; columns rise with this run's number. The paper's lines: {others}; "
        "they are shown to compare orders, and no average of this page has them in it."
    )
    full = f"{title} (the paper's Table {table.number})"
    return _transposed(Sheet(blocks, full, about, places=sheet.places), "Normalised score", "Base model")


def _over(line: TableLine, cells: Sequence[Cell | None]) -> TableLine:
    """A line with other columns, and nothing that was derived from the old ones."""
    gone = replace(line, average=None, normalised=None, normalised_interval=None, normalised_rank=0)
    return replace(gone, cells=tuple(cells))


def _of_paper(line: TableLine, cells: Sequence[Cell | None]) -> TableLine:
    """The paper's line of the same method: nothing of our model is in it."""
    return replace(_over(line, cells), setting={}, variant="published", rows=(), data="", loud="")
