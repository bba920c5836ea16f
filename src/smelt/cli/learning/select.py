"""`smelt select`: which models of a recipe are worth merging."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command, group
from smelt.cli.options import DEVICE, DTYPE, FORCE, JSON, OUT, QUIET, TASKS, TEXT_FROM, TRUST

if TYPE_CHECKING:
    from smelt.select.selection import Selected

__all__ = ["app"]

app = group("select", "Choose which models of a recipe to merge, and merge them.")

_FIRST = {
    "recipe": Argument("A recipe; its `select:` may say how to choose.", metavar="RECIPE.yaml", type=Path),
    "out": OUT.but("The folder for the trace, the recipe and the chosen model."),
    "tasks": TASKS.but("Question sets, or picture tasks for CLIP models."),
    "split": Option("The examples that are asked."),
    "limit": Option("At most so many examples of each task.", min=1),
}
_LAST = {
    "batch": Option("Examples at once; the result does not depend on it.", min=1),
    "text_from": TEXT_FROM,
    "device": DEVICE.but("Where models are asked: cpu, cuda or mps."),
    "dtype": DTYPE.but("In what format they compute: float32, bfloat16, float16."),
    "trust_remote_code": TRUST,
    "store": Option("A folder for answers that several runs share.", type=Path),
    "force": FORCE.but("Begin anew, in an emptied folder; a --store elsewhere stays."),
    "quiet": QUIET,
    "as_json": JSON,
}


@app.command("uq")
@command(
    "smelt.select.uq:uq_merge",
    **_FIRST,
    passes=Option("Perturbed passes of each example; 4 by default.", min=1),
    image=Option("Perturb pictures (AugMix).", switch=True),
    text=Option("Put one of nine prompts in front.", switch=True),
    model=Option("Drop attention at random.", switch=True),
    dropout=Option("How much attention is dropped; 0.1 by default."),
    seed=Option("For all perturbations.", min=0),
    repeats=Option("Ask so often, with other draws.", min=1),
    guide=Option("uncertainty, or accuracy: by labels, with --split."),
    order=Option("descending or ascending."),
    choose=Option("global_min or first_local_min."),
    **_LAST,
)
def uq(given: Given) -> None:
    """Grow a group of models from the most uncertain on, and take the least uncertain merge (UQ-Merge).

    No labels are used, unless --guide accuracy asks for them; the split has to be named then. A run that was stopped
    goes on where it was when the same command is given again.

    \b
    smelt select uq RECIPE.yaml --tasks mllm10 --limit 200 -o OUT
    smelt select uq RECIPE.yaml --tasks photos,digits --no-text --choose first_local_min -o OUT
    """
    _answer(given)


@app.command("soup")
@command("smelt.select.greedy_soup:soup", **_FIRST, **_LAST)
def soup(given: Given) -> None:
    """Keep each model whose addition does not lower accuracy on labelled validation data (greedy soup).

    \b
    smelt select soup RECIPE.yaml --tasks photos,digits --split val -o OUT
    """
    _answer(given)


def _answer(given: Given) -> None:
    found: Selected = given.call()
    given.answer(found.to_json, found.print, ascii=False)
