"""`smelt analyse`: what a pool of fine-tunes looks like, and what scaling and interpolating do to accuracy."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.analyse_tables import print_matrix, print_rows, print_table
from smelt.cli.request import (
    AllowPickleOption,
    BaseOption,
    JsonOption,
    MethodOption,
    ModelOption,
    RecipeArgument,
    SetOption,
    TrustOption,
    request,
)
from smelt.errors import RecipeError

if TYPE_CHECKING:
    from smelt.evaluation.row import Row

__all__ = ["app", "cosine", "norms", "path", "scales", "signs"]

app = typer.Typer(
    name="analyse",
    help="Compare the models of a pool, and follow accuracy along a scale or a path.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PoolArgument = Annotated[
    Path | None, typer.Argument(metavar="POOL.yaml", help="A recipe, or a pool alone.", show_default=False)
]
KeysOption = Annotated[
    list[str] | None,
    typer.Option("--keys", help="Only tensors whose name matches, e.g. 'vision_model.*'. May be given again."),
]
SkipOption = Annotated[list[str] | None, typer.Option("--skip", help="All but tensors whose name matches.")]
FileOption = Annotated[
    Path | None, typer.Option("-o", "--out", help="Write to a .csv or .json file too.", show_default=False)
]
JsonFileOption = Annotated[
    Path | None, typer.Option("-o", "--out", help="Write to a .json file too.", show_default=False)
]
RowsOption = Annotated[
    Path | None, typer.Option("-o", "--out", help="Append the rows to this rows.jsonl.", show_default=False)
]
TasksOption = Annotated[str, typer.Option("--tasks", help="A group of tasks, names with commas, or a task's folder.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text-from", help="The CLIP model with text tower and tokenizer, if need be."),
]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to evaluate: cpu or cuda.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many pictures per task.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@app.command("cosine")
def cosine(
    pool: PoolArgument = None,
    base: BaseOption = None,
    model: ModelOption = None,
    keys: KeysOption = None,
    skip: SkipOption = None,
    allow_pickle: AllowPickleOption = False,
    out: FileOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cosine similarity of the models' task vectors."""
    models, words = _models(pool, base, model, allow_pickle)
    _check_suffix(out, ".csv", ".json")

    from smelt.analyse import cosine_similarity

    found = cosine_similarity(models, keys, skip=skip, quiet=quiet or as_json, **words)
    _save(out, found)
    _show(found, lambda: print_matrix(found.names, found.matrix, "{:z.3f}", 1.0), quiet, as_json)


