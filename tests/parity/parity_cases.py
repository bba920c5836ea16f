"""The configurations that both tools are given, as mergekit writes them; models are named, paths come later.

A case holds for two pools: fine-tunes of the usual size, and models that went far (`FAR_NAMES`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FAR_NAMES = {"cars": "far", "birds": "farther"}
ATTENTION_FIRST = [{"filter": "self_attn", "value": 0.8}, {"filter": "mlp", "value": 0.3}, {"value": 0.5}]
NO_CATCH_ALL = [{"filter": "q_proj", "value": 0.9}, {"filter": "up_proj", "value": 0.2}]


@dataclass(frozen=True)
class Case:
    method: str
    name: str
    config: Mapping[str, Any] = field(repr=False)
    tolerance: float = 1e-6
    """Largest allowed difference, relative to a tensor's largest entry."""
    delicate: str = ""
    """Why mergekit's own float32 is no measure here; the case is then compared with its float64."""

    @property
    def id(self) -> str:
        return f"{self.method}: {self.name}"

    def on(self, models: Mapping[str, Path], far: bool = False) -> dict[str, Any]:
        """The configuration with paths in place of names."""
        names = {name: FAR_NAMES.get(name, name) if far else name for name in models}
        return _located(self.config, {name: str(models[names[name]]) for name in models})


