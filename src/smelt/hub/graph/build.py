"""Building a graph from WordNet and folders of pictures, by a YAML file. The paper's graph is such a file.

    name: imagenet-family
    wordnet: /data/wordnet              # optional; see wordnet.py for where else it is looked for
    words: [dog, traffic light]         # optional: seeds by word, first noun sense
    ids: [dog.n.01, n02121808]          # optional: seeds by id
    hyponyms: all                       # or none: whether everything below the seeds is a node too
    hypernyms: true                     # whether everything above is. Nodes fill up with descendants' pictures
    pictures:                           # <folder>/<wnid>/*.JPEG; the wnids of all folders are seeds, too
      - {folder: /data/imagenet/train, style: photo, source: ImageNet-1k train}
      - {folder: /data/imagenet-sketch, style: sketch, source: ImageNet-Sketch}
      - {folder: /data/imagenetv2, style: photo, source: ImageNet-V2, names: number}    # folders 0, 1, 2, ...
    most: 75                            # own pictures of a node, evenly over the sets that have it
    seed: 0
    empty: leave out                    # or keep: nodes that no picture was found for
    notice: who made the pictures

In: the file. Out: a graph whose pictures are the files themselves. Relative folders are relative to the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from smelt.errors import RecipeError
from smelt.files.schema import Strict, faults_of
from smelt.files.yaml_reader import read_yaml
from smelt.hub.graph.graph import MOST, NewNode, SemanticGraph
from smelt.hub.graph.wordnet import NOTICE, Sense, WordNet

__all__ = ["GraphConfig", "PictureSet", "build_graph"]

_WNID = re.compile(r"n\d{8}")
_SUFFIXES = {".jpeg", ".jpg", ".png", ".webp"}


class PictureSet(Strict):
    """One data set: a folder for every wnid, or for every number that the wnids of the first set have when sorted."""

    folder: Path
    style: str
    source: str
    names: Literal["wnid", "number"] = "wnid"

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    def files(self, name: str) -> list[Path]:
        place = self.folder / name
        return sorted(path for path in place.iterdir() if path.suffix.lower() in _SUFFIXES) if place.is_dir() else []


class GraphConfig(Strict):
    """What a graph is built from."""

    name: str
    wordnet: Path | None = None
    words: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    hyponyms: Literal["none", "all"] = "none"
    hypernyms: bool = True
    pictures: Annotated[tuple[PictureSet, ...], Field(min_length=1)]
    most: Annotated[int, Field(ge=1, le=MOST)] = MOST
    seed: int = 0
    empty: Literal["leave out", "keep"] = "leave out"
    notice: str = ""

    @classmethod
    def load(cls, path: str | Path) -> GraphConfig:
        """Read a YAML file, and every fault in it at once."""
        path = Path(path)
        if not path.is_file():
            raise RecipeError(f"{path}: there is no such file")
        return cls.parse(read_yaml(path, kind=RecipeError), path.parent, str(path))

    @classmethod
    def parse(cls, content: Any, folder: Path = Path(), where: str = "the graph's configuration") -> GraphConfig:
        try:
            config = cls.model_validate(content)
        except ValidationError as error:
            raise RecipeError(f"{where}: " + "; ".join(faults_of(error))) from None
        sets = tuple(one.model_copy(update={"folder": folder / one.folder}) for one in config.pictures)
        wordnet = folder / config.wordnet if config.wordnet is not None else None
        return config.model_copy(update={"pictures": sets, "wordnet": wordnet})


def build_graph(config: GraphConfig | Mapping[str, Any] | str | Path) -> SemanticGraph:
    """The graph that a configuration describes."""
    if isinstance(config, str | Path):
        config = GraphConfig.load(config)
    elif not isinstance(config, GraphConfig):
        config = GraphConfig.parse(config)
    if missing := [str(one.folder) for one in config.pictures if not one.folder.is_dir()]:
        raise RecipeError("these folders of pictures are not there: " + ", ".join(missing))
    wordnet = WordNet.open(config.wordnet)
    seeds = list(_seeds(config, wordnet))
    if not seeds:
        raise RecipeError(f"the graph {config.name!r} has no nodes: no words, no ids, and no folder named by a wnid")
    senses = wordnet.closure(seeds, hypernyms=config.hypernyms, hyponyms=config.hyponyms)
    return SemanticGraph.build(config.name, _nodes(config, senses), "\n".join(filter(None, [NOTICE, config.notice])))


def _seeds(config: GraphConfig, wordnet: WordNet) -> Iterator[str]:
    for word in config.words:
        sense = wordnet.first_sense(word)
        if sense is None:
            raise RecipeError(f"WordNet has no noun {word!r}; name the sense it should have under `ids`")
        yield sense.id
    yield from config.ids
    found = {name for one in config.pictures if one.names == "wnid" for name in one.folders()}
    yield from (name for name in sorted(found) if name in wordnet)


def _nodes(config: GraphConfig, senses: Sequence[Sense]) -> list[NewNode]:
    first = config.pictures[0].folders() if config.pictures[0].names == "wnid" else []
    numbers = {wnid: str(number) for number, wnid in enumerate(name for name in first if _WNID.fullmatch(name))}
    pictures = {sense.id: _chosen(config, sense.wnid, numbers.get(sense.wnid, "")) for sense in senses}
    known = _with_pictures(senses, pictures) if config.empty == "leave out" else {sense.id for sense in senses}
    return [
        NewNode(
            sense.id,
            sense.name,
            sense.definition,
            sense.names,
            [parent for parent in sense.parents if parent in known],
            pictures[sense.id],
            draws=True,
        )
        for sense in senses
        if sense.id in known
    ]


def _with_pictures(senses: Sequence[Sense], pictures: Mapping[str, Sequence[Any]]) -> set[str]:
    """The nodes that have pictures, and all above them, which draw them."""
    parents = {sense.id: sense.parents for sense in senses}
    waiting = [name for name, own in pictures.items() if own]
    known = set(waiting)
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent in parents and parent not in known:
                known.add(parent)
                waiting.append(parent)
    return known


def _chosen(config: GraphConfig, wnid: str, number: str) -> list[tuple[str, str, Path]]:
    """At most `most` files of a node, one from each set in turn; which ones is a matter of seed, set and name."""
    piles = []
    for one in config.pictures:
        files = one.files(wnid) if one.names == "wnid" else one.files(number) if number else []
        piles.append((one, _shuffled(files, f"{config.seed}\0{one.source}\0{wnid}")))
    longest = max((len(files) for _, files in piles), default=0)
    turns = ((one, files[turn]) for turn in range(longest) for one, files in piles if turn < len(files))
    chosen = [(one.style, f"{one.source} {wnid}/{path.name}", path) for one, path in turns]
    return chosen[: config.most]


def _shuffled(files: Sequence[Path], place: str) -> list[Path]:
    """In an order by a hash of the place and the file's name."""
    return sorted(files, key=lambda file: hashlib.blake2b(f"{place}\0{file.name}".encode(), digest_size=8).digest())
