"""`smelt analyse`: what a pool of fine-tunes looks like, and what scaling and interpolating do to accuracy."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

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
    from smelt.evaluation.row import Row

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
    _answer(given, found, lambda: _print_matrix(found.names, found.matrix, 1.0))


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

    def show() -> None:
        body = [[layer, *(row[n] for row in found.relative.values())] for n, layer in enumerate(found.layers)]
        body.append(["all", *found.whole_relative.values()])
        _print_table(["|d| / |base|", *found.models], body, "{:.4f}")

    _answer(given, found, show)


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

    def show() -> None:
        _print_matrix(found.names, found.pairs, 0.5)
        typer.echo(
            f"entries   {found.entries:.1%} of the entries that any model changed are raised by some and lowered"
        )
        typer.echo("          by others")
        typer.echo(f"mass      {found.mass:.1%} of the changes' magnitude lies in them")
        typer.echo(f"cancelled {found.cancelled:.1%} of the changes' magnitude vanishes when they are added up")

    _answer(given, found, show)


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

    def show() -> None:
        _print_rows("scale", found.rows)
        typer.echo(f"best on {given['split']}: {found.best:g}")

    _answer(given, found, show)


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

    def show() -> None:
        _print_rows("t", found.rows)
        typer.echo(f"barrier of the mean loss: {found.mean_barrier.loss:.4f} at t = {found.mean_barrier.t:g}")

    _answer(given, found, show)


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


def _answer(given: Given, found: Any, show: Callable[[], None]) -> None:
    def show_all() -> None:
        show()
        for note in getattr(found, "notes", ()):
            typer.echo(f"note: {note}")

    given.answer(found.to_json, show_all)


def _print_rows(what: str, rows: Sequence[Row]) -> None:
    """One line per value of a setting, one column per task, and their means."""
    table: dict[float, dict[str, Row]] = {}
    for row in rows:
        table.setdefault(row.setting[what], {})[row.task] = row
    tasks = list(dict.fromkeys(row.task for row in rows))
    body = [[f"{value:g}", *(at[task].accuracy for task in tasks), *_means(at)] for value, at in table.items()]
    _print_table([what, *tasks, "mean", "loss"], body, "{:z.3f}")


def _means(rows: Mapping[str, Row]) -> list[float]:
    """Of accuracy and loss; a loss that a task does not have is not a number."""
    losses = [math.nan if row.loss is None else row.loss for row in rows.values()]
    return [sum(row.accuracy for row in rows.values()) / len(rows), sum(losses) / len(rows)]


def _print_matrix(names: Sequence[str], matrix: Sequence[Sequence[float]], top: float) -> None:
    body = [[name, *row] for name, row in zip(names, matrix, strict=True)]
    _print_table(["", *names], body, "{:z.3f}", top)


def _print_table(head: Sequence[str], body: Sequence[Sequence[Any]], form: str, top: float | None = None) -> None:
    """A table; with `top` its numbers are shaded by their share of it, as a heat map, where there is colour."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for first, *values in body:
        table.add_row(Text(first), *(Text(form.format(value), style=_shade(value, top)) for value in values))
    console = Console()
    Console(width=None if console.is_terminal else 10_000, highlight=False).print(table)


def _shade(value: float, top: float | None) -> str:
    if top is None or math.isnan(value):
        return ""
    share = min(1.0, abs(value) / top)
    strong, weak = round(200 - 150 * share), round(235 - 35 * share)
    colour = f"rgb({strong},{strong},{weak})" if value >= 0 else f"rgb({weak},{strong},{strong})"
    return f"{'white' if share > 0.5 else 'black'} on {colour}"
