"""clip8 in several families: blocks and the figure of "In three sizes, and as a ResNet" in docs/results/clip8.md.

`blocks(folders)` and `files(folders)` take any folders that `smelt bench clip8 --family ...` wrote; one that is missing
is named with the command that makes it.
"""

from __future__ import annotations

import functools
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = {
    "clip-mini": RESULTS / "clip8-mini",
    "clip-small": RESULTS / "clip8-small",
    "clip-tiny": RESULTS / "clip8",
    "clip-tiny-rn": RESULTS / "clip8-rn",
}
PRINTED = {
    "ViT-B/32": ("ViT-B-32", "docs-ViT-B-32"),
    "ViT-B/16": ("docs-ViT-B-16",),
    "ViT-L/14": ("ViT-L-14", "docs-ViT-L-14"),
}
"""The paper's models with the files of their printed averages, of which the first counts."""
FIGURE = "results/figures/clip8-sizes.svg"
PAGE = "results/clip8.md"


@dataclass(frozen=True)
class Run:
    """One family's folder, read."""

    rows: tuple[Any, ...]
    note: Any
    sheet: Any


def blocks(folders: Mapping[str, Path] = FOLDERS) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    made = {f"table-{family}": table(family, folder) for family, folder in folders.items() if family != "clip-tiny"}
    found = rows(folders)
    return {PAGE: {**made, "sizes": sizes(found, folders), "sizes-papers": papers(found)}}


def files(folders: Mapping[str, Path] = FOLDERS) -> dict[str, str]:
    """The drawing, by its place under docs/."""
    drawn = figure(rows(folders))
    page = runpy.run_path(str(Path(__file__).with_name("figures.py")))["dots"]
    return {FIGURE: page(drawn)} if drawn else {}


def rows(folders: Mapping[str, Path]) -> list[Any]:
    """The share of every method in every family that was measured."""
    from smelt.suites.clip.report.gap import gap_rows

    runs = [run for folder in folders.values() if (run := read(folder))]
    return [row for run in runs for row in gap_rows(run.rows, run.note)]


@functools.cache
def read(folder: Path) -> Run | None:
    """None where a family was not measured yet."""
    from smelt.reporting.pages import read_folder
    from smelt.suites.report import view_of

    if not (folder / "rows.jsonl").is_file():
        return None
    scored, costs = read_folder(folder)
    pages, view = view_of(folder, scored, costs)
    assert view.own, f"{folder}: no analyses/family.json"
    return Run(view.rows, view.own[0], pages.sheets(view)[0])


def table(family: str, folder: Path) -> str:
    """What was run in a sentence, then methods down: setting, average, interval, share of the experts."""
    run = read(folder)
    if run is None:
        return missing(family, folder)
    from smelt.reporting.provenance import facts

    grid = run.sheet.blocks[0].grid
    made = ", ".join(f"{name.lower()} {text}" for name, text in facts(run.rows))
    lines = [["method", "setting", "average", "95 % interval", "of experts"]]
    for title, members in grid.groups():
        lines.append([f"**{title}**", "", "", "", ""])
        lines += [_line(one) for one in members]
    about = f"{grid.examples:,} test pictures of {len(grid.tasks)} tasks; {made}."
    return f"{about}\n\n{_table(lines, words=2)}"


def sizes(found: Sequence[Any], folders: Mapping[str, Path]) -> str:
    """The figure, its note, the sentences, the table, and what is missing."""
    from smelt.suites.clip.report.gap_words import gap_sentences, gap_table

    drawn = figure(found)
    if drawn is None:
        return "\n\n".join(missing(family, folder) for family, folder in folders.items())
    said = "\n".join(f"- {sentence}" for sentence in gap_sentences(found))
    absent = [missing(family, folder) for family, folder in folders.items() if read(folder) is None]
    shares = _table(gap_table(found), words=1)
    picture = f"![{drawn.title}]({FIGURE.removeprefix('results/')})"
    return "\n\n".join([picture, drawn.note, said, shares, *absent])


def papers(found: Sequence[Any]) -> str:
    """The share that the paper's own averages give, beside ours: methods that both have."""
    from smelt.suites.clip.report.gap import family_order, published_shares
    from smelt.suites.kind import suite_kinds
    from smelt.suites.published import PUBLISHED, read_table

    folder = Path(str(suite_kinds["clip"].folder)) / PUBLISHED
    printed = {
        name: published_shares([read_table(folder, f"fusionbench/{one}") for one in tables])
        for name, tables in PRINTED.items()
    }
    families = [one.family for one in family_order(found)]
    ours = {(row.method, row.family): row.share for row in found}
    labels = {row.method: row.label for row in found}
    lines = [["", *(f"paper, {name}" for name in printed), *(f"here, {family}" for family in families)]]
    for method, label in labels.items():
        theirs = [shares.get(method) for shares in printed.values()]
        if any(share is not None for share in theirs):
            lines.append([label, *map(_share, [*theirs, *(ours.get((method, family)) for family in families)])])
    return _table(lines, words=1)


def figure(found: Sequence[Any]) -> Any:
    from smelt.suites.clip.report.gap_figure import gap_figure

    return gap_figure(found)


def missing(family: str, folder: Path) -> str:
    where = f"results/{folder.name}"
    return f"{family}: Not measured yet: `smelt bench clip8 --family {family} -o {where} --device cuda`."


def _line(one: Any) -> list[str]:
    setting = one.details.replace("_", r"\_")
    if one.average is None:
        return [one.label, setting, "–", "–", "–"]
    average = f"{100 * one.average.accuracy:.1f}"
    interval = f"{100 * one.average.low:.1f} – {100 * one.average.high:.1f}".replace(" ", "\N{NO-BREAK SPACE}")
    ratio = "–" if one.normalised is None else f"{100 * one.normalised:.1f}"
    best = one.average.rank == 1
    return [one.label, setting, f"**{average}**" if best else average, interval, ratio]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:z.0f} %"


def _table(lines: Sequence[Sequence[str]], words: int) -> str:
    """The first line is the head; `words` columns are text, the others numbers."""
    marks = ["---"] * words + ["---:"] * (len(lines[0]) - words)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], marks, *lines[1:]))
