"""`smelt eval`: one model on tasks; a recipe is merged first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, DEVICE, DTYPE, OUT, TASKS, TEXT_FROM, THREADS, TRUST
from smelt.display.blocks import Table
from smelt.display.text import print_blocks
from smelt.files.writing import check_writable

if TYPE_CHECKING:
    from smelt.evaluation.evaluate import Evaluation
    from smelt.tasks.result import Result

__all__ = ["evaluate"]

_LARGEST_MATRIX = 20
"""Classes beyond which a confusion matrix does not fit a terminal; then the commonest mistakes are listed."""


@command(
    "smelt.prepare.evaluate:evaluate_model_or_recipe",
    "smelt.evaluation.evaluate:evaluate_model",
    model=Argument(
        "A folder, zoo:NAME, hf:ORG/NAME, BASE+ADAPTER or RECIPE.yaml; or a server's address, http://HOST/v1.",
        metavar="MODEL",
        complete="models",
    ),
    tasks=TASKS,
    served_name=Option("The model's name at the server.", ("--model",), metavar="NAME"),
    split=Option("Which part of each task's data.", complete="splits"),
    limit=Option("At most so many examples of each task, always the same ones.", min=1),
    text_from=TEXT_FROM.but(
        "The CLIP model with the text tower, if MODEL is a picture tower alone; of a server, the model with the "
        "tokenizer and chat template to use instead of the server's."
    ),
    batch=Option("Examples at once, at most.", min=1),
    device=DEVICE,
    dtype=DTYPE.but("The model computes in: float32, bfloat16, float16."),
    threads=THREADS.but(
        "Worker threads; all cores by default. Of a server: requests under way at a time, 8 by default."
    ),
    key_env=Option("The environment variable with the server's key."),
    timeout=Option("Seconds that one answer of the server may take; 300 by default.", min=1),
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
    smelt eval http://localhost:8080/v1 --model NAME --tasks maths
    """
    if given["out"] is not None:
        check_writable(given["out"], "the rows cannot be written")
    done: Evaluation = given.call(quiet=given.silent)
    if given["out"] is not None:
        from smelt.evaluation.row import append_rows

        append_rows(given["out"], done.rows)
    confusion = given["confusion"]

    def show() -> None:
        tables = [_confusion(what, result) for what, result in _with_confusion(done)] if confusion else []
        print_blocks([*done.shown(), *tables])

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


def _confusion(what: str, result: Result) -> Table:
    matrix, names = result.confusion, result.classes
    assert matrix is not None
    if len(names) <= _LARGEST_MATRIX:
        rows = []
        for number, name in enumerate(names):
            share = result.per_class[name]
            right = "" if share is None else f"{100 * share:.0f}"
            counts = (str(count) if count else "·" for count in matrix[number])
            rows.append([f"{number} {name}", *counts, right])
        headings = ["", *map(str, range(len(names))), "right %"]
        return Table(headings, rows, f"{what}: true class by row, answer by column")
    wrong = [(int(matrix[i, j]), i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    commonest = sorted(wrong, key=lambda one: (-one[0], one[1], one[2]))[:_LARGEST_MATRIX]
    rows = [[names[i], names[j], str(count)] for count, i, j in commonest if count]
    return Table(["true class", "answer", "pictures"], rows, f"{what}: the commonest mistakes", left=(0, 1))
