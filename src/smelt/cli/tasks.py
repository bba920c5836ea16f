"""`smelt tasks`: what can be evaluated, and one task in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smelt.cli.request import JsonOption

if TYPE_CHECKING:
    from smelt.evaluate.task import Task

__all__ = ["tasks"]


def tasks(
    name: Annotated[
        str | None, typer.Argument(help="Show one in full: a name or a folder.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tasks, or show one."""
    from smelt.evaluate.find import GROUPS, find_task
    from smelt.evaluate.find import tasks as all_tasks

    if name is not None and name not in GROUPS:
        task = find_task(name)
        if as_json:
            typer.echo(json.dumps(_as_dict(task), indent=2, ensure_ascii=False))
        else:
            _explain(task)
        return
    known = all_tasks()
    if name is not None:
        known = {one: find_task(one) for one in GROUPS[name]}
    if as_json:
        typer.echo(json.dumps({one: _as_dict(task) for one, task in known.items()}, indent=2, ensure_ascii=False))
        return
    for task in known.values():
        typer.echo(f"{task.name:<14} {len(task.classes):>4} classes  {task.title}  [{', '.join(_splits(task))}]")
    typer.echo("")
    for group, members in GROUPS.items():
        missing = "" if all(member in known for member in members) or name else "  (some are not installed)"
        if name in (None, group):
            typer.echo(f"{group} = {', '.join(members)}{missing}")


def _explain(task: Task) -> None:
    typer.echo(f"{task.name}, version {task.version}: {task.title}\n")
    typer.echo(f"pictures:   {task.source}" + (f", {task.size}×{task.size}" if task.size else ""))
    typer.echo(f"splits:     {', '.join(_splits(task))}")
    typer.echo(f"licence:    {task.licence or 'not stated'}")
    typer.echo(f"folder:     {task.folder}")
    typer.echo("templates:")
    for template in task.templates:
        typer.echo(f"  {template}")
    typer.echo(f"classes ({len(task.classes)}):")
    width = len(str(len(task.classes) - 1))
    for number, name in enumerate(task.classes):
        typer.echo(f"  {number:>{width}} {name}")


def _splits(task: Task) -> list[str]:
    from smelt.evaluate.splits import count

    counts = {split: count(task, split) for split in task.splits}
    return [split if number is None else f"{split} {number:,}" for split, number in counts.items()]


def _as_dict(task: Task) -> dict[str, Any]:
    from smelt.evaluate.splits import count

    return {
        **task.model_dump(mode="json", exclude={"data"}),
        "splits": {split: count(task, split) for split in task.splits},
        "source": task.source,
        "licence": task.licence,
        "folder": str(task.folder),
    }
