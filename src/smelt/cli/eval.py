"""`smelt eval`: one model, no merging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smelt.cli.request import AllowPickleOption, JsonOption, ThreadsOption

if TYPE_CHECKING:
    from smelt.evaluate.call import Evaluation
    from smelt.evaluate.classify import Result

__all__ = ["evaluate"]

_LARGEST_MATRIX = 20
"""Classes beyond which a confusion matrix does not fit a terminal; then the commonest mistakes are listed."""


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder, zoo:NAME, hf:ORG/NAME or BASE+ADAPTER.")],
    tasks: Annotated[str, typer.Option("--tasks", help="Names, a group or folders (see `smelt tasks`).")] = "clip8",
    split: Annotated[str, typer.Option(help="Which pictures of each task.")] = "test",
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many pictures of each task, always the same ones.")
    ] = None,
    text_from: Annotated[
        str | None, typer.Option(help="The CLIP model with the text tower, if MODEL is a picture tower alone.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Pictures at once.")] = 256,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Of the picture tower: float32, bfloat16, float16.")] = "float32",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    confusion: Annotated[bool, typer.Option("--confusion", help="Show what was taken for what.")] = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Append the rows to this file (JSON lines).", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate one model on tasks.

    \b
    smelt eval zoo:clip-tiny-photos --tasks photos
    smelt eval OUT --tasks clip8 --split val --limit 500 -o rows.jsonl
    """
    from smelt.evaluate.call import evaluation
    from smelt.evaluate.row import append_rows

    done = evaluation(
        model,
        tasks,
        split=split,
        limit=limit,
        text_from=text_from,
        batch=batch,
        device=device,
        dtype=dtype,
        threads=threads,
        quiet=quiet or as_json,
        allow_pickle=allow_pickle,
    )
    if out is not None:
        append_rows(out, done.rows)
    if as_json:
        typer.echo(json.dumps(_as_dict(done, confusion), indent=2, ensure_ascii=False))
    elif not quiet:
        _show(done)
        for result in done.results if confusion else ():
            _show_confusion(result)


def _as_dict(done: Evaluation, confusion: bool) -> dict[str, object]:
    table: dict[str, object] = {
        "rows": [row.model_dump() for row in done.rows],
        "average": {"accuracy": done.accuracy, "loss": done.loss},
        "seconds": done.seconds,
    }
    if confusion:
        table["confusion"] = {
            one.task: {
                "classes": list(one.classes),
                "matrix": one.confusion.tolist(),
                "per_class": one.per_class,
            }
            for one in done.results
        }
    return table


def _show(done: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    first = done.rows[0]
    table = Table(title=f"{first.model}, {first.split} split", title_justify="left")
    table.add_column("task")
    for heading in ("accuracy %", "95 % interval", "loss", "pictures", "seconds"):
        table.add_column(heading, justify="right")
    for row, result in zip(done.rows, done.results, strict=True):
        interval = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        seconds = f"{result.seconds:.1f}"
        table.add_row(row.task, f"{100 * row.accuracy:.1f}", interval, f"{row.loss:.3f}", f"{row.n:,}", seconds)
    if len(done.rows) > 1:
        table.add_section()
        total = sum(row.n for row in done.rows)
        table.add_row(
            "average", f"{100 * done.accuracy:.1f}", "", f"{done.loss:.3f}", f"{total:,}", f"{done.seconds:.1f}"
        )
    Console(soft_wrap=False).print(table)


def _show_confusion(result: Result) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    matrix, names = result.confusion, result.classes
    if len(names) <= _LARGEST_MATRIX:
        title = f"{result.task}: true class by row, answer by column"
        table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
        table.add_column("")
        for number in range(len(names)):
            table.add_column(str(number), justify="right")
        table.add_column("right %", justify="right")
        for number, name in enumerate(names):
            share = result.per_class[name]
            right = "" if share is None else f"{100 * share:.0f}"
            table.add_row(f"{number} {name}", *(str(count) if count else "·" for count in matrix[number]), right)
    else:
        table = Table(title=f"{result.task}: the commonest mistakes", title_justify="left")
        for heading in ("true class", "answer", "pictures"):
            table.add_column(heading, justify="right" if heading == "pictures" else "left")
        wrong = [(int(matrix[i, j]), i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        for count, i, j in sorted(wrong, key=lambda one: (-one[0], one[1], one[2]))[:_LARGEST_MATRIX]:
            if count:
                table.add_row(names[i], names[j], str(count))
    Console(soft_wrap=False).print(table)