@app.command("norms")
def norms(
    pool: PoolArgument = None,
    base: BaseOption = None,
    model: ModelOption = None,
    keys: KeysOption = None,
    skip: SkipOption = None,
    allow_pickle: AllowPickleOption = False,
    out: JsonFileOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Length of the models' task vectors, layer by layer, as a share of the base's length."""
    models, words = _models(pool, base, model, allow_pickle)
    _check_suffix(out, ".json")

    from smelt.analyse import delta_norms

    found = delta_norms(models, keys, skip=skip, quiet=quiet or as_json, **words)
    _save(out, found)

    def show() -> None:
        body = [[layer, *(row[n] for row in found.relative.values())] for n, layer in enumerate(found.layers)]
        body.append(["all", *found.whole_relative.values()])
        print_table(["|d| / |base|", *found.models], body, "{:.4f}")

    _show(found, show, quiet, as_json)


@app.command("signs")
def signs(
    pool: PoolArgument = None,
    base: BaseOption = None,
    model: ModelOption = None,
    keys: KeysOption = None,
    skip: SkipOption = None,
    density: Annotated[float, typer.Option(help="Count only this share of each model's largest changes.")] = 1.0,
    allow_pickle: AllowPickleOption = False,
    out: FileOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """How often the models' changes have opposite signs."""
    models, words = _models(pool, base, model, allow_pickle)
    _check_suffix(out, ".csv", ".json")

    from smelt.analyse import sign_conflicts

    found = sign_conflicts(models, keys, density=density, skip=skip, quiet=quiet or as_json, **words)
    _save(out, found)

    def show() -> None:
        print_matrix(found.names, found.pairs, "{:z.3f}", 0.5)
        typer.echo(
            f"entries   {found.entries:.1%} of the entries that any model changed are raised by some and lowered"
        )
        typer.echo("          by others")
        typer.echo(f"mass      {found.mass:.1%} of the changes' magnitude lies in them")
        typer.echo(f"cancelled {found.cancelled:.1%} of the changes' magnitude vanishes when they are added up")

    _show(found, show, quiet, as_json)


@app.command("scales")
def scales(
    recipe: RecipeArgument = None,
    method: MethodOption = None,
    base: BaseOption = None,
    model: ModelOption = None,
    set_: SetOption = None,
    at: Annotated[str, typer.Option("--scales", help="Scales with commas.")] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1",
    tasks: TasksOption = "clip8",
    split: Annotated[str, typer.Option(help="Of the tasks' data; a scale chosen on test proves nothing.")] = "val",
    limit: LimitOption = None,
    text_from: TextOption = None,
    device: DeviceOption = "cpu",
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    out: RowsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accuracy against the scale of one merge."""
    wanted = _numbers(at, "--scales")
    models, words = request(recipe, method, base, model, set_)
    words |= {"allow_pickle": True} if allow_pickle else {}

    from smelt.analyse import scale_curve

    found = scale_curve(
        models,
        wanted,
        tasks=tasks,
        split=split,
        limit=limit,
        text_from=text_from,
        device=device,
        trust_remote_code=trust_remote_code,
        command=_command(),
        quiet=quiet or as_json,
        **words,
    )
    _append(out, found.rows)

    def show() -> None:
        print_rows("scale", found.rows)
        typer.echo(f"best on {split}: {found.best:g}")

    _show(found, show, quiet, as_json)


@app.command("path")
def path(
    first: Annotated[str, typer.Argument(metavar="A", help="A model.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="Another model.", show_default=False)],
    points: Annotated[int, typer.Option(min=2, help="How many models on the way, both ends among them.")] = 11,
    keys: KeysOption = None,
    skip: SkipOption = None,
    tasks: TasksOption = "clip8",
    split: Annotated[str, typer.Option(help="Of the tasks' data.")] = "test",
    limit: LimitOption = None,
    text_from: TextOption = None,
    device: DeviceOption = "cpu",
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    out: RowsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Accuracy and loss on the straight line between two models, and the barrier on it."""
    from smelt.analyse import interpolation_path

    found = interpolation_path(
        first,
        second,
        points,
        tasks=tasks,
        split=split,
        limit=limit,
        text_from=text_from,
        device=device,
        keys=keys,
        skip=skip,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        command=_command(),
        quiet=quiet or as_json,
    )
    _append(out, found.rows)

    def show() -> None:
        print_rows("t", found.rows)
        typer.echo(f"barrier of the mean loss: {found.mean_barrier.loss:.4f} at t = {found.mean_barrier.t:g}")

    _show(found, show, quiet, as_json)


def _models(
    pool: Path | None, base: str | None, models: Sequence[str] | None, allow_pickle: bool
) -> tuple[Any, dict[str, Any]]:
    if pool is None and not models:
        raise RecipeError("nothing to compare: give a recipe or pool, or --base and --model once per model")
    found, words = request(pool, None, base, models, None)
    return found, {**words, "allow_pickle": allow_pickle}


def _command() -> str:
    """What was typed, for the rows that it makes."""
    return shlex.join(["smelt", *sys.argv[1:]])


def _numbers(text: str, flag: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise RecipeError(f"{flag} takes numbers with commas between them, got {text!r}") from None


def _check_suffix(out: Path | None, *known: str) -> None:
    if out is not None and out.suffix not in known:
        raise RecipeError(f"-o {out}: the name says what to write; end it in {' or '.join(known)}")


def _save(out: Path | None, found: Any) -> None:
    if out is None:
        return
    from smelt.analyse.tables import write_json

    if out.suffix == ".csv":
        found.to_csv(out)
    else:
        write_json(out, found.to_json())


def _append(out: Path | None, rows: Sequence[Row]) -> None:
    if out is None:
        return
    from smelt.evaluation.row import append_rows

    append_rows(out, rows)


def _show(found: Any, show: Callable[[], None], quiet: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    elif not quiet:
        show()
        for note in getattr(found, "notes", ()):
            typer.echo(f"note: {note}")
