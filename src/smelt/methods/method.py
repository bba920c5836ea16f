"""What a merge method is: a pure function from a stack of tensors to one tensor, with a record of its needs.

A recipe is a pipeline of stages, each registered here by a decorator that returns the function unchanged:

    step      Stack -> Stack      before a method, on the models' deltas     dare, della, breadcrumbs
    method    Stack -> Tensor     the merge itself                           average, ties, tsv, ...
    wrapper   Tensor, Stack -> Tensor   after a method, on the merged delta  svc, lines
    basis     Stack -> Stack and back   the steps between run in another basis   knots, core_space

A stage never opens a file, picks a device, logs or knows a tensor's neighbours. It is given float32 and gives
float32. It asks for more by naming it among its positional arguments: `base` (the base's tensor), `depth` (0..1),
`rng` (randomness that belongs to the place), `models` (the names in the stack), `statistics` (what was measured or
learned about each model, of the kind that the stage declares); any other name receives what its `prepare` fold found.
Parameters are keyword-only and their types validate them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar, get_args, get_type_hints

from pydantic import Field, TypeAdapter

from smelt.display.blocks import Facts, Table
from smelt.display.shown import Shown
from smelt.errors import SmeltError
from smelt.ops.block import Stack
from smelt.registry import Registry, modules_below

__all__ = [
    "Elsewhere",
    "Fraction",
    "Kind",
    "ModelName",
    "Parameter",
    "PerModel",
    "Positive",
    "Space",
    "Stack",
    "Stage",
    "Unit",
    "merge_basis",
    "merge_method",
    "merge_step",
    "merge_wrapper",
    "stages",
]

Kind: TypeAlias = Literal["step", "method", "wrapper", "basis"]
Space: TypeAlias = Literal["weight", "delta"]
Unit: TypeAlias = Literal["element", "row", "tensor", "matrix"]
"""The smallest piece a stage may be given: any run of elements, whole rows, the whole tensor, or the whole tensor
where it is a linear layer's matrix. All but elements are [out, in], one layer at a time, however they are stored."""
Elsewhere: TypeAlias = Literal["mean", "sum"]
"""What becomes of the changes of a tensor that a method does not treat: no matrix, or no statistics of it."""

Fraction: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]

_PER_MODEL = object()
_MODEL_NAME = object()
ModelName: TypeAlias = Annotated[str, _MODEL_NAME]
"""The name of one of the models; the plan refuses any other."""
T = TypeVar("T")
if TYPE_CHECKING:
    from torch import Tensor

    class PerModel(Tensor, Generic[T]):
        """One value per model. A recipe may give one for all; the stage receives a column that broadcasts."""
else:
    PerModel = Annotated[T, _PER_MODEL]


@dataclass(frozen=True)
class Parameter:
    """One keyword of a stage: its type (for validation), default, and whether each model has its own."""

    name: str
    annotation: Any
    default: Any
    per_model: bool

    @property
    def names_model(self) -> bool:
        """Whether the value is the name of a model."""
        inner = [self.annotation, *get_args(self.annotation)]
        return any(_MODEL_NAME in get_args(one)[1:] for one in inner)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def type_name(self) -> str:
        """The type as a user would write it: `float`, `0 < float <= 1`, `mean | sum | max`."""
        return _type_name(self.annotation)


