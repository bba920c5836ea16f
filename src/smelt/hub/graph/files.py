"""The folder of a graph: `graph.json` with words and columns, and the pictures beside it.

Pictures of one style that are square and of one size are tiles of mosaics, `pictures/<style>.webp`; others are
files of their own. A picture that lies in a file keeps that file, so a graph that grows takes the old ones over (as
hard links where the disk allows it) and writes only what is new.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile, OutputError, RecipeError, SmeltError
from smelt.files.reading import read_json
from smelt.files.writing import atomic_folder, is_free
from smelt.hub.graph.graph import Node, Picture, SemanticGraph, hash_pixels
from smelt.tasks.pictures.mosaic import PER_ROW, pillow, read_mosaic, read_picture, write_mosaic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PictureSheet", "Shelf", "read_graph", "write_graph"]

FORMAT = 1
NOTE = "graph.json"
_LARGEST = 163
"""Side of a tile: a WebP is at most 16,383 pixels wide."""
_PIXELS = 8 << 20
"""Of one mosaic: what is decoded at once to read one tile."""
_MEMORY = 256 << 20
"""Bytes of decoded mosaics that are kept."""


@dataclass(frozen=True)
class PictureSheet:
    """One file: a mosaic of `count` tiles, or one picture of any size (`size` 0)."""

    path: Path
    count: int = 1
    size: int = 0


class Shelf:
    """Where the pixels of each picture are: a tile of a sheet, or memory. Any thread may ask."""

    def __init__(self, places: Iterable[tuple[PictureSheet, int] | NDArray[np.uint8]] = ()):
        self._places = list(places)
        self._kept: OrderedDict[Path, NDArray[np.uint8]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    def copy(self) -> Shelf:
        return Shelf(self._places)

    def add(self, content: NDArray[np.uint8] | Path) -> None:
        """One more picture, from memory or a file of its own."""
        self._places.append((PictureSheet(content.resolve()), 0) if isinstance(content, Path) else content)

    def at(self, number: int) -> tuple[PictureSheet, int] | NDArray[np.uint8]:
        return self._places[number]

    def place(self, number: int) -> str:
        """Where a picture lies, for a message."""
        at = self._places[number]
        return f"{at[0].path}, tile {at[1]}" if isinstance(at, tuple) else "memory"

    def pixels(self, numbers: Iterable[int]) -> list[NDArray[np.uint8]]:
        found = []
        for number in numbers:
            if not 0 <= number < len(self._places):
                raise RecipeError(f"there is no picture {number}; the graph has {len(self._places)}")
            at = self._places[number]
            if not isinstance(at, tuple):
                found.append(at)
            elif at[0].size == 0:
                found.append(read_picture(at[0].path))
            else:
                found.append(self._mosaic(at[0])[at[1]])
        return found

    def _mosaic(self, sheet: PictureSheet) -> NDArray[np.uint8]:
        with self._lock:
            if sheet.path not in self._kept:
                try:
                    self._kept[sheet.path] = read_mosaic(sheet.path, sheet.count, sheet.size)
                except CorruptFile:
                    raise
                except SmeltError as error:  # a mosaic of another size: here it is the graph's file that is wrong
                    raise CorruptFile(str(error)) from None
            self._kept.move_to_end(sheet.path)
            while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > _MEMORY:
                self._kept.popitem(last=False)
            return self._kept[sheet.path]


def write_graph(graph: SemanticGraph, shelf: Shelf, folder: Path, quality: int | None = None) -> None:
    """Write a graph's folder, whole or not at all. Something that is there already is kept, and an error."""
    if not is_free(folder):
        raise OutputError(f"{folder}: exists; give another place")
    if quality is not None and not 1 <= quality <= 100:
        raise RecipeError(f"quality is a number from 1 to 100; got {quality}")
    with atomic_folder(folder, fault="the graph cannot be written there") as partial:
        (partial / "pictures").mkdir()
        places, pictures = _Writer(partial, quality).write(graph.pictures, shelf)
        if quality is not None:
            graph = SemanticGraph(graph.name, graph.nodes, pictures, graph.notice, shelf=shelf)
        (partial / NOTE).write_text(_encode(graph, places), encoding="utf-8")


