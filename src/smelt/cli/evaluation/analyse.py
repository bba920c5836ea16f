"""`smelt analyse`: what a pool of fine-tunes looks like, and what scaling and interpolating do to accuracy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.cli.from_function import Argument, Given, Option, command, group
from smelt.cli.options import (
    ALLOW_PICKLE,
    ANSWER,
    BASE,
    DEVICE,
    METHOD,
    MODEL,
    MODELS,
    OUT,
    RECIPE,
    TASKS,
    TEXT_FROM,
    TRUST,
)
from smelt.cli.request import request
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.analyse.cosine import CosineSimilarity
    from smelt.analyse.interpolation import Interpolation
    from smelt.analyse.norms import DeltaNorms
    from smelt.analyse.scales import ScaleCurve
    from smelt.analyse.signs import SignConflicts

__all__ = ["app", "cosine", "norms", "path", "scales", "signs"]

app = group("analyse", "Compare the models of a pool, and follow accuracy along a scale or a path.")

_KEYS = {
    "keys": Option("Only tensors whose name matches, e.g. 'vision_model.*'. May be given again.", type=list[str]),
    "skip": Option("All but tensors whose name matches.", type=list[str]),
}
_COMPARED = {
    "recipe": Argument("A recipe, or a pool alone.", metavar="POOL.yaml", type=Path, default=None, own=True),
    "base": BASE,
    "model": MODEL,
    **_KEYS,
}
_EVALUATED = {
    "limit": Option("At most so many pictures per task.", min=1),
    "text_from": TEXT_FROM.but("The CLIP model with text tower and tokenizer, if need be."),
    "device": DEVICE.but("Where to evaluate: cpu or cuda."),
    "allow_pickle": ALLOW_PICKLE,
    "trust_remote_code": TRUST,
    "out": OUT.but("Append the rows to this rows.jsonl.", default=None, own=True),
    **ANSWER,
}
_TASKS = TASKS.but("A group of tasks, names with commas, or a task's folder.")
_FILE = OUT.but("Write to a .csv or .json file too.", default=None, own=True)


@app.command("cosine")
@command("smelt.analyse.cosine:cosine_similarity", **_COMPARED, allow_pickle=ALLOW_PICKLE, out=_FILE, **ANSWER)
def cosine(given: Given) -> None:
    """Cosine similarity of the models' task vectors."""
    found: CosineSimilarity = _compare(given, ".csv", ".json")
    given.answer(found.to_json, found.print)


@app.command("norms")
@command(
    "smelt.analyse.norms:delta_norms",
    **_COMPARED,
    allow_pickle=ALLOW_PICKLE,
    out=_FILE.but("Write to a .json file too."),
    **ANSWER,
)
def norms(given: Given) -> None:
    """Length of the models' task vectors, layer by layer, as a share of the base's length."""
    found: DeltaNorms = _compare(given, ".json")
    given.answer(found.to_json, found.print)


@app.command("signs")
@command(
    "smelt.analyse.signs:sign_conflicts",
    **_COMPARED,
    density=Option("Count only this share of each model's largest changes."),
    allow_pickle=ALLOW_PICKLE,
    out=_FILE,
    **ANSWER,
)
def signs(given: Given) -> None:
    """How often the models' changes have opposite signs."""
    found: SignConflicts = _compare(given, ".csv", ".json")
    given.answer(found.to_json, found.print)


@app.command("scales")
@command(
    "smelt.analyse.scales:scale_curve",
    "smelt.recipe.words:RecipeWords",
    recipe=RECIPE,
    method=METHOD,
    **MODELS,
    scales=Option("Scales with commas.", type=str, default="0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1", own=True),
    tasks=_TASKS,
    split=Option("Of the tasks' data; a scale chosen on test proves nothing."),
    **_EVALUATED,
)
def scales(given: Given) -> None:
    """Accuracy against the scale of one merge."""
    wanted = _numbers(given["scales"], "--scales")
    models, words = request(given)
    found: ScaleCurve = given.call(models, wanted, **words, command=_command())
    _append(given, found)
    given.answer(found.to_json, found.print)


@app.command("path")
@command(
    "smelt.analyse.interpolation:interpolation_path",
    first=Argument("A model.", metavar="A", complete="models"),
    second=Argument("Another model.", metavar="B", complete="models"),
    points=Option("How many models on the way, both ends among them.", min=2),
    **_KEYS,
    tasks=_TASKS,
    split=Option("Of the tasks' data.", complete="splits"),
    **_EVALUATED,
)
def path(given: Given) -> None:
    """Accuracy and loss on the straight line between two models, and the barrier on it."""
    found: Interpolation = given.call(command=_command())
    _append(given, found)
    given.answer(found.to_json, found.print)


def _compare(given: Given, *suffixes: str) -> Any:
    """The comparison of the models that were given, written to a file where one was named."""
    if given["recipe"] is None and not given["model"]:
        raise RecipeError("nothing to compare: give a recipe or pool, or --base and --model once per model")
    models, words = request(given)
    out = given["out"]
    if out is not None and out.suffix not in suffixes:
        raise RecipeError(f"-o {out}: the name says what to write; end it in {' or '.join(suffixes)}")
    found = given.call(models, **words)
    if out is not None and out.suffix == ".csv":
        found.to_csv(out)
    elif out is not None:
        from smelt.analyse.tables import write_json

        write_json(out, found.to_json())
    return found


def _command() -> str:
    """What was typed, for the rows that it makes."""
    return shlex.join(["smelt", *sys.argv[1:]])


def _numbers(text: str, flag: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise RecipeError(f"{flag} takes numbers with commas between them, got {text!r}") from None


def _append(given: Given, found: Any) -> None:
    if given["out"] is not None:
        from smelt.evaluation.row import append_rows

        append_rows(given["out"], found.rows)