@dataclass(frozen=True)
class Stage(Shown):
    """The record of one registered stage; `exempt` names the laws it does not keep and why."""

    name: str
    kind: Kind
    function: Callable[..., Any]
    space: Space | Callable[..., Space] = "delta"
    unit: Unit | Callable[..., Unit] = "element"
    prepare: Callable[..., Any] | None = None
    back: Callable[..., Tensor] | None = None
    paper: str | None = None
    latex: str = ""
    """Its equations for typesetting, `\\\\` between them. A word of several letters is a name and is set upright."""
    models: tuple[int, int | None] = (1, None)
    statistics: str | None = None
    """The kind of statistics that it reads beside each model: fisher, gram, mask, components."""
    elsewhere: Elsewhere = "mean"
    stretches: bool = False
    """Of a method: its `scale` multiplies the merged change in float32, after all else, so that one merge gives every
    scale to the bit. Of a wrapper or a basis: a factor of what it is given is one of what it gives, up to rounding."""
    exempt: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        signature = inspect.signature(self.function).parameters
        keywords = {name: p.default for name, p in signature.items() if p.kind is p.KEYWORD_ONLY}
        hints = _hints(self.function, keywords)
        return {name: _parameter(name, hints[name], default) for name, default in keywords.items()}

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """The positional arguments beyond those every stage of its kind receives."""
        names = [n for n, p in inspect.signature(self.function).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        return tuple(names[2 if self.kind == "wrapper" else 1 :])

    @cached_property
    def fold_parameters(self) -> tuple[str, ...]:
        """The parameters that decide what its fold gathers."""
        wanted = inspect.signature(self.prepare).parameters if self.prepare else {}
        return tuple(name for name in self.parameters if name in wanted)

    def shown(self) -> list[Facts | Table]:
        def line(one: Parameter) -> list[str]:
            kind = f"{one.type_name}{', per model' * one.per_model}"
            return [one.name, kind, "required" if one.required else str(one.default)]

        rows = list(map(line, self.parameters.values()))
        paper = [("paper", f"arXiv:{self.paper}")] if self.paper else []
        about = Facts([(self.kind, self.name), ("what", self.summary), *paper])
        return [about, *([Table(["parameter", "type", "default"], rows, left=(0, 1, 2))] if rows else [])]

    @property
    def doc(self) -> str:
        module = inspect.getmodule(self.function)
        return inspect.getdoc(self.function) or (inspect.getdoc(module) if module else None) or ""

    @property
    def summary(self) -> str:
        return self.doc.split("\n", 1)[0]

    def unit_for(self, parameters: Mapping[str, Any]) -> Unit:
        return self.unit(**_accepted(self.unit, parameters)) if callable(self.unit) else self.unit

    def space_for(self, parameters: Mapping[str, Any]) -> Space:
        return self.space(**_accepted(self.space, parameters)) if callable(self.space) else self.space

    def needs_base(self, parameters: Mapping[str, Any]) -> bool:
        return self.space_for(parameters) == "delta" or "base" in self.asks

    def fold_for(self, parameters: Mapping[str, Any]) -> Any:
        """The fold that this stage needs with these parameters, or None."""
        return self.prepare(**_accepted(self.prepare, parameters)) if self.prepare else None


stages: Registry[Stage] = Registry(
    "smelt.methods",
    own=lambda: modules_below(Path(__file__).parent, "smelt.methods"),
    home=lambda stage: stage.function.__module__,
)
"""Every registered stage by name. Filled by the decorators as their modules are loaded."""

F = TypeVar("F", bound=Callable[..., Any])


def _register(kind: Kind, name: str, **record: Any) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        known = stages.own(name)
        if known is not None and known.function.__qualname__ != function.__qualname__:
            raise SmeltError(f"two stages are named {name!r}: {known.function.__module__} and {function.__module__}")
        stage = Stage(name, kind, function, **record)
        if (stage.statistics is None) == ("statistics" in stage.asks):
            raise SmeltError(
                f"{name}: a stage that reads statistics says both which (statistics='fisher' in its decorator) and "
                "where it takes them (a positional argument named `statistics`)"
            )
        if stage.stretches and kind == "method" and "scale" not in stage.parameters:
            raise SmeltError(f"{name}: a method that stretches its change has a parameter named `scale`")
        stages[name] = stage
        return function

    return decorate


def merge_method(
    name: str,
    *,
    space: Space | Callable[..., Space] = "delta",
    unit: Unit | Callable[..., Unit] = "element",
    prepare: Callable[..., Any] | None = None,
    paper: str | None = None,
    models: tuple[int, int | None] = (1, None),
    statistics: str | None = None,
    elsewhere: Elsewhere = "mean",
    stretches: bool = False,
    exempt: Mapping[str, str] | None = None,
    latex: str = "",
) -> Callable[[F], F]:
    """Register `function(stack, ...) -> Tensor` under `name`.

    `space` says whether the stack holds weights or deltas from the base (the engine adds the base back). Like `unit`
    it may be a function of the parameters.
    A method whose `unit` is `matrix` sees linear layers whole; other tensors get the mean of the deltas (their sum with
    `elsewhere="sum"`), under the method's `scale` if it has one. In weight space they are averaged.
    A method with `statistics` asks for a positional argument of that name: one row per model, aligned with the stack
    (`[models, ...block]`), or for a whole matrix the whole statistic (`[models, in, in]` for a Gram matrix). A tensor
    that has no statistics in any model is treated like one that is no matrix. Statistics of whole matrices come in
    float64.
    `prepare` is a fold over the whole model, made from the method's parameters, that runs before the merge.
    `models` is the smallest and the largest number of models (None: any number). `paper` is an arXiv number,
    `latex` the equation as its page shows it.
    `stretches` promises that `scale` multiplies the merged change as the last thing that is done to it. Then a search
    merges once for all scales. `exempt` names the laws of `smelt.testing` that it does not keep, each with a reason.
    """
    return _register(
        "method",
        name,
        space=space,
        unit=unit,
        prepare=prepare,
        paper=paper,
        models=models,
        statistics=statistics,
        elsewhere=elsewhere,
        stretches=stretches,
        exempt=exempt or {},
        latex=latex,
    )


def merge_step(
    name: str,
    *,
    unit: Unit | Callable[..., Unit] = "element",
    prepare: Callable[..., Any] | None = None,
    paper: str | None = None,
    statistics: str | None = None,
    exempt: Mapping[str, str] | None = None,
    latex: str = "",
) -> Callable[[F], F]:
    """Register `function(deltas, ...) -> deltas` under `name`; it may stand before any method.

    `unit`, `prepare`, `paper`, `latex`, `statistics` and `exempt` as for `merge_method`.
    """
    more = {"exempt": exempt or {}, "latex": latex}
    return _register("step", name, unit=unit, prepare=prepare, paper=paper, statistics=statistics, **more)


def merge_wrapper(
    name: str,
    *,
    unit: Unit = "element",
    paper: str | None = None,
    stretches: bool = False,
    exempt: Mapping[str, str] | None = None,
    latex: str = "",
) -> Callable[[F], F]:
    """Register `function(merged, deltas, ...) -> merged` under `name`; it may stand after any method.

    `unit`, `paper`, `latex` and `exempt` as for `merge_method`. `stretches` says that it gives twice as much of twice
    as much: then a search still merges once for all scales.
    """
    return _register("wrapper", name, unit=unit, paper=paper, stretches=stretches, exempt=exempt or {}, latex=latex)


def merge_basis(
    name: str,
    *,
    back: Callable[..., Tensor],
    unit: Unit = "matrix",
    paper: str | None = None,
    stretches: bool = False,
    exempt: Mapping[str, str] | None = None,
    latex: str = "",
) -> Callable[[F], F]:
    """Register `function(deltas, ...) -> (coordinates, basis)`; `back(merged, basis)` undoes it after the method.

    `name`, `unit`, `paper`, `latex` and `exempt` as for `merge_method`, `stretches` as for a wrapper: it is asked of
    `back`.
    """
    more = {"exempt": exempt or {}, "latex": latex}
    return _register("basis", name, unit=unit, back=back, paper=paper, stretches=stretches, **more)


def _hints(function: Callable[..., Any], names: Collection[str]) -> dict[str, Any]:
    """The types of these arguments alone: those of the others name Tensor, and a plan needs no torch."""
    if isinstance(function, type):  # what learns with data may be a class; its fields are its arguments
        return get_type_hints(function, include_extras=True)

    def only() -> None: ...

    only.__annotations__ = {name: given for name, given in function.__annotations__.items() if name in names}
    return get_type_hints(only, inspect.unwrap(function).__globals__, include_extras=True)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    args = get_args(annotation)
    per_model = _PER_MODEL in args[1:]
    if per_model:
        rest = tuple(a for a in args[1:] if a is not _PER_MODEL)
        annotation = Annotated[(args[0], *rest)] if rest else args[0]
    return Parameter(name, annotation, default, per_model)


def _accepted(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    wanted = _names(function)
    return {name: value for name, value in parameters.items() if name in wanted}


@lru_cache(1024)
def _names(function: Callable[..., Any]) -> frozenset[str]:
    """Of its parameters: asked for every tensor of a plan."""
    return frozenset(inspect.signature(function).parameters)


def _type_name(annotation: Any) -> str:
    origin_args = get_args(annotation)
    if getattr(annotation, "__origin__", None) is Literal:
        return " | ".join(map(str, origin_args))
    if origin_args and not isinstance(annotation, type):
        inner = [a for a in origin_args if isinstance(a, type) or get_args(a)]
        name = " | ".join("none" if a is type(None) else _type_name(a) for a in inner)
        return _bounded(name, getattr(annotation, "__metadata__", ()))
    return getattr(annotation, "__name__", str(annotation))


def _bounded(name: str, notes: tuple[Any, ...]) -> str:
    """The type with the bounds that are noted beside it: `float > 0`, `0 < float <= 1`."""
    bounds = [one for note in notes for one in getattr(note, "metadata", (note,))]

    def bound(**signs: str) -> tuple[str, Any] | None:
        return next(
            ((sign, getattr(one, kind)) for kind, sign in signs.items() for one in bounds if hasattr(one, kind)), None
        )

    low, high = bound(gt="<", ge="<="), bound(lt="<", le="<=")
    if low and high:
        return f"{low[1]} {low[0]} {name} {high[0]} {high[1]}"
    if low:
        return f"{name} {low[0].replace('<', '>')} {low[1]}"
    return f"{name} {high[0]} {high[1]}" if high else name
