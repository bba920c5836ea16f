"""Several bases beside each other: do stronger bases merge better? (Figure 2 of MergeBench.)

In: folders of runs that asked the same tests, a base each. Out: for every method its normalised multi-task performance
on each base, the weakest base first, and how far the strongest is above the weakest. A base is as strong as its own
mean score over the domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from smelt.errors import RecipeError
from smelt.reporting.draw.axis import percent_ticks, span
from smelt.reporting.draw.slopes import Slope, slopes
from smelt.reporting.pages import read_folder
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import EXPERTS
from smelt.reporting.words import percent, plural
from smelt.suites.language.report.analyses import read_language
from smelt.suites.language.report.standing import ScoreDifference, Standing, StandingKind, difference, standings
from smelt.suites.language.report.tables import DOMAINS, base_name, language_sheets, sheet_of

__all__ = ["BaseRun", "OverBases", "ShareLine", "bases_figure", "bases_sentences", "over_bases"]

_COLOURS = 6
_REFERENCES = {"base": "Base", "single": "Best single specialist", "multitask": "Multi-task"}


@dataclass(frozen=True)
class BaseRun:
    """One base: its own mean score over the domains, and that of its specialists, each on its own domain."""

    name: str
    own: Cell
    experts: Cell | None
    standings: tuple[Standing, ...]


@dataclass(frozen=True)
class ShareLine:
    """One method, or one reference, over the bases."""

    name: str
    kind: StandingKind
    shares: tuple[Cell | None, ...]
    gain: ScoreDifference | None
    """How far the strongest base is above the weakest."""


@dataclass(frozen=True)
class OverBases:
    """Figure 2 as data; the weakest base first."""

    bases: tuple[BaseRun, ...]
    methods: tuple[ShareLine, ...]
    references: tuple[ShareLine, ...]


def over_bases(folders: Sequence[Path]) -> OverBases:
    """Of runs in these folders, which have to have asked the same tests."""
    read = [_read(folder) for folder in folders]
    for folder, (tests, _) in zip(folders, read, strict=True):
        if tests != read[0][0]:
            raise RecipeError(f"{folder}: asked other tests than {folders[0]}, so that their numbers do not compare")
    bases = tuple(sorted((run for _, run in read), key=lambda run: run.own.accuracy))
    every = [one for run in bases for one in run.standings]
    methods = dict.fromkeys(one.entry for one in every if one.kind == "method")
    kinds = dict.fromkeys(one.kind for one in every if one.kind != "method")
    return OverBases(
        bases,
        tuple(
            _line(bases, next(one.name for one in every if one.entry == entry), "method", entry) for entry in methods
        ),
        tuple(_line(bases, _REFERENCES[kind], kind) for kind in _REFERENCES if kind in kinds),
    )


def bases_sentences(found: OverBases) -> list[str]:
    """Which base is the stronger one, and on how many methods it is ahead."""
    weak, strong = found.bases[0], found.bases[-1]
    own = ", ".join(f"{run.name} {_said(run.own)}" for run in found.bases)
    said = [f"Bases by their own mean score over the domains, the weakest first: {own}."]
    if weak.experts and strong.experts:
        of = ", ".join(f"{percent(run.experts.accuracy)} %" for run in found.bases if run.experts)
        same = "in the same order" if strong.experts.accuracy > weak.experts.accuracy else "in another order"
        said.append(f"Their specialists, each on its own domain, have {of}: {same}.")
    gains = [line.gain for line in found.methods if line.gain]
    if not gains:
        return [*said, "No method was measured on both."]
    up, down = [gap for gap in gains if gap.value > 0], [gap for gap in gains if gap.value <= 0]
    said.append(
        f"Of {plural(len(gains), 'method')} {len(up)} keep more of their specialists on {strong.name} than on "
        f"{weak.name}; for {sum(gap.sure for gap in up)} of these the 95 % interval of the difference leaves out zero."
    )
    if down:
        said.append(f"{len(down)} do not; for {sum(gap.sure for gap in down)} of these it leaves out zero.")
    return said


def bases_figure(found: OverBases) -> Markup:
    """Normalised performance of every method, from base to base."""
    lines = [
        Slope(
            line.name,
            [(cell.accuracy, cell.low, cell.high) if cell else None for cell in line.shares],
            f"c{at % _COLOURS + 2}" if line.kind == "method" else "reference",
            [
                f"{line.name}, {run.name}: {_said(cell)} of the experts" if cell else ""
                for run, cell in zip(found.bases, line.shares, strict=True)
            ],
        )
        for at, line in enumerate((*found.methods, *(one for one in found.references if one.kind != "multitask")))
        if any(line.shares)
    ]
    y = span([end for line in lines for point in line.points if point for end in point])
    return slopes(
        "Normalised multi-task performance by base model",
        [run.name for run in found.bases],
        lines,
        y=y,
        y_ticks=percent_ticks(*y, 6),
        label="multi-task performance, % of the experts",
    )


def _read(folder: Path) -> tuple[dict[str, tuple[str, ...]], BaseRun]:
    rows, costs = read_folder(folder)
    language = read_language(folder / "analyses")
    if language is None:
        raise RecipeError(f"{folder}: there is no analyses/language.json; this is no run of a language suite")
    sheets = language_sheets(rows, language)
    known, domains = standings(sheets, costs, language), sheet_of(sheets, DOMAINS)
    own = next((one.average for one in known if one.kind == "base"), None)
    if own is None or domains is None:
        raise RecipeError(f"{folder}: the base was not asked all tests")
    experts = next((line.average for line in domains.lines if line.entry == EXPERTS), None)
    return language.domains, BaseRun(base_name(rows, language), own, experts, tuple(known))


def _line(bases: Sequence[BaseRun], name: str, kind: StandingKind, entry: str | None = None) -> ShareLine:
    """Of a method by its entry; of a reference, which may be another model on every base, by its kind."""
    shares = tuple(
        next((one.skill for one in run.standings if one.kind == kind and entry in (None, one.entry)), None)
        for run in bases
    )
    first, last = shares[0], shares[-1]
    return ShareLine(name, kind, shares, difference(last, first) if first and last and len(bases) > 1 else None)


def _said(cell: Cell) -> str:
    return f"{percent(cell.accuracy)} % ({percent(cell.low)} to {percent(cell.high)})"
