"""Several segments as one, node by node: the same indexes, each pair's entries side by side again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.labels.label import LabelKey
from smelt.hub.labels.segment import Entries, Segment, save_segment

__all__ = ["merge_segments"]


def merge_segments(path: Path, segments: Sequence[Segment], wanted: Collection[str]) -> list[str]:
    """Write the wanted labels of these segments as one; gives their digests. Where two have one, the last counts.

    Damaged segments are not carried on: each is compared with its digest first.
    """
    first = segments[0]
    for one in segments:
        one.verify()
        same = one.graph_pictures == first.graph_pictures and np.array_equal(one.numbered, first.numbered)
        if (
            not same
            or one.standing.shape[1] != first.standing.shape[1]
            or not np.array_equal(one.pictures, first.pictures)
        ):
            raise RecipeError("segments of different graphs cannot become one")
    home = {name: number for number, one in enumerate(segments) for name in one.names if name in wanted}
    places = [np.full(one.models, -1, dtype=np.int64) for one in segments]
    keys: list[LabelKey] = []
    names: list[str] = []
    for number, one in enumerate(segments):
        for place, name in enumerate(one.names):
            if home.get(name) == number:
                places[number][place] = len(names)
                keys.append(one.key(place))
                names.append(name)
    kept = [one.standing[place >= 0] for one, place in zip(segments, places, strict=True)]
    save_segment(
        path,
        keys,
        np.concatenate(kept),
        first.graph_pictures,
        first.numbered,
        first.pictures,
        _joined(segments, places),
    )
    return names


def _joined(segments: Sequence[Segment], places: Sequence[np.ndarray]) -> Iterator[Entries]:
    for node in range(segments[0].nodes):
        parts = []
        for one, place in zip(segments, places, strict=True):
            found = one.of_node(node)
            models = place[found.models]
            kept = models >= 0
            parts.append((found.beaters[kept], models[kept], found.masks[kept]))
        beaters, models, masks = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((models, beaters))
        yield Entries(beaters[order], models[order], masks[order])