class _Writer:
    """Puts pictures into a new folder and remembers where."""

    def __init__(self, folder: Path, quality: int | None):
        self._folder, self._quality = folder, quality
        self._options: dict[str, Any] = {"lossless": True} if quality is None else {"quality": quality}
        self._taken: dict[Path, str] = {}
        self._names: set[str] = set()

    def write(
        self, pictures: Sequence[Picture], shelf: Shelf
    ) -> tuple[list[tuple[str, PictureSheet, int]], list[Picture]]:
        """File, sheet and tile of every picture; and the pictures as they are read again."""
        places: dict[int, tuple[str, PictureSheet, int]] = {}
        loose: dict[str, list[int]] = {}
        for number, picture in enumerate(pictures):
            at = shelf.at(number)
            if isinstance(at, tuple):
                places[number] = (self._take_over(at[0], picture), *at)
            else:
                loose.setdefault(picture.style, []).append(number)
        again = list(pictures)
        for style, numbers in loose.items():
            for name, sheet, part in self._pack(style, numbers, shelf, pictures):
                places.update({number: (name, sheet, tile) for tile, number in enumerate(part)})
                if self._quality is not None:
                    written = Shelf([(sheet, tile) for tile in range(len(part))]).pixels(range(len(part)))
                    for number, pixels in zip(part, written, strict=True):
                        again[number] = Picture(style, pictures[number].source, hash_pixels(pixels))
        return [places[number] for number in range(len(pictures))], again

    def _take_over(self, sheet: PictureSheet, picture: Picture) -> str:
        if sheet.path not in self._taken:
            name = sheet.path.name if sheet.size else picture.sha256 + sheet.path.suffix
            self._taken[sheet.path] = name = self._free(Path(name).stem, Path(name).suffix)
            _bring(sheet.path, self._folder / name)
        return self._taken[sheet.path]

    def _pack(
        self, style: str, numbers: list[int], shelf: Shelf, pictures: Sequence[Picture]
    ) -> Iterable[tuple[str, PictureSheet, list[int]]]:
        pixels = shelf.pixels(numbers)
        shapes = {picture.shape for picture in pixels}
        height, width = pixels[0].shape[:2]
        if len(shapes) > 1 or height != width or height > _LARGEST or len(pixels) == 1:
            for number, picture in zip(numbers, pixels, strict=True):
                name = self._free(pictures[number].sha256, ".webp")
                pillow().fromarray(picture).save(self._folder / name, **self._options)
                yield name, PictureSheet(self._folder / name), [number]
            return
        most = max(1, _PIXELS // (PER_ROW * height * height)) * PER_ROW
        for start in range(0, len(numbers), most):
            part, tiles = numbers[start : start + most], np.stack(pixels[start : start + most])
            name = self._free(re.sub(r"[^a-z0-9]+", "-", style.lower()).strip("-") or "pictures", ".webp")
            write_mosaic(self._folder / name, tiles, **self._options)
            yield name, PictureSheet(self._folder / name, len(part), height), part

    def _free(self, stem: str, suffix: str) -> str:
        """A name under pictures/ that nothing has yet."""
        count, name = 1, f"pictures/{stem}{suffix}"
        while name in self._names:
            count += 1
            name = f"pictures/{stem}-{count}{suffix}"
        self._names.add(name)
        return name


def _bring(source: Path, target: Path) -> None:
    """The same bytes at another place."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _encode(graph: SemanticGraph, places: Sequence[tuple[str, PictureSheet, int]]) -> str:
    sheets = {name: sheet for name, sheet, _ in places}
    order = {name: number for number, name in enumerate(sheets)}
    content = {
        "format": FORMAT,
        "name": graph.name,
        "version": graph.version,
        "notice": graph.notice,
        "nodes": [asdict(node) for node in graph.nodes],
        "sheets": [{"file": name, "count": sheet.count, "size": sheet.size} for name, sheet in sheets.items()],
        "styles": graph.styles,
        "pictures": {
            "style": graph.style_of(range(len(graph.pictures))).tolist(),
            "source": [picture.source for picture in graph.pictures],
            "sha256": [picture.sha256 for picture in graph.pictures],
            "sheet": [order[name] for name, _, _ in places],
            "tile": [tile for _, _, tile in places],
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def read_graph(folder: Path) -> tuple[str, str, list[Node], list[Picture], Shelf, str]:
    """Name, notice, nodes, pictures, pixels and version of a folder, as it says."""
    path = folder / NOTE
    if not path.is_file():
        raise RecipeError(f"{folder}: is not the folder of a semantic graph (it has no {NOTE})")
    try:
        content = read_json(path)
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, Mapping) else None
            raise CorruptFile(f"{path}: its format is {found!r}; this version of smelt reads format {FORMAT}")
        nodes = [_node(entry) for entry in content["nodes"]]
        pictures, shelf = _pictures(folder, content)
        return str(content["name"]), str(content["notice"]), nodes, pictures, shelf, str(content["version"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise CorruptFile(f"{path}: cannot be read ({error!r})") from None


def _node(entry: Mapping[str, Any]) -> Node:
    words = [entry["id"], entry["name"], entry["definition"], *entry["names"], *entry["parents"]]
    if not all(isinstance(word, str) for word in words) or not all(type(n) is int for n in entry["pictures"]):
        raise ValueError(f"the node {entry['id']!r} has something that is no word, or a picture that is no number")
    return Node(
        entry["id"],
        entry["name"],
        tuple(entry["names"]),
        entry["definition"],
        tuple(entry["parents"]),
        tuple(entry["pictures"]),
    )


def _pictures(folder: Path, content: Mapping[str, Any]) -> tuple[list[Picture], Shelf]:
    sheets = [_sheet(folder, entry) for entry in content["sheets"]]
    columns, styles = content["pictures"], content["styles"]
    pictures, places = [], []
    rows = zip(*(columns[name] for name in ("style", "source", "sha256", "sheet", "tile")), strict=True)
    for number, (style, source, sha256, sheet, tile) in enumerate(rows):
        numbers = all(type(one) is int for one in (style, sheet, tile))
        if not numbers or not (
            0 <= style < len(styles) and 0 <= sheet < len(sheets) and 0 <= tile < sheets[sheet].count
        ):
            raise ValueError(f"picture {number} has style {style}, sheet {sheet} and tile {tile}, which are not there")
        pictures.append(Picture(styles[style], source, sha256))
        places.append((sheets[sheet], tile))
    return pictures, Shelf(places)


def _sheet(folder: Path, entry: Mapping[str, Any]) -> PictureSheet:
    name, count, size = entry["file"], int(entry["count"]), int(entry["size"])
    if not re.fullmatch(r"pictures/[\w.-]+", name) or ".." in name:
        raise ValueError(f"the file {name!r} does not lie in pictures/")
    if not (folder / name).is_file():
        raise ValueError(f"the file {name!r} is not there")
    if count < 1 or not 0 <= size <= _LARGEST or (size == 0 and count != 1):
        raise ValueError(f"{name!r} cannot have {count} pictures of size {size}")
    return PictureSheet(folder / name, count, size)
