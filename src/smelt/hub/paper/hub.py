"""Reading the paper's hub: YAML in, checked models and tasks out, each as a reference that the rest of Smelt takes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from smelt.errors import RecipeError, unknown
from smelt.files.schema import Strict
from smelt.files.yaml_reader import read_yaml
from smelt.hub.selection.select import TaskWords

if TYPE_CHECKING:
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["PaperHub", "PaperModel", "PaperTask", "paper_hub"]

_HERE = Path(__file__).parent
Share = Annotated[float, Field(ge=0, le=1)]


class PaperModel(Strict):
    """One model of the hub, in open_clip's words."""

    id: Annotated[int, Field(ge=1)]
    architecture: str
    tag: str
    parameters: Annotated[float, Field(gt=0)]
    """Millions."""
    flops: Annotated[float, Field(gt=0)]
    """Billions, for one picture and one text."""
    imagenet: Share
    """Top-1 accuracy."""
    open_clip: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    transformers: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None

    @property
    def name(self) -> str:
        """`ViT-B-32.openai`: a name that a hub takes, too."""
        return f"{self.architecture}.{self.tag}"

    @property
    def ref(self) -> str:
        """How a recipe names it: open_clip computes it, from the repository that it takes the weights from."""
        return f"open_clip:{self.architecture}/{self.tag}"


class PaperTask(Strict):
    """One data set of the benchmark."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    count: Annotated[int, Field(ge=1)]
    """Of classes."""
    domain: str
    task: str
    code_domain: str | None = None
    code_task: str | None = None
    """The words of the released code, where they differ."""
    task_name: str | None = None
    """A public task of Smelt on the same pictures."""
    split: str = "test"

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names; the sample sets have none here: a graph is built from ImageNet's own numbers of synsets."""
        names = _words().get(self.name)
        if names is None and self.task_name is not None:
            from smelt.tasks.registry import picture_task

            return picture_task(self.task_name).classes
        return names or ()

    def words(self, source: Literal["paper", "code"] = "paper") -> TaskWords:
        """The task as its owner would describe it to the hub, in the paper's or in the released code's words."""
        if source == "paper":
            return TaskWords(self.classes, self.domain, self.task)
        return TaskWords(self.classes, self.code_domain or self.domain, self.code_task or self.task)

    def as_task(self) -> PictureTask:
        """The public task with the paper's prompt, `a photo of {}`; its classes have the names of the public task."""
        from smelt.tasks.registry import picture_task

        if self.task_name is None:
            raise RecipeError(f"{self.name} is a sample set, of which graphs are built; it is no task")
        return picture_task(self.task_name).model_copy(update={"templates": ("a photo of {}",)})


class PaperCost(Strict):
    """What k models for a class cost, relative to one, and the average accuracy."""

    time: Annotated[float, Field(gt=0)]
    accuracy: Share


class PaperHub(Strict):
    """All of it, checked: numbers consecutive, names unique, every target with as many names as classes."""

    models: tuple[PaperModel, ...]
    samples: tuple[PaperTask, ...]
    targets: tuple[PaperTask, ...]
    alpha: dict[float, Share]
    models_per_class: dict[int, PaperCost]

    @model_validator(mode="after")
    def _fits(self) -> PaperHub:
        if [model.id for model in self.models] != list(range(1, len(self.models) + 1)):
            raise ValueError("the models' ids are not 1, 2, 3, ...")
        for what, names in (
            ("models", [model.name for model in self.models]),
            ("tasks", [task.name for task in (*self.samples, *self.targets)]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what} have one name")
        for task in self.targets:
            if len(set(task.classes)) != task.count:
                raise ValueError(f"{task.name} has {task.count} classes but {len(set(task.classes))} names")
        return self

    def model(self, name: str) -> PaperModel:
        """A model by its name, `architecture.tag`."""
        found = {model.name: model for model in self.models}
        if name not in found:
            raise RecipeError(unknown("model in the paper's hub", name, found))
        return found[name]

    def target(self, name: str) -> PaperTask:
        """A target by its name."""
        found = {task.name: task for task in self.targets}
        if name not in found:
            raise RecipeError(unknown("target in the paper's hub", name, found))
        return found[name]

    def refs(self) -> dict[str, str]:
        """{name: reference} of the models, in the order of Table 6."""
        return {model.name: model.ref for model in self.models}

    def tasks(self) -> list[PictureTask]:
        """The targets as tasks, in the order of the paper's tables."""
        return [task.as_task() for task in self.targets]


@functools.cache
def paper_hub() -> PaperHub:
    """The paper's hub, read and checked."""
    return PaperHub.model_validate({**_read("models"), **_read("tasks"), **_read("tables")})


@functools.cache
def _words() -> dict[str, tuple[str, ...]]:
    return {name: tuple(names) for name, names in _read("words").items()}


def _read(name: str) -> dict[str, Any]:

    content: dict[str, Any] = read_yaml(_HERE / f"{name}.yaml")
    return content
