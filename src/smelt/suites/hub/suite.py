"""A hub suite as data: models, a semantic graph, target tasks in words, and the ways to choose among the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from smelt.errors import unknown
from smelt.files.schema import Strict
from smelt.hub.labels.metrics import PictureChoice
from smelt.suites.needs.inputs import SuiteInputs
from smelt.suites.order import OrderOf
from smelt.suites.suite import BaseSuite

if TYPE_CHECKING:
    from smelt.suites.plan import BenchOptions

__all__ = [
    "EndpointWords",
    "GrowthStudy",
    "HubPreset",
    "HubSuite",
    "Method",
    "Reader",
    "Spiders",
    "Sweeps",
    "Target",
    "Timing",
    "Weights",
]

Count: TypeAlias = Annotated[int, Field(ge=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Weights: TypeAlias = Literal["entropy", "inverse_entropy", "uniform"]
"""How the answers of a class's models are joined."""

SERIES = ("sweeps", "growth", "figures")
"""What `--methods` may name beside the methods."""


class Target(Strict):
    """What is told about a task before any of its pictures is seen."""

    domain: str = "natural picture"
    task: str = "image classification"
    pictures: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of the collections that its pictures are of; by default one of its own. What is learned for a task from
    others is learned without those that share a collection with it."""


class Reader(Strict):
    """A text tower that some models read with, where a method says so; they see with their own picture towers."""

    of: str
    """A reference: models that have the same text tower as this one, number for number, ..."""
    by: str
    """... read with the text tower and the tokenizer of this one."""


class Method(Strict):
    """A way to choose models. All of them reuse the chosen ones by the same rule, `weights`."""

    label: str
    by: Literal["labels", "graph", "listed", "text", "oracle", "random"] = "labels"
    """`labels`: per class, by what the labels say of matching nodes (MLL). `graph`: the best on the whole graph.
    `listed`: the best by a number that is listed of every model (`listed`), its accuracy on ImageNet say (INB).
    `text`: text features and a linear model fitted on the other tasks (ModelGPT). `oracle`: the best on the very test
    pictures. `random`: what a model gets that nobody chose."""
    metric: Literal["recall", "precision", "f1"] = "recall"
    overall: Literal["all", "others"] = "all"
    normalise: Literal["none", "column"] = "none"
    pictures: PictureChoice = "all"
    """Of a node: all, those in the style of the domain (for `labels`), those that no model was trained on, or both."""
    weights: Weights = "entropy"
    text: Literal["caption", "definition", "name"] = "caption"
    """What the models read of a node: its name and definition (the paper), the definition, or its name in prompts."""
    reader: bool = False
    """Whether models read with the suite's `readers`: nodes, classes and all else that is text."""

    @property
    def unseen(self) -> bool:
        """Whether only pictures count that no model was trained on."""
        return self.pictures in ("unseen", "domain-unseen")

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
    weights: Annotated[list[Weights], Field(min_length=1)] | None = None
    """The rules by which the models of a class are joined, each over every k; the method's own if nothing is said."""


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


class EndpointWords(Strict):
    """A server that speaks OpenAI's protocol: for `embedder: endpoint:MODEL` and `captions: endpoint:MODEL`."""

    url: str
    key_env: str | None = None
    """The NAME of the environment variable with its key."""
    timeout: Annotated[float, Field(gt=0)] = 60.0
    tries: Count = 4
    wait: Annotated[float, Field(ge=0)] = 1.0


class HubPreset(Strict):
    """What a preset says in place of the suite; what it leaves out stays."""

    title: str | None = None
    models: Literal["zoo", "paper"] | None = None
    listed: Literal["paper"] | None = None
    unloadable: Literal["refuse", "leave out"] | None = None
    allow_pickle: bool | None = None
    graph: str | None = None
    embedder: str | None = None
    captions: str | None = None
    endpoint: EndpointWords | None = None
    templates: list[str] | None = None
    readers: list[Reader] | None = None
    tasks: dict[str, Target] | None = None
    methods: dict[str, Method] | None = None
    sweeps: Sweeps | None = None
    timing: Timing | None = None
    growth: GrowthStudy | None = None
    spiders: Spiders | None = None
    published: list[str] | None = None
    order: list[OrderOf] | None = None


