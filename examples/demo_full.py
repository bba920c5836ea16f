"""The long demo: eight real experts, two dozen merges, eight real tasks, one report.        make demo-full

Two commands, both printed as they run. The first merges the zoo's eight CLIP experts by every data-free method and by
RegMean, which looks at a few hundred pictures of each task, and evaluates every model on a fixed part of each task's
test split. Methods that learn take longer than a demo should. The second, in the same folder, goes on from there: it
tries scales on `val` for three of the methods, and walks from one expert to another. What is done already is not done
again, so a second `make demo-full` ends at once. The full run (`smelt bench clip8`) lies in results/clip8.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

from show_page import show_page
from smelt.suites.find import find_suite

SMELT = [sys.executable, "-c", "from smelt.cli import process; process()"]
PICTURES = ["--limit", "200", "--curve-limit", "25"]
TUNED = "task_arithmetic,ties,tsv"
LEARNED = {
    "fisher",
    "regmean_pp",
    "adamerging",
    "adamerging_task",
    "adarank",
    "localize",
    "tuned",
    "wemoe",
    "wemoe_top2",
}
"""Entries that take minutes to hours on two cores; `smelt bench clip8` has them all."""
HUB = """
The zoo is a hub, too: thirty models, each tested once on a graph of 812 nouns. Which of them should tell your classes
apart, and why? On a page:
$ .venv/bin/smelt hub serve --open"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-out-full"))
    parser.add_argument(
        "--quick", action="store_true", help="two merges, two tasks, few pictures: only shows that it runs"
    )
    arguments = parser.parse_args()
    pictures = ["--limit", "20", "--curve-limit", "10"] if arguments.quick else PICTURES
    quick = ["--tasks", "photos,digits"] if arguments.quick else []
    began = time.monotonic()
    print("Eight experts were fine-tuned from one small CLIP model, each for one task. What can one merged model do?\n")
    quickly = ",".join(name for name in find_suite("clip8").entries if name not in LEARNED)
    some = ["--methods", "average,ties" if arguments.quick else quickly]
    smelt("bench", "clip8", "-o", str(arguments.out), *pictures, *quick, *some, "--no-tune", "--no-table")
    smelt(
        "bench", "clip8", "-o", str(arguments.out), *pictures, *quick, "--methods", "ties" if arguments.quick else TUNED
    )
    page = arguments.out / "report.html"
    print(HUB)
    print(f"\nDone in {time.monotonic() - began:.0f} s. The report: {page.resolve()}")
    show_page(page)


def smelt(*words: str) -> None:
    print(f"$ {shlex.join(['smelt', *words])}", flush=True)
    done = subprocess.run([*SMELT, *words])
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
