"""Whether the base could be another model than the one the others were made from, judged by a small sample of weights.

A fine-tune stays near its base. Two models of different origin are no nearer to each other than either is to zero: the
change between them is as long as the base's own weights, or longer (1.41 of it where both are equally long), and all
fine-tunes of one model are far from a foreign base in the same direction. Measured in this way:

    right base        0.02 to 0.10 in the CLIP pools and llm5 of the zoo, 0.11 to 0.29 in mllm10, 0.59 for the heaviest
                      adapter there; mean cosine between changes 0.00 to 0.14
    foreign base      1.35 to 1.44; mean cosine 0.53 (each model of its own origin) to 1.00 (all of one origin)

So a change of _FAR is asked about by itself, and one of _LONG where the changes are parallel as well. Only matrices
count, and only where a model changed at all: norms are near 1 in every model, and a part that all models share says
nothing. A model that was tuned from another fine-tune of the base is near it and is not asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from smelt.engine.plan.plan import Plan, Tap
from smelt.engine.pool import BASE, ModelPool
from smelt.formats import dtype as dtypes
from smelt.formats.file_kinds import some_of
from smelt.formats.source import Source, TensorInfo

__all__ = ["foreign_base_in_plan", "foreign_base_in_pool"]

_FAR, _LONG, _PARALLEL = 0.9, 0.5, 0.5
_TENSORS, _PIECE, _ENOUGH = 8, 8192, 4096
"""Tensors that are looked at, numbers of each, and how many a model must have changed of them to be judged."""
_GOLDEN = 0.6180339887498949


def foreign_base_in_plan(plan: Plan) -> list[str]:
    """A question, where a merge works with changes from a base that seems to be another model's."""
    items = (item for item in plan.items if item.stages and item.input_space == "weight" and _is_matrix(item.info))
    return _doubt([(item.base, item.taps) for item in items if item.base is not None])


def foreign_base_in_pool(pool: ModelPool) -> list[str]:
    """The same of models that nobody has planned to merge yet."""
    if pool.base is None:
        return []
    shared = [
        (Tap(BASE, pool.base, key), tuple(Tap(name, source, key) for name, source in pool.models.items()))
        for key, info in pool.base.tensors.items()
        if _is_matrix(info) and all(_has_such(source, key, info.shape) for source in pool.models.values())
    ]
    return _doubt(shared)


def _is_matrix(info: TensorInfo) -> bool:
    return len(info.shape) > 1 and info.count > 0 and info.dtype in dtypes.FLOATS


def _has_such(source: Source, key: str, shape: tuple[int, ...]) -> bool:
    info = source.tensors.get(key)
    return info is not None and _is_matrix(info) and info.shape == shape


def _doubt(tensors: Sequence[tuple[Tap, Sequence[Tap]]]) -> list[str]:
    names = list(dict.fromkeys(tap.model for _, taps in tensors for tap in taps))
    gram = np.zeros((len(names), len(names)))
    base_squared, counted = np.zeros(len(names)), np.zeros(len(names))
    with np.errstate(all="ignore"):  # what is not finite is refused when it is merged
        for base, taps in _some_tensors(tensors):
            below = _read(base)
            changes = np.zeros((len(names), len(below)))
            for tap in taps:
                changes[names.index(tap.model)] = _read(tap) - below
            changed = changes.any(1)
            gram += changes @ changes.T
            base_squared += changed * (below @ below)
            counted += changed * len(below)
        lengths = np.sqrt(gram.diagonal())
        relative = lengths / np.sqrt(base_squared)
        cosine = _mean_cosine(gram, lengths)
    limit = _LONG if cosine is not None and cosine >= _PARALLEL else _FAR
    far = [number for number in range(len(names)) if counted[number] >= _ENOUGH and relative[number] >= limit]
    if not far:
        return []
    who = some_of([names[number] for number in far])
    least, most = (f"{bound:.2f}" for bound in (min(relative[far]), max(relative[far])))
    length = least if least == most else f"{least} to {most}"
    parallel = "" if cosine is None else f", while the mean cosine between changes is {cosine:.2f} (about 0 is usual)"
    return [
        f"is this the base of {who}, which in a sample of the weights differ from it by {length} of its length (below "
        f"0.3 is usual; 1 or more, where weights are of another origin){parallel}?"
    ]


def _some_tensors(tensors: Sequence[tuple[Tap, Sequence[Tap]]]) -> Iterable[tuple[Tap, Sequence[Tap]]]:
    """A few, spread over all by the golden ratio, so that they are not all the same matrix of their block."""
    places = {int(len(tensors) * (number * _GOLDEN % 1)) for number in range(_TENSORS)} if tensors else set()
    return [tensors[place] for place in sorted(places)]


def _read(tap: Tap) -> NDArray[np.float64]:
    """A piece from the middle of a tensor. Torch is loaded only for numbers that no merge reads without it."""
    info = tap.source.tensors[tap.key]
    size = min(_PIECE, info.count)
    start = (info.count - size) // 2
    if info.dtype in dtypes.NUMPY_FLOATS and tap.source.has_bytes(tap.key):
        raw = np.empty(info.nbytes // info.count * size, np.uint8)
        tap.source.read_bytes(tap.key, start, raw.data)
        return dtypes.to_float32(raw, info.dtype).astype(np.float64)
    import torch

    piece = torch.empty(size)
    tap.source.read(tap.key, start, piece)
    return piece.double().numpy()


def _mean_cosine(gram: NDArray[np.float64], lengths: NDArray[np.float64]) -> float | None:
    """Over all pairs of models that changed; None where there is no pair."""
    rows, columns = np.triu_indices(len(lengths), 1)
    moved = (lengths[rows] > 0) & (lengths[columns] > 0)
    rows, columns = rows[moved], columns[moved]
    return float(np.mean(gram[rows, columns] / (lengths[rows] * lengths[columns]))) if len(rows) else None
