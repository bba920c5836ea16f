"""`smelt measure`: statistics of a model on a task, which merges read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.request import AllowPickleOption, JsonOption, ThreadsOption, TrustOption

if TYPE_CHECKING:
    from smelt.measurement.store import Measured

__all__ = ["app", "combine", "fisher", "gram"]

app = typer.Typer(
    name="measure",
    help="Measure statistics of a model on a task: Fisher information, Gram matrices.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, zoo:NAME, hf:ORG/NAME or BASE+ADAPTER.")]
TaskOption = Annotated[str, typer.Option("--task", help="The task whose data is used: a name or a folder.")]
ExamplesOption = Annotated[int, typer.Option(min=1, help="Pictures or texts of the split, always the same ones.")]
SplitOption = Annotated[str, typer.Option(help="Which part of the task's data.")]
ShareOption = Annotated[
    str | None, typer.Option(help="Only the k-th of n parts of the examples, k/n; `combine` adds parts up.")
]
DtypeOption = Annotated[str, typer.Option(help="Of the stored sums: float64, or float32 for half the size.")]
TextOption = Annotated[
    str | None, typer.Option(help="The CLIP model with the text tower, if MODEL is a picture tower alone.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="The folder to write; one in the cache by default.", show_default=False),
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda or mps.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Measure again, and replace an existing output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@app.command("fisher")
def fisher(
    model: ModelArgument,
    task: TaskOption,
    examples: ExamplesOption = 256,
    split: SplitOption = "train",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="exact, sampled, empirical or batched_sqrt; by default exact for pictures, sampled for texts.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the sampled estimator.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Pictures that batched_sqrt adds up before it squares.")] = 32,
    share: ShareOption = None,
    dtype: DtypeOption = "float64",
    text_from: TextOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how much a model's scores depend on each of its weights.

    \b
    smelt measure fisher zoo:clip-tiny-photos --task photos --examples 256
    smelt measure fisher zoo:llm5-maths --task maths --examples 100
    """
    _measure(
        model,
        "fisher",
        task,
        as_json,
        examples=examples,
        split=split,
        estimator=estimator,
        seed=seed,
        batch=batch,
        share=share,
        dtype=dtype,
        text_from=text_from,
        out=out,
        device=device,
        threads=threads,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        force=force,
        quiet=quiet,
    )


@app.command("gram")
def gram(
    model: ModelArgument,
    task: TaskOption,
    examples: ExamplesOption = 256,
    split: SplitOption = "train",
    share: ShareOption = None,
    dtype: DtypeOption = "float64",
    text_from: TextOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    allow_pickle: AllowPickleOption = False,
    trust_remote_code: TrustOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the Gram matrix of every linear layer's inputs.

    \b
    smelt measure gram zoo:clip-tiny-photos --task photos --examples 256
    """
    _measure(
        model,
        "gram",
        task,
        as_json,
        examples=examples,
        split=split,
        share=share,
        dtype=dtype,
        text_from=text_from,
        out=out,
        device=device,
        threads=threads,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
        force=force,
        quiet=quiet,
    )


@app.command("combine")
def combine(
    first: Annotated[Path, typer.Argument(metavar="A", help="A folder of statistics.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another, of the same model and other examples.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add up statistics of one model on two parts of the data.

    \b
    smelt measure combine A B -o C
    """
    from smelt.measurement.combine import combine as add_up

    _show(add_up(first, second, out=out, force=force), quiet, as_json)


def _measure(model: str, kind: str, task: str, as_json: bool, *, quiet: bool, **words: Any) -> None:
    from smelt.measurement.measure import measure

    _show(measure(model, kind, task, quiet=quiet or as_json, **words), quiet, as_json)


def _show(done: Measured, quiet: bool, as_json: bool) -> None:
    note = done.note
    if as_json:
        about = note.model_dump(mode="json", exclude={"format", "version", "tied"})
        typer.echo(json.dumps({"folder": str(done.folder), "seconds": done.seconds, **about}, indent=2))
    elif not quiet:
        for use in note.data:
            if use.split == "test":
                typer.echo(f"note: measured on the test split of {use.task}; what is merged with it has seen test data")
        data = " and ".join(f"{use.examples} examples of {use.task} ({use.split or 'in memory'})" for use in note.data)
        typer.echo(
            f"{done.folder}: {note.kind} ({note.estimator}) of {note.model} on {data}, {note.size / 1e6:,.1f} MB"
        )
