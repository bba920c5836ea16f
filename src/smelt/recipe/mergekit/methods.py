"""What each of mergekit's methods is in Smelt's words: the pipeline that computes the same thing, in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from smelt.errors import RecipeError, unknown
from smelt.recipe.mergekit.values import REQUIRED, MergekitSettings

__all__ = ["pipeline_of"]

Stages: TypeAlias = list[dict[str, Any]]
_Build: TypeAlias = Callable[[MergekitSettings, list[str], bool], Stages]


def pipeline_of(
    method: str, settings: MergekitSettings, listed: Sequence[str], base: str | None, *, sliced: bool = False
) -> tuple[Stages, list[str]]:
    """The pipeline of a mergekit method and the models it merges, in order.

    To a list of models mergekit adds the base, if it is not there; to the sources of a slice it adds nothing.
    """
    if method not in _METHODS:
        raise RecipeError(unknown("mergekit method", method, _METHODS))
    role, build = _METHODS[method]
    faults = settings.faults.found
    if role in ("required", "first") and base is None:
        faults.append(f"{method} needs a base_model")
    if sliced and role != "counted" and role != "none" and base is not None and base not in listed:
        faults.append(f"{method} needs the base_model among the sources of every slice, with its layers")
    others = [name for name in listed if name != base]
    if role in ("required", "optional"):
        models = others if base is not None else list(listed)
    elif role == "first":
        models = [name for name in [base, *others] if name is not None]
    elif role == "counted" and not sliced:
        models = list(listed) if base is None or base in listed else [*listed, base]
    else:
        models = list(listed)
    if not models:
        faults.append(f"{method} has no model to merge beside the base")
        settings.faults.refuse()
    stages = build(settings, models, base is not None)
    settings.finish()
    return stages, models


def _linear(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    # mergekit wants a weight for the base too, where it is given: it is one of the models
    return [{"average": {"weights": s.each("weight", models, REQUIRED), "normalize": s.flag("normalize", True)}}]


def _slerp(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"slerp": {"t": s.shared("t", REQUIRED)}}]


def _nuslerp(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    flatten, columns = s.fixed("nuslerp_flatten", True), s.fixed("nuslerp_row_wise", False)
    over = "tensor" if flatten else "column" if columns else "row"
    return [{"nuslerp": {"weights": s.each("weight", models, REQUIRED), "over": over, "around": _around(base)}}]


def _multislerp(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    s.ignore("eps")
    weights, normalize = s.each("weight", models, REQUIRED), s.flag("normalize_weights", True)
    return [{"multislerp": {"weights": weights, "normalize": normalize, "around": _around(base)}}]


def _karcher(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"karcher": {"iterations": s.shared("max_iter", 10), "tolerance": s.shared("tol", 1e-5)}}]


def _around(base: bool) -> Literal["base", "origin"]:
    return "base" if base else "origin"


def _model_stock(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"model_stock": {"over": s.choice("filter_wise", False, "row", "tensor"), "floor": 1e-6}}]


def _sce(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"sce": {"density": s.shared("select_topk", 1.0), "tie": "positive", "equal_below": 1e-6}}]


def _ram(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"ram": {"epsilon": s.shared("epsilon", 1e-5)}}]


def _ram_plus(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    values = {"r": s.shared("r", 0.1), "limit": s.shared("alpha", 0.2), "epsilon": s.shared("epsilon", 1e-5)}
    return [{"ram_plus": values}]


def _nearswap(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"nearswap": {"t": s.shared("t", REQUIRED)}}]


def _arcee_fusion(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"arcee_fusion": {}}]


def _passthrough(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    return [{"passthrough": {"scale": s.each("scale", models, 1.0)}}]


def _sum(s: MergekitSettings, models: list[str], normalize: bool) -> dict[str, Any]:
    """Mergekit's weighted sum of changes."""
    return {
        "task_arithmetic": {
            "weights": s.each("weight", models, REQUIRED),
            "scale": s.shared("lambda", 1.0),
            "normalize": s.flag("normalize", normalize),
        }
    }


