"""Values by the blocks of a diffusion model: `{blocks: [25 numbers]}` becomes a list of filters, which a plan tells.

    scale: {blocks: "0, 0.1, 0.2, ..."}             26 numbers for SD1.5: BASE, IN00 to IN11, M00, OUT00 to OUT11
    scale: {blocks: [0.1, 0.2, ...], outside: 0}    25, and what BASE is elsewhere: the number outside of the blocks

Numbers may be a list or, as they are passed around, a text with commas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from smelt.errors import RecipeError
from smelt.formats.diffusion.blocks import BASE_BLOCK, Blocks, blocks_of
from smelt.formats.source import Source
from smelt.recipe.patterns import matches
from smelt.recipe.schema import Recipe, StageCall

__all__ = ["with_block_values"]

_WORD, _OUTSIDE = "blocks", "outside"


def with_block_values(recipe: Recipe, reference: Source) -> tuple[Recipe, list[str]]:
    """The recipe with filters in the place of values by block, and what each came to, in sentences."""
    pipelines = [recipe.merge, *(part.merge for part in recipe.parts if part.merge)]
    if not any(_says_blocks(value) for calls in pipelines for call in calls for value in call.parameters.values()):
        return recipe, []
    blocks = blocks_of(reference.tensors)
    if blocks is None:
        raise RecipeError(
            f"{_WORD}: {reference.label} is no diffusion model whose blocks are known (those of SD1.5, SD2, SDXL and "
            "Flux are); write {depth: [...]} or a list of filters"
        )
    notes: list[str] = []
    converter = _Converter(blocks, reference, notes)
    merge = [converter.stage(call) for call in recipe.merge]
    parts = [
        part.model_copy(update={"merge": [converter.stage(call) for call in part.merge]}) if part.merge else part
        for part in recipe.parts
    ]
    return recipe.model_copy(update={"merge": merge, "parts": parts}), list(dict.fromkeys(notes))


def _says_blocks(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _WORD in value or any(map(_says_blocks, value.values()))
    return isinstance(value, list | tuple) and any(map(_says_blocks, value))


class _Converter:
    def __init__(self, blocks: Blocks, reference: Source, notes: list[str]):
        self._blocks, self._reference, self._notes = blocks, reference, notes

    def stage(self, call: StageCall) -> StageCall:
        values = {name: self._value(f"{call.name}.{name}", value) for name, value in call.parameters.items()}
        return call.model_copy(update={"parameters": values})

    def _value(self, where: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            if _WORD in value:
                if strange := value.keys() - {_WORD, _OUTSIDE}:
                    raise RecipeError(
                        f"{where}: expected {{{_WORD}: [numbers], {_OUTSIDE}: number}}, got {strange.pop()!r}"
                    )
                outside = _numbers(where, [value[_OUTSIDE]])[0] if _OUTSIDE in value else None
                return self._filters(where, _numbers(where, value[_WORD]), outside)
            return {name: self._value(f"{where}.{name}", inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(where, inner) for inner in value]
        return value

    def _filters(self, where: str, numbers: Sequence[float], outside: float | None) -> list[dict[str, Any]]:
        order = self._blocks.order(len(numbers))
        if order is None:
            wanted = " or ".join(f"{len(one)} numbers ({_shown(one)})" for one in self._blocks.orders)
            raise RecipeError(f"{where}: the blocks of {self._reference.label} take {wanted}, got {len(numbers)}")
        by_block = dict(zip(order, numbers, strict=True))
        if BASE_BLOCK in by_block and outside is not None:
            raise RecipeError(f"{where}: {len(order)} numbers say {BASE_BLOCK}, so `{_OUTSIDE}` is one too many")
        if BASE_BLOCK not in by_block:
            lost = self._outside(by_block)
            if outside is None and lost:
                raise RecipeError(
                    f"{where}: {len(order)} numbers ({_shown(order)}) leave {len(lost)} tensors outside of the blocks, "
                    f"{lost[0]} the first; write {{{_WORD}: [...], {_OUTSIDE}: NUMBER}}"
                )
            by_block[BASE_BLOCK] = numbers[0] if outside is None else outside
        self._notes.append(f"{where} by block: {', '.join(self._told(by_block))}")
        found = {pattern: by_block[block] for pattern, block in self._blocks.patterns.items() if block in by_block}
        return [
            *({"filter": pattern, "value": value} for pattern, value in found.items()),
            {"value": by_block[BASE_BLOCK]},
        ]

    def _outside(self, by_block: Mapping[str, float]) -> list[str]:
        """The tensors that are merged and have no number."""
        known = [*(pattern for pattern, block in self._blocks.patterns.items() if block in by_block)]
        left = [*known, *self._reference.unmerged]
        return [name for name in self._reference.tensors if not any(matches(pattern, name) for pattern in left)]

    def _told(self, by_block: Mapping[str, float]) -> Iterator[str]:
        """`IN00 to IN03 0.25 (62 tensors)`, blocks of one number together."""
        counts = dict.fromkeys(by_block, 0)
        for name in self._reference.tensors:
            if any(matches(pattern, name) for pattern in self._reference.unmerged):
                continue
            block = next((block for p, block in self._blocks.patterns.items() if matches(p, name)), None)
            counts[block if block in counts else BASE_BLOCK] += 1
        for value, run in groupby(by_block, key=by_block.__getitem__):
            blocks = list(run)
            who = blocks[0] if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]}"
            if count := sum(counts[block] for block in blocks):
                yield f"{who} {value:g} ({count} tensors)"


def _numbers(where: str, given: Any) -> list[float]:
    listed = given.split(",") if isinstance(given, str) else given
    try:
        if not isinstance(listed, list | tuple) or any(isinstance(one, bool) for one in listed):
            raise TypeError
        numbers = [float(one) for one in listed]
        if not all(map(math.isfinite, numbers)):
            raise ValueError
        return numbers
    except (TypeError, ValueError):
        raise RecipeError(f"{where}: {_WORD} are numbers, as a list or a text with commas, got {given!r}") from None


def _shown(order: Sequence[str]) -> str:
    """`BASE, IN00 to IN11, M00, OUT00 to OUT11`."""
    runs = [list(run) for _, run in groupby(order, key=lambda block: block.rstrip("0123456789"))]
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
