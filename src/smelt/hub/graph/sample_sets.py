"""Pictures of public data sets as folders of a graph: fetched from the Hugging Face hub, a folder for each wnid.

In: a data set with a column of pictures and one of labels, and the list of its classes. Out: `<folder>/<wnid>/*.jpg`
with at most so many pictures of each class; which ones is a matter of seed, set and place: the same on every machine.
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import MissingExtra, RecipeError, unknown
from smelt.files.schema import Strict
from smelt.files.writing import atomic_folder
from smelt.files.yaml_reader import read_yaml

__all__ = ["HubPictures", "class_list", "fetch_pictures"]


class HubPictures(Strict):
    """Where a set lies on the hub."""

    dataset: str
    config: str | None = None
    revision: str | None = None
    split: str = "test"
    image: str = "image"
    label: str = "label"
    classes: str = "imagenet-1k"
    """The list that its labels count: imagenet-1k, imagenet-a or imagenet-r."""


def class_list(name: str) -> tuple[str, ...]:
    """The wnids of a set's classes, in the order of the labels."""
    lists = _lists()
    if name not in lists:
        raise RecipeError(unknown("list of classes", name, lists))
    return lists[name]


@functools.cache
def _lists() -> Mapping[str, tuple[str, ...]]:
    content = read_yaml(Path(__file__).parent / "imagenet-classes.yaml")
    return {name: tuple(wnids) for name, wnids in content.items()}


def fetch_pictures(source: HubPictures, folder: Path, *, most: int, seed: int) -> int:
    """Write the folder, whole or not at all; gives the number of pictures in it."""
    rows, wnids = _load(source), class_list(source.classes)
    piles: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(rows[source.label]):
        if not 0 <= int(label) < len(wnids):
            raise RecipeError(f"{source.dataset}: has the label {label}, but {source.classes} has {len(wnids)} classes")
        piles[int(label)].append(place)
    count = 0
    with atomic_folder(folder, fault="the pictures cannot be written there") as draft:
        for label, places in sorted(piles.items()):
            (draft / wnids[label]).mkdir()
            for place in _some(places, f"{seed}\0{source.dataset}\0{wnids[label]}", most):
                content = _content(rows[place][source.image], source)
                (draft / wnids[label] / f"{place:06d}{_suffix(content)}").write_bytes(content)
                count += 1
    return count


def _load(source: HubPictures) -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtra(f"reading {source.dataset} needs the datasets library: pip install 'smelt[clip]'") from None
    try:
        rows = datasets.load_dataset(source.dataset, source.config, split=source.split, revision=source.revision)
    except Exception as error:  # whatever the library, the hub and the network raise
        reason = str(error).splitlines()[0] if str(error) else "no reason given"
        raise RecipeError(
            f"the data set {source.dataset!r} is not in the local cache and could not be loaded "
            f"({type(error).__name__}: {reason}); check the network, or put its pictures into a folder and name that"
        ) from error
    for column in (source.image, source.label):
        if column not in rows.column_names:
            raise RecipeError(f"{source.dataset}: {unknown('column', column, rows.column_names)}")
    return rows.cast_column(source.image, datasets.Image(decode=False))


def _some(places: list[int], where: str, most: int) -> list[int]:
    """At most so many, in an order by a hash of the place."""
    ranked = sorted(places, key=lambda one: hashlib.blake2b(f"{where}\0{one}".encode(), digest_size=8).digest())
    return sorted(ranked[:most])


def _content(picture: Any, source: HubPictures) -> bytes:
    content = picture.get("bytes") if isinstance(picture, Mapping) else None
    if content is None and isinstance(picture, Mapping) and picture.get("path"):
        content = Path(picture["path"]).read_bytes()
    if not isinstance(content, bytes):
        raise RecipeError(f"{source.dataset}: the column {source.image!r} holds no pictures")
    return content


def _suffix(content: bytes) -> str:
    return ".png" if content.startswith(b"\x89PNG") else ".webp" if content[8:12] == b"WEBP" else ".jpg"
