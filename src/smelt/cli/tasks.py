"""`smelt tasks`: what can be evaluated, and one task in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.request import JsonOption

if TYPE_CHECKING:
    from smelt.tasks.find import AnyTask
    from smelt.tasks.language.task import LanguageTask
    from smelt.tasks.pictures.task import Task
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["tasks"]


def tasks(
    name: Annotated[
        str | None, typer.Argument(help="Show one in full: a name or a folder; or list a group.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tasks, or show one."""
    from smelt.tasks.find import GROUPS, find_task
    from smelt.tasks.find import list_tasks as all_tasks

    if name is not None and name not in GROUPS:
        task = find_task(name)
        if as_json:
            typer.echo(json.dumps(_as_dict(task), indent=2, ensure_ascii=False))
        else:
            _explain(task)
        return
    known = all_tasks() if name is None else {one: find_task(one) for one in GROUPS[name]}
    if as_json:
        typer.echo(json.dumps({one: _as_dict(task) for one, task in known.items()}, indent=2, ensure_ascii=False))
        return
    for task in known.values():
        typer.echo(_line(task))
    typer.echo("")
    for group, members in GROUPS.items():
        there = name or all(member in known or ":" in member for member in members)
        if name in (None, group):
            typer.echo(f"{group} = {', '.join(members)}{'' if there else '  (some are not installed)'}")


def _line(task: AnyTask) -> str:
    from smelt.tasks.pictures.task import Task
    from smelt.tasks.questions.task import QuestionTask

    if isinstance(task, Task):
        return f"{task.name:<20} {len(task.classes):>4} classes  {task.title}  [{', '.join(_splits(task))}]"
    if isinstance(task, QuestionTask):
        return f"{task.name:<20} {'questions':>12}  {task.title}  [{', '.join(_splits(task))}]"
    about = task.domain or task.kind
    return f"{task.name:<20} {about:>12}  {task.title or task.source}  [{', '.join(_splits(task))}]"


def _explain(task: AnyTask) -> None:
    from smelt.tasks.pictures.task import Task
    from smelt.tasks.questions.task import QuestionTask

    title = f": {task.title}" if task.title else ""
    typer.echo(f"{task.name}, version {task.version}{title}\n")
    if isinstance(task, Task):
        _explain_pictures(task)
    elif isinstance(task, QuestionTask):
        _explain_questions(task)
    else:
        _explain_language(task)


def _explain_pictures(task: Task) -> None:
    typer.echo(f"pictures:   {task.source}" + (f", {task.size}×{task.size}" if task.size else ""))
    _explain_place(task)
    typer.echo("templates:")
    for template in task.templates:
        typer.echo(f"  {template}")
    typer.echo(f"classes ({len(task.classes)}):")
    width = len(str(len(task.classes) - 1))
    for number, name in enumerate(task.classes):
        typer.echo(f"  {number:>{width}} {name}")


def _explain_language(task: LanguageTask) -> None:
    typer.echo(f"{f'{task.kind}:':<12}{task.source}")
    if task.domain:
        typer.echo(f"domain:     {task.domain}")
    typer.echo(f"metric:     {task.metric or 'its first'}" + (", chat" if task.chat else ""))
    _explain_place(task)
    split = "test" if "test" in task.splits else next(iter(task.splits), "")
    if split in task.files:
        first = task.records(split)[0]
        typer.echo(f"an example of {split}:")
        for word in ("prompt", "choices", "answer"):
            if word in first:
                typer.echo(f"  {word}: {first[word]}")


def _explain_questions(task: QuestionTask) -> None:
    from smelt.tasks.questions.prompt import LETTERS, prompt_of

    typer.echo(f"questions:  {task.source}")
    _explain_place(task)
    first = task.questions(task.splits[0])[0]
    typer.echo(f"an example of {task.splits[0]}:")
    for line in prompt_of(first, task.extra, task.instruction).split("\n"):
        typer.echo(f"  {line}")
    typer.echo(f"picture:    {json.dumps(first.picture)}")
    typer.echo(f"answer:     {'not told' if first.answer is None else LETTERS[first.answer]}")


def _explain_place(task: AnyTask) -> None:
    typer.echo(f"splits:     {', '.join(_splits(task))}")
    typer.echo(f"licence:    {task.licence or 'not stated'}")
    typer.echo(f"folder:     {task.reference}")


def _counts(task: AnyTask) -> dict[str, int | None]:
    from smelt.tasks.pictures.splits import count
    from smelt.tasks.pictures.task import Task

    return {split: count(task, split) if isinstance(task, Task) else task.count(split) for split in task.splits}


def _splits(task: AnyTask) -> list[str]:
    return [split if number is None else f"{split} {number:,}" for split, number in _counts(task).items()]


def _own_words(task: AnyTask) -> dict[str, Any]:
    from smelt.tasks.pictures.task import Task
    from smelt.tasks.questions.task import QuestionTask

    if isinstance(task, Task):
        return {"kind": "pictures", **task.model_dump(mode="json", exclude={"data"})}
    if isinstance(task, QuestionTask):
        return {"kind": "questions", **task.model_dump(mode="json", exclude={"files"})}
    return {
        "kind": task.kind,
        "name": task.name,
        "version": task.version,
        "title": task.title,
        "domain": task.domain,
        "metric": task.metric or None,
        "chat": task.chat,
    }


def _as_dict(task: AnyTask) -> dict[str, Any]:
    return {
        **_own_words(task),
        "splits": _counts(task),
        "source": task.source,
        "licence": task.licence,
        "folder": task.reference,
    }
