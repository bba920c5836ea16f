"""The public call: `smelt.diff(a, b)` -> how two models differ. The command `smelt diff` is this function."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import RecipeError
from smelt.files.reading import natural
from smelt.formats.source import Source, TensorInfo
from smelt.formats.views.view import without_tied_copy
from smelt.inspection.depth_map import depth_map
from smelt.inspection.difference import Difference, HeaderDifference
from smelt.inspection.equal_files import same_files
from smelt.inspection.file_differences import KeyDifference, file_differences
from smelt.inspection.inspect import inspect
from smelt.inspection.model_facts import ModelFacts
from smelt.inspection.open_model import opened
from smelt.inspection.tensor_changes import tensor_changes
from smelt.recipe.patterns import chosen, matches

__all__ = ["diff"]

_NOT_COMPARED = "C64"


def diff(
    first: str | Path | Any,
    second: str | Path | Any,
    *,
    keys: str | Sequence[str] | None = None,
    skip: str | Sequence[str] | None = None,
    tolerance: float = 0.0,
    allow_pickle: bool = False,
    quiet: bool = True,
) -> Difference:
    """How two models differ: tensors that one lacks, shapes, dtypes, numbers, small files; and where over depth.

    `first` and `second` are references as everywhere, of any format, or state dicts or modules. `keys` and `skip` are
    patterns of tensor names (`*.mlp.*`). A tensor counts as equal where no number differs by more than `tolerance`.
    Weights are streamed; models whose files have the same bytes are not looked at further.
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise RecipeError(f"{option('tolerance', tolerance)}: a number from 0 on is needed")
    with ExitStack() as stack:
        a, b = (stack.enter_context(opened(model, allow_pickle=allow_pickle)) for model in (first, second))
        facts = inspect(first), inspect(second)
        identical = same_files(a, b)
        if not identical:
            a, b = without_tied_copy(a)[0], without_tied_copy(b)[0]
        wanted = _Chosen(a, b, _listed(keys), _listed(skip))
        left = [key for key in wanted.alike if a.tensors[key].dtype == _NOT_COMPARED]
        compared = [key for key in wanted.alike if key not in set(left)]
        changes = [] if identical else tensor_changes(a, b, compared, quiet=quiet)
        return Difference(
            first=facts[0].model,
            second=facts[1].model,
            tolerance=tolerance,
            sizes=tuple(_sizes(*facts)),
            only_first=wanted.only(a, b),
            only_second=wanted.only(b, a),
            shapes=tuple(wanted.headers("shape")),
            dtypes=tuple(wanted.headers("dtype")),
            compared=len(compared),
            tensors=tuple(changes),
            files=tuple(file_differences(a.folder, b.folder, [*a.files, *b.files])),
            depth=depth_map(changes),
            notes=tuple([f"{len(left)} tensors of complex numbers were not compared"] if left else []),
        )


class _Chosen:
    """The tensors that the patterns leave."""

    def __init__(self, a: Source, b: Source, keys: Sequence[str], skip: Sequence[str]):
        self._a, self._b = a.tensors, b.tensors
        names = sorted(self._a.keys() | self._b.keys(), key=natural)
        for pattern in (*keys, *skip):
            if not any(matches(pattern, name) for name in names):
                like = names[len(names) // 2] if names else ""
                raise RecipeError(f"the pattern {pattern!r} matches no tensor (names look like {like!r})")
        self.names = [name for name in names if chosen(name, keys, skip)]
        self._both = [name for name in self.names if name in self._a and name in self._b]
        self.alike = [name for name in self._both if self._a[name].shape == self._b[name].shape]

    def only(self, one: Source, other: Source) -> tuple[str, ...]:
        """What one has and the other has not, not even tied to another tensor."""
        return tuple(
            name for name in self.names if name in one.tensors and name not in other.tensors and name not in other.tied
        )

    def headers(self, what: str) -> Iterator[HeaderDifference]:
        for name in self._both:
            ours, theirs = (_header(table[name], what) for table in (self._a, self._b))
            if ours != theirs:
                yield HeaderDifference(name, ours, theirs)


def _header(info: TensorInfo, what: str) -> str:
    return info.dtype if what == "dtype" else " × ".join(map(str, info.shape))


def _sizes(first: ModelFacts, second: ModelFacts) -> Iterator[KeyDifference]:
    """What both models say of themselves, and not the same; sizes before all."""
    for part in [part for part in first.sizes if part in second.sizes]:
        ours, theirs = first.sizes[part], second.sizes[part]
        for key in [key for key in ours if key in theirs and ours[key] != theirs[key]]:
            yield KeyDifference(f"{key} of {part}" if part else key, ours[key], theirs[key])
    for word in ("family", "vocabulary"):
        ours_said, theirs_said = getattr(first, word), getattr(second, word)
        if ours_said and theirs_said and ours_said != theirs_said:
            yield KeyDifference(word, ours_said, theirs_said)


def _listed(patterns: str | Sequence[str] | None) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns or ())
