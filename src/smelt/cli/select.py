"""`smelt select`: which models of a recipe are worth merging."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.request import JsonOption, TrustOption

if TYPE_CHECKING:
    from smelt.select.selection import Selected
    from smelt.select.trace import SelectionStep

__all__ = ["app"]

app = typer.Typer(
    name="select",
    help="Choose which models of a recipe to merge, and merge them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Recipe = Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="A recipe; its `select:` may say how to choose.")]
_Out = Annotated[Path, typer.Option("-o", "--out", help="The folder for the trace, the recipe and the chosen model.")]
_Tasks = Annotated[str | None, typer.Option("--tasks", help="Question sets, or picture tasks for CLIP models.")]
_Split = Annotated[str | None, typer.Option(help="The examples that are asked.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="At most so many examples of each task.")]
_Batch = Annotated[int, typer.Option(min=1, help="Examples at once; the result does not depend on it.")]
_TextFrom = Annotated[
    str | None, typer.Option(help="The CLIP model with the text tower, if the models are picture towers alone.")
]
_Device = Annotated[str, typer.Option(help="Where models are asked: cpu, cuda or mps.")]
_Dtype = Annotated[str, typer.Option(help="In what format they compute: float32, bfloat16, float16.")]
_Store = Annotated[Path | None, typer.Option(help="A folder for answers that several runs share.")]
_Force = Annotated[bool, typer.Option("--force", help="Begin anew, in an emptied folder; a --store elsewhere stays.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@app.command("uq")
def uq(
    recipe: _Recipe,
    out: _Out,
    tasks: _Tasks = None,
    split: _Split = None,
    limit: _Limit = None,
    passes: Annotated[int | None, typer.Option(min=1, help="Perturbed passes of each example; 4 by default.")] = None,
    image: Annotated[bool | None, typer.Option("--image/--no-image", help="Perturb pictures (AugMix).")] = None,
    text: Annotated[bool | None, typer.Option("--text/--no-text", help="Put one of nine prompts in front.")] = None,
    model: Annotated[bool | None, typer.Option("--model/--no-model", help="Drop attention at random.")] = None,
    dropout: Annotated[float | None, typer.Option(help="How much attention is dropped; 0.1 by default.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For all perturbations.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Ask so often, with other draws.")] = None,
    guide: Annotated[str | None, typer.Option(help="uncertainty, or accuracy: by labels, with --split.")] = None,
    order: Annotated[str | None, typer.Option(help="descending or ascending.")] = None,
    choose: Annotated[str | None, typer.Option(help="global_min or first_local_min.")] = None,
    batch: _Batch = 64,
    text_from: _TextFrom = None,
    device: _Device = "cpu",
    dtype: _Dtype = "float32",
    trust_remote_code: TrustOption = False,
    store: _Store = None,
    force: _Force = False,
    quiet: _Quiet = False,
    as_json: JsonOption = False,
) -> None:
    """Grow a group of models from the most uncertain on, and take the least uncertain merge (UQ-Merge).

    No labels are used, unless --guide accuracy asks for them; the split has to be named then. A run that was stopped
    goes on where it was when the same command is given again.

    \b
    smelt select uq RECIPE.yaml --tasks mllm10 --limit 200 -o OUT
    smelt select uq RECIPE.yaml --tasks photos,digits --no-text --choose first_local_min -o OUT
    """
    from smelt.select.uq import uq_merge

    words: dict[str, Any] = {"passes": passes, "image": image, "text": text, "model": model, "dropout": dropout}
    words |= {"seed": seed, "repeats": repeats, "guide": guide, "order": order, "choose": choose}
    words |= {"tasks": tasks, "split": split, "limit": limit, "batch": batch, "text_from": text_from}
    words |= {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code, "store": store, "force": force}
    _print(uq_merge(recipe, out=out, tell=_teller(quiet or as_json), **words), quiet, as_json)


@app.command("soup")
def soup(
    recipe: _Recipe,
    out: _Out,
    tasks: _Tasks = None,
    split: _Split = None,
    limit: _Limit = None,
    batch: _Batch = 64,
    text_from: _TextFrom = None,
    device: _Device = "cpu",
    dtype: _Dtype = "float32",
    trust_remote_code: TrustOption = False,
    store: _Store = None,
    force: _Force = False,
    quiet: _Quiet = False,
    as_json: JsonOption = False,
) -> None:
    """Keep each model whose addition does not lower accuracy on labelled validation data (greedy soup).

    \b
    smelt select soup RECIPE.yaml --tasks photos,digits --split val -o OUT
    """
    from smelt.select.greedy_soup import soup as run

    words: dict[str, Any] = {"tasks": tasks, "split": split, "limit": limit, "batch": batch, "text_from": text_from}
    words |= {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code, "store": store, "force": force}
    _print(run(recipe, out=out, tell=_teller(quiet or as_json), **words), quiet, as_json)


def _teller(silent: bool) -> Callable[[str], None]:
    return (lambda line: None) if silent else (lambda line: typer.echo(line, err=True))


def _print(found: Selected, quiet: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    elif not quiet:
        _show(found)


def _show(found: Selected) -> None:
    from rich.console import Console
    from rich.table import Table

    trace = found.trace
    table = Table(title=", ".join(trace.words["tasks"]), title_justify="left")
    table.add_column("step", justify="right")
    table.add_column("with")
    rows = [_cells(step) for step in trace.steps]
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    table.add_column("")
    for number, (step, cells) in enumerate(zip(trace.steps, rows, strict=True), 1):
        table.add_row(str(number), step.added, *cells.values(), _mark(step, number == trace.chosen))
    Console(soft_wrap=False).print(table)
    for note in trace.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{found.asked} passes made now, in {found.seconds:.0f} s; all answers are kept")
    names = ", ".join(found.models)
    again = shlex.join(["smelt", "merge", str(found.recipe_file), "-o", "OUT"])
    typer.echo(f"chosen: {names}. The model: {found.model}. The same again: {again}")


def _cells(step: SelectionStep) -> dict[str, str]:
    """What is known of a step, under its headings."""
    about, cells = step.measured.to_json(), dict[str, str]()
    if "uncertainty" in about:
        low, high = about["interval"] or (None, None)
        cells["uncertainty"] = f"{about['uncertainty']:.5f}"
        cells["95 %"] = "" if low is None else f"{low:.5f} to {high:.5f}"
    if about["accuracy"] is not None:
        cells["accuracy %"] = f"{100 * about['accuracy']:.2f}"
    return cells


def _mark(step: SelectionStep, chosen: bool) -> str:
    kept = "" if step.kept is None else "stays" if step.kept else "goes"
    return f"{kept} ← chosen".strip() if chosen else kept
