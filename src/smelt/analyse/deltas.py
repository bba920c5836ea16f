"""The models' changes from their base, streamed block by block in float32, the arithmetic of the engine.

In: an open pool and patterns of names. Out: blocks as the merge methods see them. Never more than a few million
numbers at once, however large the models are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from smelt.caller import base_word, option
from smelt.engine.pool import BASE, ModelPool
from smelt.errors import IncompatibleModels, NumericalError, RecipeError
from smelt.files.reading import natural
from smelt.formats import dtype as dtypes
from smelt.formats.architecture.layout import Layout
from smelt.formats.source import Source
from smelt.ops.block import Block, Place
from smelt.recipe.patterns import chosen, matches
from smelt.system.process import usable_cores
from smelt.system.progress import Progress

__all__ = ["Deltas", "Patterns", "chosen_keys"]

Patterns = str | Sequence[str] | None
"""One shell pattern of tensor names, several, or none."""

_STACK = 1 << 22
"""Numbers that all models of a block have together: 16 MB in float32 and twice as much in float64."""
_SHOWN = 5


@dataclass(frozen=True)
class Chosen:
    """The tensors that are compared, and the floating-point ones that some model lacks."""

    keys: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.left_out:
            return ()
        names = ", ".join(map(repr, self.left_out[:_SHOWN])) + (", ..." if len(self.left_out) > _SHOWN else "")
        return (f"left out {len(self.left_out)} tensors that not every model has: {names}",)


def chosen_keys(pool: ModelPool, keys: Patterns = None, skip: Patterns = None) -> Chosen:
    """The floating-point tensors that all models (and the base) share, by `keys` and not by `skip`.

    Another shape or a pattern that matches nothing is refused.
    """
    wanted, unwanted = _listed(keys), _listed(skip)
    names = sorted({name for source in pool.all.values() for name in source.tensors}, key=natural)
    for pattern in (*wanted, *unwanted):
        if not any(matches(pattern, name) for name in names):
            raise RecipeError(f"the pattern {pattern!r} matches no tensor (names look like {_example(names)!r})")
    names = [name for name in names if chosen(name, wanted, unwanted) and _is_float(pool, name)]
    shared = [n for n in names if all(n in source.tensors for source in pool.all.values())]
    faults = [fault for name in shared if (fault := _shape_fault(pool, name))]
    if faults:
        raise IncompatibleModels(faults, cannot="be compared")
    if not shared:
        raise RecipeError(f"{', '.join(pool.all)} share no floating-point tensor that was asked for")
    return Chosen(tuple(shared), tuple(name for name in names if name not in set(shared)))


class Deltas:
    """Every chosen tensor's changes, one row per model. Iterate as often as passes are needed.

    A block's numbers live in a buffer that the next block overwrites.
    """

    def __init__(self, pool: ModelPool, keys: Patterns = None, skip: Patterns = None, *, quiet: bool = True):
        if pool.base is None:
            raise RecipeError(f"task vectors are changes from a base, and none is given: {base_word()}")
        self._base, self._models, self._quiet = pool.base, dict(pool.models), quiet
        self._chosen = chosen_keys(pool, keys, skip)
        self._layout = Layout.of(self._chosen.keys)
        self.names = tuple(pool.models)
        self.keys, self.notes = self._chosen.keys, self._chosen.notes
        self.parameters = sum(pool.base.tensors[key].count for key in self.keys)

    def __iter__(self) -> Iterator[Block]:
        size = max(1024, _STACK // (len(self.names) + 1))
        longest = max(self._base.tensors[key].count for key in self.keys)
        buffer = torch.empty(len(self.names) + 1, min(size, max(1, longest)))
        sources = [*self._models.values(), self._base]
        with Progress(self._quiet) as progress, ThreadPoolExecutor(usable_cores()) as workers:
            progress.begin("comparing", sum(s.tensors[key].nbytes for key in self.keys for s in sources))
            for place in self._places(size):
                rows = buffer[:, : place.stop - place.start]
                list(workers.map(_read, sources, rows, [place] * len(sources)))
                stack, base = rows[:-1], rows[-1]
                stack.sub_(base)
                self._check_finite(stack, place, base)
                yield Block(stack, base, place)
                progress.advance(sum(_bytes(source, place) for source in sources))

    def _places(self, size: int) -> Iterator[Place]:
        for order, key in enumerate(self.keys):
            info, depth = self._base.tensors[key], self._layout.depth(key)
            for start in range(0, info.count, size):
                yield Place(key, order, info.shape, start, min(start + size, info.count), depth, self.names)

    def _check_finite(self, stack: torch.Tensor, place: Place, base: torch.Tensor) -> None:
        if math.isfinite(float(stack.sum())):
            return
        rows = {BASE: base, **dict(zip(self.names, stack, strict=True))}
        sick = next((name for name, row in rows.items() if not bool(torch.isfinite(row).all())), None)
        if sick is not None:
            raise NumericalError(
                f"{place.key!r} of {sick} holds NaN or infinity (or differs from the base beyond float32); "
                f"leave it out with {option('skip', place.key)}"
            )


def _read(source: Source, row: torch.Tensor, place: Place) -> None:
    source.read(place.key, place.start, row)


def _bytes(source: Source, place: Place) -> int:
    return (place.stop - place.start) * dtypes.item_size(source.tensors[place.key].dtype)


def _listed(patterns: Patterns) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns or ())


def _example(names: Sequence[str]) -> str:
    return names[len(names) // 2] if names else ""


def _is_float(pool: ModelPool, name: str) -> bool:
    return all(s.tensors[name].dtype in dtypes.FLOATS for s in pool.all.values() if name in s.tensors)


def _shape_fault(pool: ModelPool, key: str) -> str | None:
    shapes: dict[tuple[int, ...], list[str]] = {}
    for name, source in pool.all.items():
        shapes.setdefault(source.tensors[key].shape, []).append(name)
    if len(shapes) == 1:
        return None
    text = " but ".join(f"{shape} in {', '.join(names)}" for shape, names in shapes.items())
    return f"{key!r} is {text}; leave it out with {option('skip', key)}"
