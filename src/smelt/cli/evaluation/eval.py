"""`smelt eval`: one model on tasks; a recipe is merged first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DEVICE, DTYPE, OUT, TASKS, TEXT_FROM, THREADS, TRUST

if TYPE_CHECKING:
    from smelt.evaluation.evaluate import Average, Evaluation
    from smelt.evaluation.row import Row
    from smelt.tasks.result import Result

__all__ = ["evaluate"]

_LARGEST_MATRIX = 20
"""Classes beyond which a confusion matrix does not fit a terminal; then the commonest mistakes are listed."""


@command(
    "smelt.prepare.evaluate:evaluate_model_or_recipe",
    "smelt.evaluation.evaluate:evaluate_model",
    model=Argument("A folder, zoo:NAME, hf:ORG/NAME, BASE+ADAPTER or RECIPE.yaml.", metavar="MODEL"),
    tasks=TASKS,
    split=Option("Which part of each task's data."),
    limit=Option("At most so many examples of each task, always the same ones.", min=1),
    text_from=TEXT_FROM.but("The CLIP model with the text tower, if MODEL is a picture tower alone."),
    batch=Option("Examples at once, at most.", min=1),
    device=DEVICE,
    dtype=DTYPE.but("The model computes in: float32, bfloat16, float16."),
    threads=THREADS,
    corruption=Option(
        "Corrupt the pictures first: motion_blur, impulse_noise, gaussian_noise, pixelate, spatter, contrast "
        "or jpeg, @1 to @5; or clean. Repeat it for several, each with its own rows.",
        metavar="KIND@SEVERITY",
        type=list[str],
    ),
    corrupted_by=Option("The numbers that a severity stands for: cifar_c or imagenet_c.", metavar="SET"),
    level=Option(
        "Of a folder that `smelt neulig` wrote: merged, ensembled, or both, with the gap between them.",
        show_default="merged",
    ),
    allow_pickle=ALLOW_PICKLE,
    trust_remote_code=TRUST,
    confusion=Option("Show what was taken for what.", type=bool, default=False, own=True),
    out=OUT.but("Append the rows to this file (JSON lines).", default=None, own=True),
    **ANSWER,
)
def evaluate(given: Given) -> None:
    """Evaluate one model on tasks.

    \b
    smelt eval zoo:clip-tiny-photos --tasks photos
    smelt eval OUT --tasks clip8 --split val --limit 500 -o rows.jsonl
    smelt eval OUT --tasks photos --corruption clean --corruption motion_blur@3
    smelt eval zoo:llm5-maths --tasks llm5,llm5-general --limit 20
    smelt eval zoo:mllm10-digits --tasks mllm10
    """
    done: Evaluation = given.call(quiet=given.silent)
    if given["out"] is not None:
        from smelt.evaluation.row import append_rows

        append_rows(given["out"], done.rows)
    confusion = given["confusion"]

    def show() -> None:
        _show(done)
        for what, result in _with_confusion(done) if confusion else ():
            _show_confusion(what, result)

    given.answer(lambda: _as_dict(done, confusion), show, ascii=False)
    if done.failures:
        from smelt.evaluation.evaluate import TasksFailed

        raise TasksFailed(done.failures, done.rows)


def _with_confusion(done: Evaluation) -> list[tuple[str, Result]]:
    """The results that tell what was taken for what, each with its task and condition in words."""
    return [
        (", ".join(word for word in (row.task, row.level, row.corruption) if word), result)
        for row, result in zip(done.rows, done.results, strict=True)
        if result.confusion is not None
    ]


def _as_dict(done: Evaluation, confusion: bool) -> dict[str, object]:
    from smelt.tasks.corruptions.corruption import CLEAN

    averages = done.averages
    if len(averages) == 1:
        mean: dict[str, object] = {"average": {"accuracy": averages[0].accuracy, "loss": averages[0].loss}}
    else:
        mean = {"averages": [dataclasses.asdict(one) for one in averages]}
    table: dict[str, object] = {"rows": [row.model_dump() for row in done.rows], **mean, "seconds": done.seconds}
    if done.gaps:
        table["gaps"] = {corruption or CLEAN: gap for corruption, gap in done.gaps.items()}
    if done.domains:
        table["domains"] = done.domains
    if done.failures:
        table["failures"] = {one.task: str(one.error) for one in done.failures}
    if confusion:
        table["confusion"] = {
            what: {
                "classes": list(one.classes),
                "matrix": [] if one.confusion is None else one.confusion.tolist(),
                "per_class": one.per_class,
            }
            for what, one in _with_confusion(done)
        }
    return table


def _show(done: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    from smelt.tasks.corruptions.corruption import CLEAN

    first = done.rows[0]
    table = Table(title=f"{first.model}, {first.split} split", title_justify="left")
    table.add_column("task", no_wrap=True)
    corrupted = max(len(row.corruption or "") for row in done.rows)
    plain = all(row.metric == "accuracy" for row in done.rows)
    levels = any(row.level for row in done.rows)
    if levels:
        table.add_column("level", no_wrap=True)
    if corrupted:
        table.add_column("corruption", min_width=corrupted)
    if not plain:
        table.add_column("metric")
    what, losses = (
        (f"{done.results[0].unit}s", True) if plain else ("examples", any(row.loss is not None for row in done.rows))
    )
    headings = ("accuracy %" if plain else "score %", "95 % interval", *(["loss"] if losses else []), what, "seconds")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=heading == "95 % interval")

    def condition(one: Row | Average) -> list[str]:
        return [*([one.level or ""] if levels else []), *([one.corruption or CLEAN] if corrupted else [])]

    for row, result in zip(done.rows, done.results, strict=True):
        names = [row.task, *condition(row), *([] if plain else [row.metric])]
        interval = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        numbers = [f"{100 * row.accuracy:.1f}", interval, *([_loss(row.loss)] if losses else [])]
        table.add_row(*names, *numbers, f"{row.n:,}", f"{result.seconds:.1f}")
    empty = [] if plain else [""]
    blank = [""] * (levels + bool(corrupted))
    if len(done.domains) > 1:
        table.add_section()
        for domain, score in done.domains.items():
            table.add_row(f"mean of {domain}", *blank, *empty, f"{100 * score:.1f}")
    if len(done.rows) > 1:
        table.add_section()
        averages = done.averages
        for one in averages:
            numbers = [f"{100 * one.accuracy:.1f}", "", *([_loss(one.loss)] if losses else [])]
            seconds = f"{done.seconds:.1f}" if len(averages) == 1 else ""
            table.add_row("average", *condition(one), *empty, *numbers, f"{one.n:,}", seconds)
        for corruption, gap in done.gaps.items():
            where = [*([""] if levels else []), *([corruption or CLEAN] if corrupted else [])]
            table.add_row("gap of the averages", *where, *empty, f"{100 * gap:.1f}")
    console = Console(soft_wrap=False)
    if not plain and not console.is_terminal:
        console = Console(soft_wrap=False, width=120)  # names and metrics are long; a file has room for them
    console.print(table)


def _loss(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.3f}"


def _show_confusion(what: str, result: Result) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    matrix, names = result.confusion, result.classes
    assert matrix is not None
    if len(names) <= _LARGEST_MATRIX:
        title = f"{what}: true class by row, answer by column"
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
        table = Table(title=f"{what}: the commonest mistakes", title_justify="left")
        for heading in ("true class", "answer", "pictures"):
            table.add_column(heading, justify="right" if heading == "pictures" else "left")
        wrong = [(int(matrix[i, j]), i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        for count, i, j in sorted(wrong, key=lambda one: (-one[0], one[1], one[2]))[:_LARGEST_MATRIX]:
            if count:
                table.add_row(names[i], names[j], str(count))
    Console(soft_wrap=False).print(table)
