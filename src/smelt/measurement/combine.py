"""Statistics of two parts of the data as one: sums add, numbers of examples add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.caller import option
from smelt.errors import RecipeError
from smelt.formats.source import files_of
from smelt.formats.statistics import (
    SUMS,
    ExampleRun,
    StatisticsNote,
    StatisticsSource,
    open_statistics,
    write_statistics,
)
from smelt.measurement.store import MeasuredStatistics

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["combine"]


def combine(
    first: str | Path | MeasuredStatistics,
    second: str | Path | MeasuredStatistics,
    *,
    out: str | Path,
    force: bool = False,
) -> MeasuredStatistics:
    """Add two folders of statistics into a third, which is as if measured on all their examples at once.

    They must be of one kind, estimator and model, and of different examples. Sums are kept in float64 and so is their
    sum: with parts that end at a whole chunk the result has the very bytes of one measurement of the whole
    (streaming_sums.py says when float64 adds without rounding); stored as float32, it agrees to one unit in the last
    place.
    """
    with closing(open_statistics(Path(first))) as a, closing(open_statistics(Path(second))) as b:
        _check(a, b)
        note = a.note.model_copy(
            update={"data": _joined(a.note, b.note), "examples": a.note.examples + b.note.examples}
        )
        written = write_statistics(Path(out), note, _SummedStatistics(a, b), inputs=files_of([a, b]), force=force)
    return MeasuredStatistics(Path(out), written, 0.0)


class _SummedStatistics(Mapping[str, "Tensor"]):
    """The added tensors, made when asked for: two models' worth of numbers never lie in memory."""

    def __init__(self, first: StatisticsSource, second: StatisticsSource):
        self._parts = (first, second)

    def __getitem__(self, key: str) -> Tensor:
        import torch

        info = self._parts[0].stored[key]
        total = torch.zeros(info.count, dtype=torch.float64)
        for part in self._parts:
            one = torch.empty_like(total)
            part.read_sum(key, 0, one)
            total.add_(one)
        return total.view(info.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts[0].stored)

    def __len__(self) -> int:
        return len(self._parts[0].stored)


def _check(a: StatisticsSource, b: StatisticsSource) -> None:
    for source in (a, b):
        if source.note.kind not in SUMS:
            raise RecipeError(
                f"{source.label}: is a {source.note.kind}, which is no sum over examples and does not add"
            )
    for what, ours, theirs in (
        ("kind", a.note.kind, b.note.kind),
        ("estimator", a.note.estimator, b.note.estimator),
        ("model", a.note.model_hash, b.note.model_hash),
        ("dtype", a.note.dtype, b.note.dtype),
    ):
        if ours != theirs:
            said = f"{a.note.model} and {b.note.model}" if what == "model" else f"{ours} and {theirs}"
            raise RecipeError(f"{a.label} and {b.label} cannot be combined: another {what} ({said})")
    if a.stored != b.stored or a.note.tied != b.note.tied:
        raise RecipeError(f"{a.label} and {b.label} cannot be combined: they hold different tensors")
    for one in a.note.data:
        for other in b.note.data:
            if _overlap(one, other):
                raise RecipeError(
                    f"{a.label} and {b.label} cannot be combined: they use {_words(one)} and {_words(other)}, "
                    "so some examples would count twice; measure shares of one number of examples "
                    f"({option('share', '1/2')}, {option('share', '2/2')})"
                )


def _overlap(a: ExampleRun, b: ExampleRun) -> bool:
    """Whether two uses may share examples. Parts of one split, cut to different sizes, do (`smelt.tasks.subset`)."""
    if a.hash == b.hash:
        return a.first < b.first + b.examples and b.first < a.first + a.examples
    return a.split is not None and (a.task, a.split) == (b.task, b.split)


def _words(use: ExampleRun) -> str:
    split = f" ({use.split})" if use.split else ""
    return f"examples {use.first} to {use.first + use.examples - 1} of {use.task}{split}"


def _joined(a: StatisticsNote, b: StatisticsNote) -> tuple[ExampleRun, ...]:
    """The data of both; runs of one stream that meet become one, so that halves make the note of the whole."""
    joined: list[ExampleRun] = []
    for use in sorted((*a.data, *b.data), key=lambda use: (use.task, use.split or "", use.hash, use.first)):
        last = joined[-1] if joined else None
        if last is not None and last.hash == use.hash and last.first + last.examples == use.first:
            grown = {"examples": last.examples + use.examples, "labels": last.labels + use.labels}
            joined[-1] = last.model_copy(update=grown)
        else:
            joined.append(use)
    return tuple(joined)