def _vote(s: MergekitSettings, models: list[str], normalize: bool) -> dict[str, Any]:
    """Mergekit's sign election: per entry by mass, ties positive, and no trim of its own."""
    return {
        "ties": {
            "density": 1.0,
            "weights": s.each("weight", models, REQUIRED),
            "scale": s.shared("lambda", 1.0),
            "merge": s.choice("normalize", normalize, "mean", "sum"),
            "tie": "positive",
        }
    }


def _rescale(s: MergekitSettings, default: bool) -> Any:
    """Mergekit rescales what is left to the L1 norm of the whole tensor."""
    return s.choice("rescale", default, "l1", "none")


def _task_arithmetic(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    s.ignore("density", "rescale")
    return [_sum(s, models, False)]


def _ties(s: MergekitSettings, models: list[str], base: bool) -> Stages:
    density, rescale = s.each("density", models, 1.0), _rescale(s, False)
    if rescale != "none":
        return [{"trim": {"density": density, "trim": "tensor", "rescale": rescale}}, _vote(s, models, True)]
    vote = _vote(s, models, True)
    return [{"ties": {**vote["ties"], "density": density, "trim": "tensor"}}]


def _dare(finish: Callable[[MergekitSettings, list[str], bool], dict[str, Any]]) -> _Build:
    def build(s: MergekitSettings, models: list[str], base: bool) -> Stages:
        values = {"density": s.each("density", models, 1.0), "rescale": _rescale(s, True)}
        return [{"dare": values}, finish(s, models, False)]

    return build


def _della(finish: Callable[[MergekitSettings, list[str], bool], dict[str, Any]], normalize: bool) -> _Build:
    def build(s: MergekitSettings, models: list[str], base: bool) -> Stages:
        window = s.each("epsilon", models, 0.15, _window)
        values = {"density": s.each("density", models, 1.0), "window": window, "rescale": _rescale(s, True)}
        return [{"della": values}, finish(s, models, normalize)]

    return build


def _breadcrumbs(finish: Callable[[MergekitSettings, list[str], bool], dict[str, Any]]) -> _Build:
    def build(s: MergekitSettings, models: list[str], base: bool) -> Stages:
        density, top = s.each("density", models, 1.0), s.each("gamma", models, 0.01)
        return [
            {"breadcrumbs": {"density": density, "top": top, "rescale": _rescale(s, False)}},
            finish(s, models, False),
        ]

    return build


def _window(epsilon: float) -> float:
    """Mergekit's epsilon is half of our window. Ours is never empty: at 0 all chances are the density."""
    return max(2 * epsilon, 1e-9)


# What the base is to a method: required or optional (the origin of changes), first (slerp's first model), counted (one
# of the models merged), none (it only lends config and tokenizer).
_METHODS: dict[str, tuple[str, _Build]] = {
    "linear": ("counted", _linear),
    "slerp": ("first", _slerp),
    "nuslerp": ("optional", _nuslerp),
    "multislerp": ("optional", _multislerp),
    "karcher": ("counted", _karcher),
    "task_arithmetic": ("required", _task_arithmetic),
    "ties": ("required", _ties),
    "dare_linear": ("required", _dare(_sum)),
    "dare_ties": ("required", _dare(_vote)),
    "della": ("required", _della(_vote, True)),
    "della_linear": ("required", _della(_sum, False)),
    "breadcrumbs": ("required", _breadcrumbs(_sum)),
    "breadcrumbs_ties": ("required", _breadcrumbs(_vote)),
    "model_stock": ("required", _model_stock),
    "sce": ("required", _sce),
    "ram": ("required", _ram),
    "ramplus_tl": ("required", _ram_plus),
    "nearswap": ("required", _nearswap),
    "arcee_fusion": ("required", _arcee_fusion),
    "passthrough": ("none", _passthrough),
}
