"""A task in a person's words: what a form or a JSON body says, checked against the service's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import urlencode

from smelt.hub.labels.metrics import PictureChoice
from smelt.hub.service.problems import Refused

if TYPE_CHECKING:
    from smelt.hub.service.settings import Settings

__all__ = ["DOMAIN", "PICTURES", "TASK", "WEIGHTS", "Pictures", "TaskForm", "Weights", "class_lines"]

DOMAIN, TASK = "natural picture", "image classification"
Pictures: TypeAlias = PictureChoice
PICTURES: dict[Pictures, str] = {
    "all": "all of them",
    "domain": "those in the style of the task's pictures",
    "unseen": "those that no model was trained on",
    "domain-unseen": "those in the style that no model was trained on",
}
"""Which of a node's pictures count in a selection."""
Weights = Literal["entropy", "inverse_entropy", "uniform"]
WEIGHTS: dict[Weights, str] = {
    "entropy": "the less certain count more",
    "inverse_entropy": "the more certain count more",
    "uniform": "all count alike",
}
"""How the models of a class are weighed in a prediction."""
_MOST_MODELS, _MOST_NODES = 20, 50


@dataclass(frozen=True)
class TaskForm:
    """What `Hub.select` is asked with."""

    classes: tuple[str, ...] = ()
    domain: str = DOMAIN
    task: str = TASK
    k: int = 1
    alpha: float = 0.7
    nodes: int = 5
    pictures: Pictures = "all"

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of `Hub.select` after the classes."""
        return {name: getattr(self, name) for name in ("domain", "task", "k", "alpha", "nodes", "pictures")}

    @property
    def query(self) -> str:
        """The same as the query of an address."""
        return urlencode({"classes": "\n".join(self.classes), **self.options})

    def checked(self, settings: Settings) -> TaskForm:
        """The same form, or what is wrong with it, all faults at once."""
        faults = []
        if not self.classes:
            faults.append("name at least one class, one in a line")
        if len(self.classes) > settings.classes:
            faults.append(f"{len(self.classes):,} classes are more than the {settings.classes:,} that are taken here")
        if twice := sorted({name for name in self.classes if self.classes.count(name) > 1})[:5]:
            faults.append(f"name every class once; twice: {', '.join(twice)}")
        if long := [name for name in self.classes if len(name) > settings.class_letters]:
            faults.append(f"the class {long[0][:40]!r}… is longer than {settings.class_letters} letters")
        if max(len(self.domain), len(self.task)) > settings.task_letters:
            faults.append(f"domain and task are sentences of at most {settings.task_letters} letters")
        if not 1 <= self.k <= _MOST_MODELS:
            faults.append(f"k, the models for each class, is from 1 to {_MOST_MODELS}, not {self.k}")
        if not 0 <= self.alpha <= 1:
            faults.append(f"alpha is from 0 (the whole task) to 1 (the class alone), not {self.alpha:g}")
        if not 1 <= self.nodes <= _MOST_NODES:
            faults.append(f"nodes, those kept for each class, is from 1 to {_MOST_NODES}, not {self.nodes}")
        if faults:
            raise Refused(422, "; ".join(faults))
        return self


def class_lines(text: str | Sequence[str]) -> tuple[str, ...]:
    """Names, one in a line; a single line may have commas instead."""
    lines = text.splitlines() if isinstance(text, str) else [line for one in text for line in one.splitlines()]
    names = [" ".join(line.split()) for line in lines]
    names = [name for name in names if name]
    if len(names) == 1 and "," in names[0]:
        names = [name.strip() for name in names[0].split(",") if name.strip()]
    return tuple(names)
