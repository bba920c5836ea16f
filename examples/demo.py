"""The demo: eight real experts, five merges, eight real tasks, one report, in a minute and a half.        make demo

It runs one command, `smelt bench examples/demo.yaml`, and tells from its rows what came out. Nothing is prepared: every
model is merged and asked while one waits. What is done already is not done again, so a demo that was stopped goes on
where it was, and a second one ends at once. `make demo-full` (demo_full.py) runs two dozen merges and tunes some.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from show_page import show_page
from smelt.errors import SmeltError
from smelt.evaluation.row import Row, read_rows
from smelt.files.reading import find_json_table
from smelt.reporting.tables.cells import Cell, surely_above
from smelt.reporting.tables.grid import Grid, build_grid
from smelt.suites.find import find_suite

SUITE = Path(__file__).with_suffix(".yaml")
PICTURES = 300
"""Of each task's test split: the mean over eight tasks is then known to less than two points."""
SMELT = [sys.executable, "-c", "from smelt.cli import process; process()"]
STORY = """\
One small CLIP model was fine-tuned eight times: eight experts, each good at one
task. Can they become one model of the same size that does all eight?
"""

LEFT_OUT = """\
RegMean looked at 64 training pictures of each task, without labels; the others
saw none. Left out: some twenty more merges, mixtures and ensembles, scales that
are tuned on validation pictures, more test pictures, experts on other tasks.
`make demo-full` has most of it (about 8 minutes), results/clip8 all of it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="the folder for rows and report")
    parser.add_argument("--limit", type=int, default=PICTURES, help="pictures of each task")
    parser.add_argument("--methods", help="some of the merges, e.g. average,ties")
    parser.add_argument("--tasks", help="some of the tasks, e.g. photos,digits")
    words = parser.parse_args()
    began = time.monotonic()
    print(STORY)
    make_room(words.out, words.limit)
    some = {"--limit": str(words.limit), "--methods": words.methods, "--tasks": words.tasks}
    run_suite(words.out, [word for flag, value in some.items() if value for word in (flag, value)])
    grid = build_grid(row for row in read_rows(words.out / "rows.jsonl") if isinstance(row, Row))
    page = words.out / "report.html"
    print(f"\n{table(grid)}\n\n{LEFT_OUT}")
    print(f"\nDone in {time.monotonic() - began:.0f} s. Make one of these models yourself, or look at all of it:")
    print(f"$ .venv/bin/smelt merge {shlex.quote(str(words.out / 'recipes' / 'ties.yaml'))} -o my-model")
    print(f"The report: {page.resolve()}")
    show_page(page)


def make_room(out: Path, limit: int) -> None:
    """Move a folder aside that this demo did not begin: an older demo's, or anybody's."""
    if not out.exists() or begun_here(out, limit):
        return
    number = 1
    while (aside := out.with_name(f"{out.name}-old-{number}")).exists():
        number += 1
    out.rename(aside)
    print(f"{out} held something else, which is now {aside.name}.\n")


def begun_here(out: Path, limit: int) -> bool:
    """Whether a folder is empty, or was begun with this suite and as many pictures."""
    if not out.is_dir() or not any(out.iterdir()):
        return out.is_dir()
    try:
        begun = find_json_table(out / "run.json") or {}
    except SmeltError:
        return False
    suite = find_suite(SUITE)
    return (begun.get("suite"), begun.get("limit")) == (f"{suite.name}@{suite.version}", limit)


def run_suite(out: Path, some: list[str]) -> None:
    """The command, printed and run; ends this process where it fails or is stopped."""
    words = ["bench", os.path.relpath(SUITE), "-o", str(out), *some]
    print(f"$ {shlex.join(['smelt', *words])}", flush=True)
    # One process for everything: a worker of its own would load every library a second time.
    command = subprocess.Popen([*SMELT, *words, "--executor", "inline", "--no-table"])
    try:
        code = command.wait()
    except KeyboardInterrupt:  # which the command was told, too
        command.wait()
        sys.exit("\nStopped. Another `make demo` goes on from here.")
    if code:
        sys.exit(code)


def table(grid: Grid) -> str:
    """The models from the weakest to the strongest, with intervals, and how far each has come to the experts."""
    known = sorted(((line.average, line) for line in grid.lines if line.average), key=lambda one: one[0].accuracy)
    said, below = [f"{'':22}{'mean':>5}    {'95 % interval':13}   of the way to the experts"], None
    for mean, line in known:
        mark = " " if below is None or surely_above(mean, below) else "*"
        interval = f"{100 * mean.low:.1f} to {100 * mean.high:.1f}"
        said.append(f"{line.label:22}{100 * mean.accuracy:5.1f}{mark}   {interval:13}{way(grid, mean)}".rstrip())
        below = mean
    pictures = max(cell.n for _, line in known for cell in line.cells if cell)
    said.append(f"Per cent right: the mean of {len(grid.tasks)} tasks with {pictures} test pictures each.")
    if any("*" in line for line in said):
        said.append("* not surely better than the line above it")
    return "\n".join(said)


def way(grid: Grid, mean: Cell) -> str:
    """From the pre-trained model (nothing) to the experts (all of it), as a bar and in per cent."""
    ends = [line.average.accuracy for line in (grid.base, grid.experts) if line is not None and line.average]
    if len(ends) < 2 or ends[0] >= ends[1]:
        return ""
    share = (mean.accuracy - ends[0]) / (ends[1] - ends[0])
    return f"{100 * share:7.0f} % {'#' * round(20 * share)}"


if __name__ == "__main__":
    main()
