"""Building a graph from WordNet and folders of pictures, by a YAML file. The paper's graph is such a file.

    name: imagenet-family
    wordnet: /data/wordnet              # optional; see wordnet.py for where else it is looked for
    words: [dog, traffic light]         # optional: seeds by word, first noun sense
    ids: [dog.n.01, n02121808]          # optional: seeds by id
    senses: own                         # or all: every noun sense of a class's names is a node, with its pictures
    hyponyms: all                       # or none: whether everything below the seeds is a node too
    hypernyms: true                     # whether everything above is. Nodes fill up with descendants' pictures
    pictures:                           # <folder>/<wnid>/*.JPEG; the wnids of all folders are seeds, too
      - {folder: /data/imagenet/train, style: photo, source: ImageNet-1k train}
      - {folder: /data/imagenet-sketch, style: sketch, source: ImageNet-Sketch}
      - {folder: /data/imagenetv2, style: photo, source: ImageNet-V2, names: number}    # folders 0, 1, 2, ...
      - folder: /data/imagenet-a         # where it is not there, it is fetched from the Hugging Face hub
        style: photo
        source: ImageNet-A
        hub: {dataset: clip-benchmark/wds_imagenet-a, split: test, image: jpg, label: cls, classes: imagenet-a}
    inherit: false                      # whether a node below without pictures takes those of the nodes above it
    expected: 9055                      # optional: what somebody else counted, told beside what is found
    most: 75                            # own pictures of a node, evenly over the sets that have it
    seed: 0
    empty: leave out                    # or keep: nodes that no picture was found for
    notice: who made the pictures

In: the file. Out: a graph whose pictures are the files themselves. Relative folders are relative to the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from smelt.errors import RecipeError
from smelt.files.schema import Strict, faults_of
from smelt.files.yaml_reader import read_yaml
from smelt.hub.graph.graph import MOST, NewNode, SemanticGraph
from smelt.hub.graph.sample_sets import HubPictures, fetch_pictures
from smelt.hub.graph.wordnet import NOTICE, Sense, WordNet
from smelt.hub.location import graph_location

__all__ = ["GraphConfig", "PictureSet", "build_graph"]

_HERE = Path(__file__).parent
_WNID = re.compile(r"n\d{8}")
_SUFFIXES = {".jpeg", ".jpg", ".png", ".webp"}


class PictureSet(Strict):
    """One data set: a folder for every wnid, or for every number that the wnids of the first set have when sorted."""

    folder: Path
    style: str
    source: str
    names: Literal["wnid", "number"] = "wnid"
    hub: HubPictures | None = None
    """Where it is fetched from if the folder is not there."""

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
    senses: Literal["own", "all"] = "own"
    hyponyms: Literal["none", "all"] = "none"
    hypernyms: bool = True
    inherit: bool = False
    expected: Annotated[int, Field(ge=1)] | None = None
    pictures: Annotated[tuple[PictureSet, ...], Field(min_length=1)]
    most: Annotated[int, Field(ge=1, le=MOST)] = MOST
    seed: int = 0
    empty: Literal["leave out", "keep"] = "leave out"
    notice: str = ""

    @classmethod
    def load(cls, path: str | Path, data: str | Path | None = None) -> GraphConfig:
        """Read a YAML file, or one that ships with Smelt by its name, and every fault in it at once.

        Folders of pictures are relative to `data`; by default to the file, or for Smelt's own to a folder beside the
        graphs in the user's data folder.
        """
        given = Path(path)
        if given.is_file():
            return cls.parse(read_yaml(given, kind=RecipeError), Path(data or given.parent), str(path))
        shipped = {one.stem: one for one in _HERE.glob("*.yaml") if one.stem != "imagenet-classes"}
        if str(path) not in shipped:
            known = f"; by name there are {', '.join(shipped)}" if shipped and not given.suffix else ""
            raise RecipeError(f"{path}: there is no such file{known}")
        place = Path(data) if data is not None else graph_location(f"{path}-pictures")
        return cls.parse(read_yaml(shipped[str(path)]), place, str(path))

    @classmethod
    def parse(cls, content: Any, folder: Path = Path(), where: str = "the graph's configuration") -> GraphConfig:
        try:
            config = cls.model_validate(content)
        except ValidationError as error:
            raise RecipeError(f"{where}: " + "; ".join(faults_of(error))) from None
        sets = tuple(one.model_copy(update={"folder": folder / one.folder}) for one in config.pictures)
        wordnet = folder / config.wordnet if config.wordnet is not None else None
        return config.model_copy(update={"pictures": sets, "wordnet": wordnet})


def build_graph(
    config: GraphConfig | Mapping[str, Any] | str | Path,
    *,
    data: str | Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> SemanticGraph:
    """The graph that a configuration describes.

    `config` is a YAML file, its content, or the name of one that ships with Smelt (`imagenet-family`). `data` is the
    folder that folders of pictures are relative to; a set that is not there is fetched where the configuration says
    from where. `tell` hears what is fetched, and of a count that differs from the one expected.
    """
    if isinstance(config, str | Path):
        config = GraphConfig.load(config, data)
    elif not isinstance(config, GraphConfig):
        config = GraphConfig.parse(config, Path(data or "."))
    if missing := [str(one.folder) for one in config.pictures if not one.folder.is_dir() and one.hub is None]:
        raise RecipeError("these folders of pictures are not there: " + ", ".join(missing))
    wordnet = WordNet.open(config.wordnet)  # before anything is fetched
    for one in config.pictures:
        if not one.folder.is_dir() and one.hub is not None:
            tell(f"{one.source}: fetching {one.hub.dataset} ({one.hub.split}) from the Hugging Face hub")
            count = fetch_pictures(one.hub, one.folder, most=config.most, seed=config.seed)
            tell(f"{one.source}: {count:,} pictures in {one.folder}")
    seeds = {wordnet.synset(seed).id: {wordnet.synset(seed).wnid} for seed in _seeds(config, wordnet)}
    if not seeds:
        raise RecipeError(f"the graph {config.name!r} has no nodes: no words, no ids, and no folder named by a wnid")
    shown = _all_senses(seeds, wordnet) if config.senses == "all" else seeds
    senses = wordnet.closure(shown, hypernyms=config.hypernyms, hyponyms=config.hyponyms)
    nodes = _nodes(config, senses, shown)
    if config.expected not in (None, len(nodes)):
        tell(f"{config.name}: {len(nodes):,} nodes; {config.expected:,} were expected")
    return SemanticGraph.build(config.name, nodes, "\n".join(filter(None, [NOTICE, config.notice])))


def _seeds(config: GraphConfig, wordnet: WordNet) -> Iterator[str]:
    for word in config.words:
        sense = wordnet.first_sense(word)
        if sense is None:
            raise RecipeError(f"WordNet has no noun {word!r}; name the sense it should have under `ids`")
        yield sense.id
    yield from config.ids
    found = {name for one in config.pictures if one.names == "wnid" for name in one.folders()}
    yield from (name for name in sorted(found) if name in wordnet)


def _all_senses(seeds: Mapping[str, set[str]], wordnet: WordNet) -> dict[str, set[str]]:
    """Every noun sense of the seeds' names, and the wnids of the seeds that are called so: those it shows."""
    found: dict[str, set[str]] = {}
    for id, wnids in seeds.items():  # noqa: A001 - senses have ids
        found.setdefault(id, set()).update(wnids)
        for name in wordnet.synset(id).names:
            for sense in wordnet.senses(name):
                found.setdefault(sense.id, set()).update(wnids)
    return found


