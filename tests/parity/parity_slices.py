"""Cases about structure: slices, modules, precedence of parameters, storage types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parity_cases import ATTENTION_FIRST, NO_CATCH_ALL, Case, config, models


def source(model: str, first: int, end: int, **parameters: Any) -> dict[str, Any]:
    return {"model": model, "layer_range": [first, end], **({"parameters": parameters} if parameters else {})}


def sliced(method: str, slices: list[dict[str, Any]], base: str | None = None, **rest: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {"merge_method": method, "slices": slices}
    if base is not None:
        whole["base_model"] = base
    if rest:
        whole["parameters"] = {key.rstrip("_"): value for key, value in rest.items()}
    return whole


def structural() -> Iterator[Case]:
    """Deterministic cases in which the shape of the configuration is the point."""
    yield from _frankenmerges()
    yield from _merged_slices()
    yield from _modules()


def _frankenmerges() -> Iterator[Case]:
    stacked = [{"sources": [source("cars", 0, 3)]}, {"sources": [source("birds", 1, 4)]}]
    yield Case("passthrough", "slices: six layers of two models", sliced("passthrough", stacked))
    yield Case("passthrough", "slices: with a base_model", sliced("passthrough", stacked, "base"))
    one = [
        {"sources": [source("cars", 0, 2)]},
        {"sources": [source("cars", 0, 4)]},
        {"sources": [source("cars", 3, 4)]},
    ]
    yield Case("passthrough", "slices: layers of one model repeated", sliced("passthrough", one))
    silent = source("birds", 1, 3, scale=[{"filter": "o_proj", "value": 0.0}, {"filter": "down_proj", "value": 0.0}])
    yield Case("passthrough", "slices: silenced layers", sliced("passthrough", [stacked[0], {"sources": [silent]}]))


def _merged_slices() -> Iterator[Case]:
    pair = [source("base", 0, 2), source("cars", 0, 2)]
    rest = [source("base", 2, 4), source("cars", 2, 4)]
    t = {"parameters": {"t": [0.1, 0.6]}}
    yield Case(
        "slerp", "slices: t of each", sliced("slerp", [{"sources": pair, **t}, {"sources": rest}], "base", t=0.8)
    )
    by_name = [{"filter": "self_attn", "value": [0.2, 0.9]}, {"value": 0.4}]
    yield Case(
        "slerp",
        "slices: gradient runs over each slice",
        sliced("slerp", [{"sources": pair}, {"sources": rest}], "base", t=by_name),
    )
    shifted = [{"sources": [source("base", 0, 3), source("cars", 1, 4)]}]
    yield Case("slerp", "slices: different layers together", sliced("slerp", shifted, "base", t=0.3))
    single = [{"sources": [source("base", n, n + 1), source("cars", n, n + 1)]} for n in range(3)]
    yield Case(
        "slerp",
        "slices: one layer each, gradients end at their last value",
        sliced("slerp", single, "base", t=[0, 0.4, 0.9]),
    )

    def three(first: int, end: int, **own: Any) -> list[dict[str, Any]]:
        return [source("base", first, end), source("cars", first, end, **own), source("birds", first, end)]

    slices = [
        {"sources": three(0, 2, weight=NO_CATCH_ALL), "parameters": {"weight": [{"filter": "mlp", "value": 0.1}]}},
        {"sources": three(1, 4)},
    ]
    yield Case(
        "task_arithmetic",
        "slices: source before slice before global",
        sliced("task_arithmetic", slices, "base", weight=ATTENTION_FIRST, lambda_=0.9),
    )
    lifted = [
        {"sources": three(0, 2), "parameters": {"lambda": 0.5, "normalize": False}},
        {"sources": three(2, 4), "parameters": {"density": 0.3}},
    ]
    yield Case(
        "ties",
        "slices: lambda, normalize and density of a slice",
        sliced("ties", lifted, "base", weight=0.7, density=0.6),
    )
    moved = [
        {
            "sources": [
                source("base", 0, 2),
                source("cars", 1, 3, weight=1, density=0.5),
                source("birds", 2, 4, weight=0.5, density=0.5),
            ]
        }
    ]
    yield Case("ties", "slices: three models at three depths", sliced("ties", moved, "base"))
    by_layer = [{"filter": "layers.1.", "value": 0.9}, {"value": 0.2}]
    deep = [{"sources": [source("cars", 1, 3, weight=by_layer), source("birds", 0, 2, weight=0.5)]}]
    yield Case("linear", "slices: a model's filter sees that model's own names", sliced("linear", deep))
    yield Case(
        "linear",
        "slices: base_model outside the sources is not counted",
        sliced("linear", [{"sources": three(0, 4)[1:]}], "base", weight=0.5),
    )
    yield Case(
        "karcher",
        "slices: base_model outside the sources is not counted",
        sliced("karcher", [{"sources": three(0, 4)[1:]}], "base"),
        delicate="angles below 3e-4 are rounding errors in float32",
    )


def _modules() -> Iterator[Case]:
    module = {"models": models("cars", "birds", weight=[0.3, None]), "parameters": {"weight": 0.6}}
    whole = {
        "merge_method": "task_arithmetic",
        "base_model": "base",
        "modules": {"default": module},
        "parameters": {"weight": 5.0, "lambda": 0.8},
    }
    yield Case("task_arithmetic", "modules: module before global", whole)
    slices = {"slices": [{"sources": [source("cars", 0, 2)]}, {"sources": [source("birds", 0, 4)]}]}
    yield Case("passthrough", "modules: slices", {"merge_method": "passthrough", "modules": {"default": slices}})


def stored() -> Iterator[Case]:
    """dtype and out_dtype. Whoever computes in float32 rounds once: equal to the last bit, or next to it."""
    three = ("cars", "birds", "ships")
    each = {"weight": [0.2, 0.5, 1.1], "density": [0.5, 0.5, 0.5]}
    for method, values in (
        ("linear", {"weight": each["weight"]}),
        ("ties", each),
        ("task_arithmetic", {"weight": each["weight"]}),
    ):
        base = None if method == "linear" else "base"
        full = config(method, models(*three, **values), base, dtype="float32", out_dtype="bfloat16")
        yield Case(method, "dtype float32, out_dtype bfloat16", full, tolerance=2**-7)
    yield Case(
        "slerp",
        "dtype float32, out_dtype float16",
        config("slerp", models("base", "cars"), t=0.4, dtype="float32", out_dtype="float16"),
        tolerance=2**-9,
    )
    yield Case(
        "linear", "dtype float32", config("linear", models(*three, weight=each["weight"]), None, dtype="float32")
    )
    yield Case(
        "linear",
        "dtype torch.float32",
        config("linear", models(*three, weight=each["weight"]), None, dtype="torch.float32"),
    )
    halves = ("half_cars", "half_birds", "half_ships")
    yield Case(
        "linear",
        "bfloat16 models, nothing said",
        config("linear", models(*halves, weight=each["weight"]), None),
        tolerance=2**-7,
    )
    wide = config("task_arithmetic", models(*halves, weight=each["weight"]), "half_base", dtype="float32")
    yield Case("task_arithmetic", "bfloat16 models, dtype float32", wide)
    back = config(
        "task_arithmetic", models(*halves, weight=each["weight"]), "half_base", dtype="float32", out_dtype="bfloat16"
    )
    yield Case("task_arithmetic", "bfloat16 models, dtype float32, out_dtype bfloat16", back, tolerance=2**-7)
