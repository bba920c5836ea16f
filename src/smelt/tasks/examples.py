"""Examples: data as statistics and learning take it. A task's split in, batches of a network's inputs out.

The only way by which data reaches `measurement`, `learning` and `mixing`, so that what was used is always known: every
stream has a name, a hash over its content, and the budget that goes into result rows. Models and their data are paired
by name and never by position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from smelt.caller import word
from smelt.errors import RecipeError, listed, unknown
from smelt.recipe.schema import DataBudget, DataUse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.tasks.task import Task

__all__ = [
    "ArrayStream",
    "ExampleBatch",
    "ExampleStream",
    "check_streams",
    "enough",
    "shuffled",
    "streams_for",
    "tasks_for",
]


@dataclass(frozen=True)
class ExampleBatch:
    """Inputs [b, ...] of a network with their labels [b], and what it knows of the classes; all on its device."""

    inputs: Any
    labels: Tensor
    head: Tensor | None


class ExampleStream(Protocol):
    """Examples of one task in a fixed order."""

    name: str
    """The task."""
    hash: str
    """Over the examples and their order."""
    budget: DataBudget
    """What its use costs in data."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> ExampleBatch:
        """The examples at these places."""

    def batches(self, size: int) -> Iterator[ExampleBatch]:
        """All of them in order."""
        for start in range(0, len(self), size):
            yield self.batch(range(start, min(start + size, len(self))))


class ArrayStream(ExampleStream):
    """Examples in memory: inputs [n, ...] and labels [n]."""

    def __init__(self, name: str, inputs: Tensor, labels: Tensor, head: Tensor | None = None):
        if len(inputs) != len(labels):
            raise RecipeError(f"{name}: {len(inputs)} inputs, but {len(labels)} labels")
        self.name, self._inputs, self._labels, self._head = name, inputs, labels, head
        content = hashlib.sha256(name.encode())
        for tensor in (inputs, labels, *([head] if head is not None else [])):
            content.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            content.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        self.hash = content.hexdigest()
        self.budget = DataBudget(images=len(inputs), labels=0)

    def __len__(self) -> int:
        return len(self._inputs)

    def batch(self, indices: Sequence[int]) -> ExampleBatch:
        places = list(indices)
        return ExampleBatch(self._inputs[places], self._labels[places], self._head)


def shuffled(count: int, place: str) -> NDArray[np.int64]:
    """An order that is the same for all time: splits may be stored class by class."""
    import numpy as np

    ranks = [hashlib.blake2b(f"{place}\0order {i}".encode(), digest_size=8).digest() for i in range(count)]
    return np.array(sorted(range(count), key=ranks.__getitem__), dtype=np.int64)


def enough(task: Task, split: str, count: int | None, there: int) -> None:
    """Refuse to take more examples than there are."""
    if count is not None and there < count:
        raise RecipeError(
            f"{task.name}: {count} examples are asked for, but its {split} split has {there}; "
            f"ask for at most {there}, or use another split"
        )


def tasks_for(models: Sequence[str], use: DataUse | None) -> dict[str, Task]:
    """The task of every model: as `data.tasks` says, else the one that has the model's name. All faults at once."""
    from smelt.tasks.registry import find_task, list_tasks, task_folders

    said = dict(use.tasks) if use else {}
    faults = [f"data.tasks: {unknown('model', name, models)}" for name in said if name not in models]
    folders = task_folders()
    own = {name: find_task(folders[name]) for name in models if name not in said and name in folders}
    without = [name for name in models if name not in said and not (name in own and own[name].has_examples)]
    if without:
        known = [name for name, task in list_tasks().items() if task.has_examples]
        faults.append(
            f"no data for {', '.join(map(repr, without))}: there is no task of that name (tasks: {', '.join(known)}); "
            f"say which it is with {word('data', {'tasks': {without[0]: 'TASK'}})}"
        )
    if faults:
        raise RecipeError(listed(faults))
    found = {name: find_task(said[name]) if name in said else own[name] for name in models}
    for task in found.values():
        if not task.has_examples:
            raise RecipeError(f"data.tasks: {task.name} is {task.called}, on which nothing is measured or learned")
    return found


def streams_for(
    model: Any,
    tasks: Mapping[str, Task],
    use: DataUse | None,
    *,
    split: str,
    at_most: int | None = None,
) -> dict[str, ExampleStream]:
    """Examples of every model's task, as `use` says; else of `split`, all of them but `at_most`."""
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.data_cache import DataCache

    data = DataCache()
    found: dict[str, ExampleStream] = {}
    split = (use.split if use else None) or split
    damage = Corruption.parse(use.corruption) if use and use.corruption else None
    for name, task in tasks.items():
        task.check_split(split)
        wanted = use.examples if use else None
        if wanted is None and at_most is not None:
            wanted = min(at_most, task.number_of_examples(split, data))
        found[name] = task.examples(model, split, count=wanted, data=data, corruption=damage)
    return found


def check_streams(models: Sequence[str], streams: Mapping[str, ExampleStream]) -> dict[str, ExampleStream]:
    """Streams that were given, in the order of the models; a name without a partner is refused."""
    faults = [unknown("model", name, models) for name in streams if name not in models]
    faults += [f"no stream of examples for {name!r}" for name in models if name not in streams]
    if faults:
        raise RecipeError("streams: " + "; ".join(faults))
    return {name: streams[name] for name in models}