def _nodes(config: GraphConfig, senses: Sequence[Sense], shown: Mapping[str, set[str]]) -> list[NewNode]:
    first = config.pictures[0].folders() if config.pictures[0].names == "wnid" else []
    numbers = {wnid: str(number) for number, wnid in enumerate(name for name in first if _WNID.fullmatch(name))}
    pictures = {sense.id: _chosen(config, sorted({sense.wnid, *shown.get(sense.id, ())}), numbers) for sense in senses}
    if config.inherit:
        _inherit(pictures, senses, config.most)
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


def _inherit(pictures: dict[str, list[tuple[str, str, Path]]], senses: Sequence[Sense], most: int) -> None:
    """Nodes without pictures take some of those above them, evenly, and hand them on to those below."""
    waiting = [sense for sense in senses if not pictures[sense.id]]
    while waiting:
        given: dict[str, list[tuple[str, str, Path]]] = {}
        for sense in waiting:
            above = [pictures[parent] for parent in sense.parents if pictures.get(parent)]
            if above:
                own = [picture for pile in above for picture in pile[: most // len(above)]]
                given[sense.id] = list(dict.fromkeys(own))
        if not given:
            return
        pictures |= given
        waiting = [sense for sense in waiting if sense.id not in given]


def _chosen(config: GraphConfig, wnids: Sequence[str], numbers: Mapping[str, str]) -> list[tuple[str, str, Path]]:
    """At most `most` files of a node, one from each set in turn; which ones is a matter of seed, set and name."""
    piles = []
    for wnid in wnids:
        for one in config.pictures:
            name = wnid if one.names == "wnid" else numbers.get(wnid, "")
            files = one.files(name) if name else []
            piles.append((one, wnid, _shuffled(files, f"{config.seed}\0{one.source}\0{wnid}")))
    longest = max((len(files) for _, _, files in piles), default=0)
    turns = ((one, wnid, files[turn]) for turn in range(longest) for one, wnid, files in piles if turn < len(files))
    chosen = [(one.style, f"{one.source} {wnid}/{path.name}", path) for one, wnid, path in turns]
    return chosen[: config.most]


def _shuffled(files: Sequence[Path], place: str) -> list[Path]:
    """In an order by a hash of the place and the file's name."""
    return sorted(files, key=lambda file: hashlib.blake2b(f"{place}\0{file.name}".encode(), digest_size=8).digest())
