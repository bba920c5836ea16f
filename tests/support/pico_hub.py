"""A hub of a few colours: a graph of solid pictures, and CLIP models of a few thousand numbers that may know them."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pico_clip import COLOURS, SIDE, colour_clip, random_clip, save_clip
from smelt.hub.graph.graph import NewNode, SemanticGraph

CLASSES = list(COLOURS)


def pixels(colour: str, number: int = 0) -> np.ndarray:
    """A solid picture; those with a higher number are a little darker."""
    return np.full((SIDE, SIDE, 3), np.array(COLOURS[colour]) * (1 - 0.05 * number), dtype=np.uint8)


def colour_graph(pictures: int = 3, **more: NewNode) -> SemanticGraph:
    """colour.n.01 over red, green and blue, with `pictures` each, half of them photos and half drawings."""
    top = NewNode("colour.n.01", "colour", "what light looks like", draws=True)
    leaves = [
        NewNode(
            f"{name}.n.01",
            name,
            f"the {name} thing",
            parents=["colour.n.01"],
            pictures=[(("photo", "drawing")[n % 2], f"made {name} {n}", pixels(name, n)) for n in range(pictures)],
        )
        for name in COLOURS
    ]
    return SemanticGraph.build("colours", [top, *leaves, *more.values()])


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="smelt-pico-hub-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _made() -> Path:
    folder = _temporary()
    save_clip(colour_clip(), folder / "knows")
    for seed in (1, 2):
        save_clip(random_clip(seed), folder / f"guesses{seed}")
    return folder


def model(into: Path, name: str = "knows", **files: str) -> Path:
    """A copy of `knows` (it tells colours apart), `guesses1` or `guesses2`, with files beside it."""
    into.mkdir(parents=True)
    for path in sorted((_made() / name).iterdir()):
        shutil.copyfile(path, into / path.name)
    for file, content in files.items():
        (into / file.replace("__", ".")).write_text(content)
    return into


@functools.cache
def _full() -> Path:
    folder = _temporary()
    with new_hub(folder / "hub", embedder="hashed") as hub:
        for name in ("guesses1", "knows"):
            hub.add(_made() / name)
    return folder / "hub"


def full_hub(into: Path) -> Path:
    """The folder of a hub with `knows` and `guesses1`, both labelled: a copy, since a hub can be moved."""
    shutil.copytree(_full(), into)
    return into


def new_hub(place: Any, **words: Any) -> Any:
    from smelt.hub.hub import Hub

    return Hub.init(place, **{"graph": colour_graph(), **words})
