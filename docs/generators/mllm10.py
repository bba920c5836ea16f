"""The numbers of results/mllm10 as blocks for docs/results/mllm10.md: the report's sentences, tables and figures.

`blocks(folder)` and `files(folder)` take any folder that `smelt bench` wrote for a selection suite. Without one the
first block says that there is no run, and the others are empty.
"""

from __future__ import annotations

import functools
import json
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "mllm10"
_order = runpy.run_path(str(Path(__file__).with_name("order.py")))["order"]
MISSING = """\
**The full run has not been made yet**, and the experts in the zoo are first ones: trained for 60 to 120 steps on a CPU.
They are real enough to choose among, and will be trained for longer."""


@dataclass(frozen=True)
class Run:
    """A suite's folder, read."""

    rows: tuple[Any, ...]
    selection: Any
    scores: Any
    words: dict[str, Any]
    """`run.json`."""


def blocks(folder: Path = RESULTS) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    makers: dict[str, Callable[[Run], str]] = {"run": run, "questions": questions, "figures": figures, "tables": tables}
    found = read(folder)
    made = {f"mllm10-{name}": maker(found) if found else "" for name, maker in makers.items()}
    made["mllm10-order"] = _order(folder) if found else ""
    return {"results/mllm10.md": made if found else {**made, "mllm10-run": MISSING}}


def files(folder: Path = RESULTS) -> dict[str, str]:
    """The drawings, by their place under docs/."""
    draw = runpy.run_path(str(Path(__file__).with_name("figures.py")))["charts"]
    return {place: draw(figure, "models") for place, figure in drawn(read(folder)).items()}


@functools.cache
def read(folder: Path = RESULTS) -> Run | None:
    from smelt.reporting.pages import read_folder
    from smelt.suites.selection.report.analyses import read_selection
    from smelt.suites.selection.report.table_shapes import Scores

    if not (folder / "rows.jsonl").is_file():
        return None
    rows, selection = tuple(read_folder(folder)[0]), read_selection(folder / "analyses")
    assert selection is not None, f"{folder}: no analyses/selection.json"
    words = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return Run(rows, selection, Scores(rows, selection), words)


def run(found: Run) -> str:
    """What came out, in the report's first sentences; then what was run, in one line."""
    from smelt.reporting.provenance import facts
    from smelt.reporting.words import count, plural
    from smelt.suites.selection.report.analyses import KINDS
    from smelt.suites.selection.report.headline import selection_sentences

    said, words = found.selection, found.words
    asked = []
    for kind, names in said.sets.items():
        cells = [found.scores.cell(said.base, name) for name in names]
        number = count(sum(cell.n for cell in cells if cell))
        asked.append(f"{number} {KINDS[kind].lower()} questions of {plural(len(names), 'set')}")
    limit = f" (at most {words['limit']} of each)" if words["limit"] else ""
    made = ", ".join(f"{name.lower()} {text}" for name, text in facts(found.rows))
    groups = plural(len(said.subsets), "random group")
    return (
        f"{' '.join(selection_sentences(found.rows, said))}\n\n"
        f"The run: {words['suite']}, {count(len(found.rows))} rows; {', '.join(asked)}{limit}; {words['passes']} "
        f"passes with dropout {words['dropout']:g}; {groups} for each method; {made}."
    )


def questions(found: Run) -> str:
    """The paper's four, with its answers and ours."""
    from smelt.suites.selection.report.questions import research_questions

    text = ["## The four questions of the paper"]
    for one in research_questions(found.rows, found.selection):
        sentences = "\n".join(f"- {sentence}" for sentence in one.ours)
        text.append(f"### {one.question}\n\nThe paper: {one.paper} Here:\n\n{sentences}")
    return "\n\n".join(text)


def figures(found: Run) -> str:
    """The drawings of `files`, each with its words, and the uncertainties as numbers."""
    from smelt.suites.selection.report.figures import uncertainty_table

    text = ["## Over the steps, and beside random groups"]
    for place, figure in drawn(found).items():
        shown, there = ", ".join(name for name, _ in figure.keys), place.removeprefix("results/")
        text.append(f"![{figure.title}: {shown}]({there})\n\n{figure.note}")
    known = uncertainty_table(found.selection)
    lines = [["step", *known["tasks"], "mean (95 % interval)"], ["---", *["---:"] * (len(known["tasks"]) + 1)]]
    lines += [[label, *numbers, mean] for label, numbers, mean in known["rows"]]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    text.append(f"The uncertainty of every step, in nats (the paper's Table 11):\n\n{table}")
    return "\n\n".join(text)


def tables(found: Run) -> str:
    """Every table of the report: the paper's 1 to 6 in our numbers, the models themselves, and who harms."""
    from smelt.reporting.tables.as_markdown import as_markdown
    from smelt.suites.selection.report.tables import selection_sheets

    text = ["## Tables"]
    for sheet in selection_sheets(found.rows, found.selection):
        _, _, table = as_markdown([sheet]).partition("\n\n")  # the heading says the title
        text.append(f"### {sheet.title}\n\n{table.strip()}")
    return "\n\n".join(text)


def drawn(found: Run | None) -> dict[str, Any]:
    """The report's figures by their files; none without a run, and no random groups where a suite has none."""
    from smelt.suites.selection.report.figures import random_figure, trace_figure

    if found is None:
        return {}
    both = {"trace": trace_figure, "random": random_figure}
    made = {name: figure(found.scores, found.selection) for name, figure in both.items()}
    return {f"results/figures/mllm10-{name}.svg": figure for name, figure in made.items() if figure}
