"""A hub suite as data: models, a semantic graph, target tasks in words, and the ways to choose among the models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.suites.suite import BaseSuite

__all__ = ["GrowthStudy", "HubSuite", "Method", "Spiders", "Sweeps", "Target", "Timing"]

Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

SERIES = ("sweeps", "growth", "figures")
"""What `--methods` may name beside the methods."""


class Target(Strict):
    """What is told about a task before any of its pictures is seen."""

    domain: str = "natural picture"
    task: str = "image classification"
    pictures: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of the collections that its pictures are of; by default one of its own. What is learned for a task from
    others is learned without those that share a collection with it."""


class Method(Strict):
    """A way to choose models. All of them reuse the chosen ones by the same rule, `weights`."""

    label: str
    by: Literal["labels", "graph", "text", "oracle", "random"] = "labels"
    """`labels`: per class, by what the labels say of matching nodes (MLL). `graph`: the best on the whole graph.
    `text`: text features and a linear model fitted on the other tasks (ModelGPT). `oracle`: the best on the very test
    pictures. `random`: what a model gets that nobody chose."""
    metric: Literal["recall", "precision", "f1"] = "recall"
    overall: Literal["all", "others"] = "all"
    normalise: Literal["none", "column"] = "none"
    pictures: Literal["all", "domain"] = "all"
    weights: Literal["entropy", "inverse_entropy", "uniform"] = "entropy"
    text: Literal["caption", "definition", "name"] = "caption"
    """What the models read of a node: its name and definition (the paper), the definition, or its name in prompts."""

    def setting(self, k: int, alpha: float) -> dict[str, Any]:
        """What rows say of a choice: `{"k": 1, "alpha": 0.7, "pictures": "domain"}`, and where it is not the paper's.

        Alpha is there only where labels are what a choice is made by.
        """
        words = self.model_dump(exclude={"label", "by"}, exclude_defaults=True)
        return {"k": k, **({"alpha": alpha} if self.by == "labels" else {}), **words}


class Sweeps(Strict):
    """One method at other settings than its own."""

    method: str = "mll"
    alpha: Annotated[list[Share], Field(min_length=1)] = [0.5, 0.6, 0.7, 0.8, 0.9]
    k: Annotated[list[Count], Field(min_length=1)] = [1, 2, 3, 4, 5, 6]


class Timing(Strict):
    """The task whose pictures are really classified for every k, so that time can be measured."""

    task: str
    pictures: Count = 64
    repeats: Count = 3
    """The quickest of so many rounds."""


class GrowthStudy(Strict):
    """Models join the hub one by one, in several orders."""

    methods: Annotated[list[str], Field(min_length=1)] = ["mll"]
    orders: Count = 30
    k: Count = 1


class Spiders(Strict):
    """Figure 1: a few models over the tasks, and over the classes of one task."""

    models: Annotated[int, Field(ge=2, le=6)] = 5
    task: str
    classes: Annotated[int, Field(ge=3)] = 10


class HubSuite(BaseSuite):
    """Everything that `smelt bench hub` runs."""

    kind: Literal["hub"]
    limit: Count | None = None
    """Pictures of each `test` split, where the command says nothing."""
    models: Literal["zoo"] | Annotated[dict[str, str], Field(min_length=2)] = "zoo"
    """References by name, or those of the zoo's hub."""
    graph: str = "zoo"
    embedder: str = "minilm"
    nodes: Count = 5
    """Nodes of the graph that each class is matched with."""
    alpha: Share = 0.7
    k: Annotated[list[Count], Field(min_length=1)] = [1, 3]
    """Models per class: a table for each."""
    scale: Annotated[float, Field(gt=0)] = 100.0
    """What cosines are multiplied with before the softmax."""
    tasks: Annotated[dict[str, Target], Field(min_length=2)]
    methods: Annotated[dict[str, Method], Field(min_length=1)]
    sweeps: Sweeps | None = None
    timing: Timing | None = None
    growth: GrowthStudy | None = None
    spiders: Spiders | None = None

    @model_validator(mode="after")
    def _names_exist(self) -> HubSuite:
        """What the suite refers to within itself has to be there."""
        for name in self.methods:
            if name in SERIES:
                raise ValueError(f"methods.{name}: that is what the suite's own series are called; take another name")
        named = {"sweeps.method": [self.sweeps.method] if self.sweeps else []}
        named["growth.methods"] = self.growth.methods if self.growth else []
        for where, names in named.items():
            for name in names:
                if name not in self.methods:
                    raise ValueError(f"{where}: {unknown('method', name, self.methods)}")
        if self.sweeps and self.methods[self.sweeps.method].by != "labels":
            raise ValueError(f"sweeps.method: {self.sweeps.method} does not choose by labels, so alpha says nothing")
        for where, one in (("timing.task", self.timing), ("spiders.task", self.spiders)):
            if one is not None and one.task not in self.tasks:
                raise ValueError(f"{where}: {unknown('task', one.task, self.tasks)}")
        return self

    @property
    def entries(self) -> list[str]:
        """What `--methods` may name."""
        there = {"sweeps": self.sweeps, "growth": self.growth, "figures": self}
        return [*self.methods, *(name for name in SERIES if there[name] is not None)]

    def references(self) -> dict[str, str]:
        """The models' references by name, in the order of the hub."""
        if self.models != "zoo":
            return dict(self.models)
        from smelt.hub.models.zoo import hub_models

        return {name: f"zoo:{name}" for name in hub_models()}
