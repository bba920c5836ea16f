"""Figure 2 of MergeBench on our own bases, from results/llm5 and results/llm5-weak: a block and a drawing for llm5.md.

`blocks(folders)` and `files(folders)` take any folders that `smelt bench` wrote for one language suite, a base each.
"""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("llm5.py")))
WEAK = TABLES["RESULTS"].with_name("llm5-weak")
FOLDERS = (WEAK, TABLES["RESULTS"])
DRAWING = "results/figures/llm5-bases.svg"
MISSING = (
    "Not measured yet: "
    "`smelt bench llm5 --base smollm2-99m-healed -o results/llm5-weak --device cuda --dtype bfloat16`."
)


def blocks(folders: Sequence[Path] = FOLDERS) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {"results/llm5.md": {"llm5-bases": text(folders) if measured(folders) else MISSING}}


def files(folders: Sequence[Path] = FOLDERS) -> dict[str, str]:
    """The drawing, by its place under docs/."""
    if not measured(folders):
        return {}
    from smelt.suites.language.report.bases import bases_figure, over_bases

    draw = runpy.run_path(str(Path(__file__).with_name("figures.py")))["sloped"]
    return {DRAWING: draw(bases_figure(over_bases(folders)), "Normalised multi-task performance by base model")}


def measured(folders: Sequence[Path]) -> bool:
    return all((folder / "rows.jsonl").is_file() for folder in folders)


def text(folders: Sequence[Path]) -> str:
    """What came out, the drawing, and its numbers."""
    from smelt.suites.language.report.bases import bases_sentences, over_bases

    found = over_bases(folders)
    shown = Path(DRAWING).relative_to("results").as_posix()
    picture = f"![Normalised multi-task performance by base model, with 95 % intervals]({shown})"
    return "\n\n".join([" ".join(bases_sentences(found)), picture, numbers(found)])


def numbers(found: Any) -> str:
    """Methods down, bases across."""
    heads = ["Avg. Norm, %", *(run.name for run in found.bases), "strongest - weakest"]
    lines = []
    for line in (*found.methods, *found.references):
        cells = [TABLES["with_interval"](cell) if cell else "–" for cell in line.shares]
        gap = line.gain
        gain = f"{100 * gap.value:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})" if gap else "–"
        name = line.name if line.kind == "method" else f"*{line.name}*"
        lines.append([name, *cells, f"**{gain}**" if gap and gap.sure else gain])
    return str(TABLES["table"](heads, lines))