class HubSuite(BaseSuite):
    """Everything that `smelt bench hub` runs."""

    kind: Literal["hub"]
    limit: Count | None = None
    """Pictures of each `test` split, where the command says nothing."""
    models: Literal["zoo", "paper"] | Annotated[dict[str, str], Field(min_length=2)] = "zoo"
    """References by name, those of the zoo's hub, or the 49 of the MLL paper (open_clip's)."""
    listed: Literal["paper"] | dict[str, float] | None = None
    """A number that is listed of every model: ImageNet's accuracies in the paper (Table 6), or one's own."""
    unloadable: Literal["refuse", "leave out"] = "refuse"
    """Whether the suite goes on without a model that cannot be fetched or loaded; the report says which and why."""
    allow_pickle: bool = False
    """Whether open_clip's models that are stored as a pickle alone are read, with weights_only."""
    graph: str = "zoo"
    """`zoo`, a folder, or a graph that `smelt hub graph NAME` made (`imagenet-family`)."""
    embedder: str = "minilm"
    captions: str = "template"
    """Who describes the classes: `template`, or `endpoint:MODEL`, a language model."""
    endpoint: EndpointWords | None = None
    """The server behind `endpoint:` names."""
    templates: Annotated[list[str], Field(min_length=1)] | None = None
    """The prompts for class names in all tasks; each task's own where nothing is said."""
    readers: list[Reader] = []
    """Only looked at where a method that is asked for reads with a reader."""
    presets: dict[str, HubPreset] = {}
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
        for name, method in self.methods.items():
            if method.by == "listed" and self.listed is None:
                raise ValueError(f"methods.{name}: chooses by a listed number, but the suite has no `listed`")
            if method.reader and not self.readers:
                raise ValueError(f"methods.{name}: reads with a reader, but the suite has no `readers`")
        for where, word in (("embedder", self.embedder), ("captions", self.captions)):
            if word.startswith("endpoint:") and self.endpoint is None:
                raise ValueError(f"{where}: {word} needs the address of a server, `endpoint: {{url: ...}}`")
        for where, one in (("timing.task", self.timing), ("spiders.task", self.spiders)):
            if one is not None and one.task not in self.tasks:
                raise ValueError(f"{where}: {unknown('task', one.task, self.tasks)}")
        return self

    def without_readers(self) -> HubSuite:
        """The suite without the methods that read with a reader, in its series too."""
        methods = {name: method for name, method in self.methods.items() if not method.reader}
        grown = [name for name in self.growth.methods if name in methods] if self.growth else []
        changed: dict[str, Any] = {
            "readers": [],
            "methods": methods,
            "sweeps": self.sweeps if self.sweeps and self.sweeps.method in methods else None,
            "growth": self.growth.model_copy(update={"methods": grown}) if self.growth and grown else None,
        }
        return self.model_copy(update=changed)

    @property
    def entries(self) -> list[str]:
        """What `--methods` may name."""
        there = {"sweeps": self.sweeps, "growth": self.growth, "figures": self}
        return [*self.methods, *(name for name in SERIES if there[name] is not None)]

    def inputs(self, options: BenchOptions) -> SuiteInputs:
        """Every model is asked every task once; choices are made from what they said."""
        models = self.references()
        reads = any(self.methods[name].reader for name in self._chosen(options.methods, self.methods))
        readers = {one.by: one.by for one in self.readers} if reads else {}
        return SuiteInputs(
            models={**models, **readers},
            tasks=tuple(self._chosen(options.tasks, self.tasks)),
            methods=tuple(self.entries),
            asked=len(models),
        )

    def references(self) -> dict[str, str]:
        """The models' references by name, in the order of the hub."""
        if isinstance(self.models, dict):
            return dict(self.models)
        if self.models == "paper":
            from smelt.hub.paper.hub import paper_hub

            return paper_hub().refs()
        from smelt.hub.models.zoo import hub_models

        return {name: f"zoo:{name}" for name in hub_models()}

    def listed_numbers(self) -> dict[str, float]:
        """What is listed of every model, by name; none where nothing is."""
        if self.listed == "paper":
            from smelt.hub.paper.hub import paper_hub

            return {model.name: model.imagenet for model in paper_hub().models}
        return dict(self.listed or {})

    def at_preset(self, words: dict[str, Any], preset: Any) -> dict[str, Any]:
        """The suite's words, with those of a preset in their place."""
        return {**words, **preset.model_dump(mode="json", exclude_unset=True)}
