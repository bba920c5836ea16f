"""`smelt tasks`: what can be evaluated, and one task in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from smelt.cli.from_function import Argument, Given, command
from smelt.cli.options import JSON

if TYPE_CHECKING:
    from smelt.tasks.task import Task

__all__ = ["tasks"]


@command(
    name=Argument("Show one in full: a name or a folder; or list a group.", type=str, default=None, complete="tasks"),
    as_json=JSON,
)
def tasks(given: Given) -> None:
    """List the tasks, or show one."""
    name, as_json = given["name"], given.as_json
    from smelt.tasks.groups import GROUPS
    from smelt.tasks.registry import find_task
    from smelt.tasks.registry import list_tasks as all_tasks

    if name is not None and name not in GROUPS:
        task = find_task(name)
        if as_json:
            typer.echo(json.dumps(_as_dict(task), indent=2, ensure_ascii=False))
        else:
            task.print()
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


def _line(task: Task) -> str:
    return f"{task.name:<20} {task.summary}  [{', '.join(task.counts_by_split)}]"


def _counts(task: Task) -> dict[str, int | None]:
    return {split: task.count(split) for split in task.splits}


def _as_dict(task: Task) -> dict[str, Any]:
    return {
        **task.words(),
        "splits": _counts(task),
        "source": task.source,
        "licence": task.licence,
        "folder": task.reference,
    }