def _located(value: Any, paths: Mapping[str, str], key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {k: _located(v, paths, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_located(v, paths) for v in value]
    places = ("model", "base_model", "tokenizer_source", "source")
    return paths.get(value, value) if key in places and isinstance(value, str) else value


def models(*names: str, **values: Any) -> list[dict[str, Any]]:
    """`models("cars", "birds", weight=[1, 2])`: a list of models, each with its own value of every parameter."""
    entries: list[dict[str, Any]] = [{"model": name} for name in names]
    for number, entry in enumerate(entries):
        own = {key: given[number] for key, given in values.items() if given[number] is not None}
        if own:
            entry["parameters"] = own
    return entries


def config(method: str, entries: list[dict[str, Any]], base: str | None = "base", **rest: Any) -> dict[str, Any]:
    """A whole configuration; keywords that are no top-level key of mergekit are its global parameters."""
    top = {key: rest.pop(key) for key in ("dtype", "out_dtype", "tokenizer_source", "chat_template") if key in rest}
    whole: dict[str, Any] = {"merge_method": method, "models": entries, **top}
    if base is not None:
        whole["base_model"] = base
    if rest:
        whole["parameters"] = {key.rstrip("_"): value for key, value in rest.items()}
    return whole


def deterministic() -> Iterator[Case]:
    """Every method without chance, with each form of its parameters."""
    yield from _averages()
    yield from _spherical()
    yield from _task_arithmetic()
    yield from _ties()
    yield from _breadcrumbs()
    yield from _others()


def _averages() -> Iterator[Case]:
    three = ("cars", "birds", "ships")
    yield Case("linear", "equal weights", config("linear", models(*three, weight=[1, 1, 1]), None))
    yield Case("linear", "weights per model", config("linear", models(*three, weight=[0.2, 0.5, 1.1]), None))
    yield Case(
        "linear", "not normalised", config("linear", models(*three, weight=[0.2, 0.3, 0.4]), None, normalize=False)
    )
    yield Case("linear", "negative weight", config("linear", models("cars", "birds", weight=[1.5, -0.5]), None))
    gradients = models(*three, weight=[[0.1, 0.9], [1, 0.5, 0.2, 0.4, 1], 0.3])
    yield Case("linear", "gradients over layers", config("linear", gradients, None))
    yield Case(
        "linear", "filters with catch-all", config("linear", models(*three, weight=[ATTENTION_FIRST, 1, 0.4]), None)
    )
    partial = config("linear", models(*three, weight=[NO_CATCH_ALL, 1, None]), None, weight=0.7)
    yield Case("linear", "filters without catch-all, rest from global", partial)
    listed = config("linear", models("base", "cars", weight=[0.4, 0.8]))
    yield Case("linear", "base listed with a weight", listed)
    yield Case(
        "linear",
        "base not listed, global weight",
        config("linear", models("cars", "birds", weight=[0.4, None]), weight=0.7),
    )
    flags = [{"filter": "mlp", "value": False}, {"value": True}]
    yield Case(
        "linear", "normalize by filter", config("linear", models(*three, weight=[0.2, 0.3, 0.4]), None, normalize=flags)
    )
    text = config("linear", models("cars", "birds", weight=["2e-1", "8e-1"]), None)
    yield Case("linear", "numbers in scientific notation", text)
    yield Case("passthrough", "one model", config("passthrough", models("cars"), None))
    scaled = config(
        "passthrough",
        models("cars", scale=[[{"filter": "o_proj", "value": 0.5}, {"filter": "down_proj", "value": [1, 2]}]]),
        None,
    )
    yield Case("passthrough", "scale by filter, none elsewhere", scaled)


def _spherical() -> Iterator[Case]:
    pair = ("cars", "birds")
    yield Case("slerp", "base not listed", config("slerp", models("cars"), t=0.3))
    yield Case("slerp", "base listed last", config("slerp", models("cars", "base"), t=0.3))
    yield Case("slerp", "gradient", config("slerp", models("base", "cars"), t=[0, 0.5, 0.3, 0.7, 1]))
    by_name = [
        {"filter": "self_attn", "value": [0, 0.5, 0.3, 0.7, 1]},
        {"filter": "mlp", "value": [1, 0.5, 0.7, 0.3, 0]},
        {"value": 0.5},
    ]
    yield Case("slerp", "gradients by filter", config("slerp", models("base", "cars"), t=by_name))
    yield Case("slerp", "outside 0..1", config("slerp", models("base", "cars"), t=1.3))
    for base in (None, "base"):
        where = "around the base" if base else "no base"
        for flags in (
            {},
            {"nuslerp_flatten": False},
            {"nuslerp_flatten": False, "nuslerp_row_wise": True},
            {"nuslerp_row_wise": True},
        ):
            said = (
                ", ".join(f"{key.removeprefix('nuslerp_')} {value}".lower() for key, value in flags.items())
                or "defaults"
            )
            yield Case(
                "nuslerp", f"{where}, {said}", config("nuslerp", models(*pair, weight=[0.3, 0.9]), base, **flags)
            )
        three = models("cars", "birds", "ships", weight=[0.2, 0.5, 0.8])
        yield Case("multislerp", f"{where}", config("multislerp", three, base))
        yield Case(
            "multislerp", f"{where}, weights as they are", config("multislerp", three, base, normalize_weights=False)
        )
        yield Case("multislerp", f"{where}, one model", config("multislerp", models("cars", weight=[1]), base))
    yield Case("nuslerp", "base listed", config("nuslerp", models("base", *pair, weight=[None, 0.3, 0.9])))
    yield Case("nuslerp", "gradient weights", config("nuslerp", models(*pair, weight=[[0.1, 1], 0.5]), None))
    small = "angles below 3e-4 are rounding errors in float32"
    yield Case("karcher", "no base", config("karcher", models("cars", "birds", "ships"), None), delicate=small)
    yield Case("karcher", "base not listed is counted", config("karcher", models("cars", "birds")), delicate=small)
    few = config("karcher", models("base", "cars", "birds"), max_iter=2, tol=1e-7)
    yield Case("karcher", "base listed, two iterations", few, delicate=small)


def _task_arithmetic() -> Iterator[Case]:
    three = ("cars", "birds", "ships")
    weights = {"weight": [0.2, 0.5, 1.1]}
    yield from _common("task_arithmetic", {})
    listed = models("base", *three, weight=[0.7, 0.2, 0.5, 1.1])
    yield Case("task_arithmetic", "base listed with a weight", config("task_arithmetic", listed))
    yield Case(
        "task_arithmetic",
        "density is ignored",
        config("task_arithmetic", models(*three, **weights, density=[0.1, 0.2, 0.3])),
    )


def _common(method: str, extra: Mapping[str, list[Any]]) -> Iterator[Case]:
    """The parameters that all methods of the task-arithmetic family share."""
    three = ("cars", "birds", "ships")
    each = {"weight": [0.2, 0.5, 1.1], **extra}
    yield Case(method, "weights per model", config(method, models(*three, **each)))
    yield Case(method, "normalize true, lambda", config(method, models(*three, **each), normalize=True, lambda_=0.7))
    yield Case(
        method,
        "normalize false, lambda by gradient",
        config(method, models(*three, **each), normalize=False, lambda_=[0.3, 1.5]),
    )
    yield Case(
        method,
        "negative weights",
        config(method, models(*three, **{**each, "weight": [1.0, -0.4, 0.5]}), normalize=False),
    )
    yield Case(method, "one model", config(method, models("cars", **{key: [value[0]] for key, value in each.items()})))
    gradients = {**each, "weight": [[0.1, 0.9], ATTENTION_FIRST, [1.1]]}
    yield Case(method, "weights by gradient and filter", config(method, models(*three, **gradients), int8_mask=True))
    partial = {**each, "weight": [NO_CATCH_ALL, None, None]}
    yield Case(
        method,
        "filters without catch-all, rest from global",
        config(method, models(*three, **partial), weight=[{"filter": "mlp", "value": 0.25}, {"value": 0.6}]),
    )


def _ties() -> Iterator[Case]:
    three = ("cars", "birds", "ships")
    densities = {"density": [0.1, 0.5, 0.9]}
    each = {"weight": [0.2, 0.5, 1.1], **densities}
    yield from _common("ties", densities)
    yield Case("ties", "no trim", config("ties", models(*three, weight=[1, 1, 1])))
    sums = "mergekit adds up magnitudes in float32"
    yield Case("ties", "rescale", config("ties", models(*three, **each), rescale=True), delicate=sums, tolerance=1e-5)
    yield Case(
        "ties", "negative weights, normalised", config("ties", models(*three, **{**each, "weight": [1.0, -0.4, 0.5]}))
    )
    yield Case("ties", "weight zero", config("ties", models(*three, **{**each, "weight": [0.0, 0.4, 0.5]})))
    varied = {**each, "density": [[1, 0.7, 0.1], NO_CATCH_ALL, ATTENTION_FIRST]}
    yield Case("ties", "density by gradient and filter", config("ties", models(*three, **varied)))
    yield Case(
        "ties",
        "density so small that one entry stays",
        config("ties", models(*three, **{**each, "density": [1e-5] * 3})),
    )
    yield Case(
        "ties",
        "base listed",
        config("ties", models("base", *three, weight=[None, 1, 1, 1], density=[None, 0.3, 0.3, 0.3])),
    )


def _breadcrumbs() -> Iterator[Case]:
    three = ("cars", "birds", "ships")
    for method in ("breadcrumbs", "breadcrumbs_ties"):
        each = {"weight": [0.2, 0.5, 1.1], "density": [0.5, 0.8, 0.3], "gamma": [0.01, 0.1, 0.05]}
        yield from _common(method, {"density": each["density"], "gamma": each["gamma"]})
        yield Case(
            method, "default gamma, small tensors", config(method, models(*three, weight=[1, 1, 1], density=[0.9] * 3))
        )
        yield Case(method, "gamma zero", config(method, models(*three, **{**each, "gamma": [0, 0.0, 0]})))
        yield Case(
            method,
            "density and gamma above one together",
            config(method, models(*three, **{**each, "density": [0.95] * 3, "gamma": [0.2] * 3})),
        )
        sums = "mergekit adds up magnitudes in float32"
        yield Case(
            method, "rescale", config(method, models(*three, **each), rescale=True), delicate=sums, tolerance=1e-5
        )
        varied = {**each, "density": [[1, 0.5], ATTENTION_FIRST, 0.4], "gamma": [[0.0, 0.1], 0.1, NO_CATCH_ALL]}
        yield Case(method, "density and gamma by gradient and filter", config(method, models(*three, **varied)))


def _others() -> Iterator[Case]:
    three = ("cars", "birds", "ships")
    yield Case("model_stock", "whole tensors", config("model_stock", models(*three)))
    yield Case("model_stock", "base listed", config("model_stock", models("base", *three)))
    yield Case("model_stock", "two models", config("model_stock", models("cars", "birds")))
    yield Case("model_stock", "filter-wise", config("model_stock", models(*three), filter_wise=True))
    by_name = [{"filter": "mlp", "value": True}, {"value": False}]
    yield Case("model_stock", "filter-wise by filter", config("model_stock", models(*three), filter_wise=by_name))
    for share in (1.0, 0.1, [1.0, 0.1]):
        yield Case("sce", f"select_topk {share}", config("sce", models(*three), select_topk=share))
    yield Case("sce", "one model", config("sce", models("cars")))
    yield Case("sce", "int8_mask", config("sce", models(*three), select_topk=0.5, int8_mask=True))
    partly = models("partly_cars", "partly_birds", "partly_ships")
    yield Case("sce", "many entries unchanged", config("sce", partly, select_topk=0.3))
    for epsilon in ({}, {"epsilon": 1e-4}, {"epsilon": [1e-6, 1e-3]}):
        said = f"epsilon {epsilon['epsilon']}" if epsilon else "defaults"
        yield Case("ram", said, config("ram", models(*three), **epsilon))
        yield Case("ramplus_tl", said, config("ramplus_tl", models(*three), **epsilon))
    yield Case("ramplus_tl", "r and alpha", config("ramplus_tl", models(*three), r=0.5, alpha=2.0, epsilon=3e-4))
    for t in (1e-5, 1e-3, [1e-5, 1e-2], [0, 1e-3], [*NO_CATCH_ALL, {"value": 2e-5}]):
        said = "by filter" if isinstance(t, list) and isinstance(t[0], dict) else str(t)
        yield Case("nearswap", f"t {said}", config("nearswap", models("cars"), t=t))
    noise = "the divergence of two softmaxes loses its digits in float32"
    yield Case("arcee_fusion", "below a million entries", config("arcee_fusion", models("cars")), delicate=noise)
