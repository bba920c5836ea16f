"""`smelt measure`: statistics of a model on a task, which merges read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command, group
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DEVICE, DTYPE, FORCE, JSON, OUT, QUIET, TEXT_FROM, THREADS, TRUST

if TYPE_CHECKING:
    from smelt.measurement.store import MeasuredStatistics

__all__ = ["app", "combine", "fisher", "gram"]

app = group("measure", "Measure statistics of a model on a task: Fisher information, Gram matrices.")

_FIRST = {
    "model": Argument("A folder, zoo:NAME, hf:ORG/NAME or BASE+ADAPTER.", metavar="MODEL", complete="models"),
    "task": Option("The task whose data is used: a name or a folder.", complete="tasks"),
    "examples": Option("Pictures or texts of the split, always the same ones.", min=1),
    "split": Option("Which part of the task's data."),
}
_LAST = {
    "share": Option("Only the k-th of n parts of the examples, k/n; `combine` adds parts up."),
    "dtype": DTYPE.but("Of the stored sums: float64, or float32 for half the size."),
    "text_from": TEXT_FROM.but("The CLIP model with the text tower, if MODEL is a picture tower alone."),
    "out": OUT.but("The folder to write; one in the cache by default."),
    "device": DEVICE,
    "threads": THREADS,
    "allow_pickle": ALLOW_PICKLE,
    "trust_remote_code": TRUST,
    "force": FORCE.but("Measure again, and replace an existing output."),
    "quiet": QUIET,
    "as_json": JSON,
}


@app.command("fisher")
@command(
    "smelt.measurement.measure:measure",
    **_FIRST,
    estimator=Option("exact, sampled, empirical or batched_sqrt; by default exact for pictures, sampled for texts."),
    seed=Option("For the sampled estimator.", min=0),
    batch=Option("Pictures that batched_sqrt adds up before it squares.", min=1),
    **_LAST,
)
def fisher(given: Given) -> None:
    """Measure how much a model's scores depend on each of its weights.

    \b
    smelt measure fisher zoo:clip-tiny-photos --task photos --examples 256
    smelt measure fisher zoo:llm5-maths --task maths --examples 100
    """
    _answer(given, given.call(kind="fisher"))


@app.command("gram")
@command("smelt.measurement.measure:measure", **_FIRST, **_LAST)
def gram(given: Given) -> None:
    """Measure the Gram matrix of every linear layer's inputs.

    \b
    smelt measure gram zoo:clip-tiny-photos --task photos --examples 256
    """
    _answer(given, given.call(kind="gram"))


@app.command("combine")
@command(
    "smelt.measurement.combine:combine",
    first=Argument("A folder of statistics.", metavar="A", type=Path),
    second=Argument("Another, of the same model and other examples.", metavar="B", type=Path),
    out=OUT,
    force=FORCE.but("Replace an existing output."),
    **ANSWER,
)
def combine(given: Given) -> None:
    """Add up statistics of one model on two parts of the data.

    \b
    smelt measure combine A B -o C
    """
    _answer(given, given.call())


def _answer(given: Given, done: MeasuredStatistics) -> None:
    about = done.note.model_dump(mode="json", exclude={"format", "version", "tied"})
    given.answer(lambda: {"folder": str(done.folder), "seconds": done.seconds, **about}, done.print)
