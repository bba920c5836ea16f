"""Models and the data that is looked at for them, paired by name and never by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.recipe.schema import DataUse
    from smelt.tasks.examples import Stream
    from smelt.tasks.find import AnyTask
    from smelt.tasks.language.task import LanguageTask
    from smelt.tasks.pictures.data import Data
    from smelt.tasks.pictures.task import Task

__all__ = ["check_streams", "only_pictures", "streams_for", "tasks_for"]


def tasks_for(models: Sequence[str], use: DataUse | None) -> dict[str, Task | LanguageTask]:
    """The task of every model: as `data.tasks` says, else the one that has the model's name. All faults at once."""
    from smelt.tasks.find import find_task, list_tasks
    from smelt.tasks.questions.task import QuestionTask

    said = dict(use.tasks) if use else {}
    faults = [f"data.tasks: {unknown('model', name, models)}" for name in said if name not in models]
    known = {name: task for name, task in list_tasks().items() if not isinstance(task, QuestionTask)}
    without = [name for name in models if name not in said and name not in known]
    if without:
        faults.append(
            f"no data for {', '.join(map(repr, without))}: there is no task of that name (tasks: {', '.join(known)}); "
            f"say which it is with `data: {{tasks: {{{without[0]}: TASK}}}}`"
        )
    if faults:
        raise RecipeError(faults[0] if len(faults) == 1 else "".join(f"\n  - {f}" for f in ["", *faults])[5:])
    return {name: _of_data(find_task(said[name])) if name in said else known[name] for name in models}


def _of_data(task: AnyTask) -> Task | LanguageTask:
    from smelt.tasks.questions.task import QuestionTask

    if isinstance(task, QuestionTask):
        raise RecipeError(f"data.tasks: {task.name} is a question set, on which nothing is measured or learned")
    return task


def only_pictures(tasks: Mapping[str, Task | LanguageTask], who: str) -> dict[str, Task]:
    """The same tasks, for `who` learns on pictures only; one about texts is refused."""
    from smelt.tasks.pictures.task import Task

    for name, task in tasks.items():
        if not isinstance(task, Task):
            raise RecipeError(f"{who} learns on pictures, but {task.name!r}, the task of {name}, is about texts")
    return {name: task for name, task in tasks.items() if isinstance(task, Task)}


def streams_for(
    model: Any,
    tasks: Mapping[str, Task | LanguageTask],
    use: DataUse | None,
    *,
    split: str,
    at_most: int | None = None,
) -> dict[str, Stream]:
    """Examples of every model's task, as `use` says; else of `split`, all of them but `at_most`."""
    from smelt.tasks.corruptions import Corruption
    from smelt.tasks.examples import stream_for
    from smelt.tasks.pictures.data import Data

    data = Data()
    found: dict[str, Stream] = {}
    split = (use.split if use else None) or split
    damage = Corruption.parse(use.corruption) if use and use.corruption else None
    for name, task in tasks.items():
        task.check_split(split)
        wanted = use.examples if use else None
        if wanted is None and at_most is not None:
            wanted = min(at_most, _size(model, task, split, data))
        found[name] = stream_for(model, task, split=split, count=wanted, data=data, corruption=damage)
    return found


def _size(model: Any, task: Task | LanguageTask, split: str, data: Data) -> int:
    """How many examples a split has."""
    from smelt.tasks.pictures.task import Task

    if isinstance(task, Task):
        return len(data.part(task, split, None, model.preprocess))
    return task.count(split) or len(task.pairs(split))


def check_streams(models: Sequence[str], streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """Streams that were given, in the order of the models; a name without a partner is refused."""
    faults = [unknown("model", name, models) for name in streams if name not in models]
    faults += [f"no stream of examples for {name!r}" for name in models if name not in streams]
    if faults:
        raise RecipeError("streams: " + "; ".join(faults))
    return {name: streams[name] for name in models}
