"""What a method that looks at data needs before the merge: memory where the model computes, main memory, disk, passes.

In: a planned pool of language models and the stages that were asked for. Out: one `Looking` for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.formats.config import read_config

if TYPE_CHECKING:
    from smelt.formats.source import Source
    from smelt.measurement.needs import Method
    from smelt.recipe.schema import StageCall

__all__ = ["Looking", "is_language_model", "looking_needs"]

_LIKE: dict[str, Method] = {"fisher": "fisher", "regmean": "regmean", "regmean_pp": "regmean", "localize": "localize"}
_WHERE_CHANGES_LIE = ("deltas", "delta_dtype")
"""Parameters of `localize` that change how much memory it takes, and no number of the result but by rounding."""
_EXAMPLES, _TOKENS = 1000, 512
"""What is counted with where the recipe does not say: the paper's budget, and texts of an ordinary length."""


@dataclass(frozen=True)
class Looking:
    """The needs of one method, in bytes, for one model at a time."""

    method: str
    examples: int
    tokens: int
    device: int
    main: int
    disk: int
    """Of the statistics of all models, and the change of one where it lies there."""
    passes: int
    note: str


def looking_needs(
    stages: Iterable[StageCall], reference: Source, models: int, examples: int | None = None
) -> list[Looking]:
    """For a language model; of other kinds nothing is said."""
    asked = [stage for stage in stages if stage.name in _LIKE]
    if not asked or not is_language_model(reference):
        return []
    from smelt.measurement.needs import memory_needs

    shapes = {name: info.shape for name, info in reference.tensors.items()}
    count = examples or _EXAMPLES
    found = []
    for stage in asked:
        where: Any = {word: stage.parameters[word] for word in _WHERE_CHANGES_LIE if word in stage.parameters}
        needs = memory_needs(shapes, _LIKE[stage.name], examples=count, tokens=_TOKENS, device="cuda", **where)
        found.append(
            Looking(
                stage.name,
                count,
                _TOKENS,
                needs.device,
                needs.total - needs.device,
                models * needs.disk + needs.scratch,
                needs.passes,
                needs.note,
            )
        )
    return found


def is_language_model(source: Source) -> bool:
    """By its config, or by being one of the known sizes."""
    from smelt.formats.shapes import ShapeSource

    kinds = (read_config(source.folder) or {}).get("architectures") or [""]
    return isinstance(source, ShapeSource) or str(kinds[0]).endswith(("ForCausalLM", "LMHeadModel"))
