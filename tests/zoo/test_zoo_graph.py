"""The semantic graph: nouns in several styles, senses as meant, no picture that a task tests, WordNet's own words."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

import smelt_zoo
from smelt.errors import RecipeError
from smelt.hub.graph.graph import SemanticGraph, hash_pixels
from smelt.tasks.pictures.splits import ArraySplit, open_split
from smelt.tasks.pictures.task import PictureTask

BUILD = Path(__file__).parents[2] / "zoo" / "build"
SENSES: dict[str, dict[str, str]] = yaml.safe_load((BUILD / "senses.yaml").read_text(encoding="utf-8"))
CLIP_ART: dict[str, dict[str, list[str]]] = yaml.safe_load((BUILD / "clipart.yaml").read_text(encoding="utf-8"))
NOUNS = {synset for source in ("sketch", "emoji", "icon", "photo") for synset in SENSES[source].values()}


@cache
def graph() -> SemanticGraph:
    return SemanticGraph.load(smelt_zoo.graph())


def styles(name: str) -> set[str]:
    return {graph().pictures[number].style for number in graph().node(name).pictures}


def test_every_picture_has_the_pixels_of_its_hash() -> None:
    graph().verify()


@pytest.mark.parametrize("source", SENSES)
def test_every_sense_of_the_map_is_a_node_with_pictures_of_its_source(source: str) -> None:
    style = {"digit": "handwriting", "letter": "print", "country": "flag"}.get(source, source)
    without = [synset for synset in SENSES[source].values() if style not in styles(synset)]
    assert without == []


def test_most_nouns_are_shown_in_three_styles_or_more() -> None:
    assert sum(len(styles(noun)) >= 3 for noun in NOUNS) >= 300
    assert {"handwriting", "print"} == styles("seven.n.01")
    assert {"sketch", "emoji", "icon", "clip art", "photo"} == styles("dog.n.01")
    counts = Counter(picture.style for picture in graph().pictures)
    assert 5_000 <= counts.total() <= 6_500
    assert min(counts[style] for style in ("sketch", "emoji", "icon", "clip art")) > 700


def test_no_picture_is_one_that_a_task_tests() -> None:
    """By their pixels, and for clip art by name."""
    shown = {picture.sha256 for picture in graph().pictures}
    for folder in smelt_zoo.tasks().values():
        split = open_split(PictureTask.load(folder), "test")
        assert isinstance(split, ArraySplit)
        assert not shown & {hash_pixels(picture) for picture in split.pictures}, folder.name
    tested = {name for parts in CLIP_ART.values() for part in ("val", "test") for name in parts.get(part, [])}
    sources = {picture.source for picture in graph().pictures if picture.style == "clip art"}
    assert len(tested) > 300
    assert not {source.split()[2] for source in sources} & tested


def test_the_origin_of_every_picture_is_told_and_is_never_a_test_split() -> None:
    kinds = {picture.source.rpartition("(")[2].rstrip(")") for picture in graph().pictures}
    assert kinds == {"train", "val", "unused", "held out"}
    held_out = ("emojione", "fxemoji", "circle-flags")
    assert not [p.source for p in graph().pictures if any(f" {name}" in p.source for name in held_out)]
    assert "Princeton University" in graph().notice
    assert "Open Clip Art Library" in graph().notice


def test_hypernyms_stand_above_what_they_share_pictures_with() -> None:
    whole = graph()
    assert "animal.n.01" in whole.ancestors("dog.n.01")
    assert "vehicle.n.01" in whole.ancestors("airplane.n.01")
    assert "european_country.n.01" in whole.ancestors("austria.n.01")
    own = {*NOUNS, *CLIP_ART, *(synset for source in SENSES.values() for synset in source.values())}
    for node in whole.nodes:
        if node.id not in own:
            below = {number for kind in whole.descendants(node.id) for number in whole.node(kind).pictures}
            assert len(whole.children(node.id)) >= 2, node.id
            assert set(node.pictures) <= below, node.id
            assert len(node.pictures) == min(75, len(below)), node.id


def test_definitions_and_hypernyms_are_those_of_wordnet() -> None:
    pytest.importorskip("nltk", reason="THE GRAPH'S WORDS ARE NOT CHECKED: NLTK is not installed")
    from smelt.hub.graph.wordnet import WordNet

    try:
        wordnet = WordNet.open()
    except RecipeError as error:
        pytest.skip(f"THE GRAPH'S WORDS ARE NOT CHECKED: {error}")
    for node in graph().nodes:
        sense = wordnet.synset(node.id)
        assert (node.name, node.names, node.definition) == (sense.name, sense.names, sense.definition)
        above = {step for path in wordnet.paths(node.id) for step in path}
        assert set(node.parents) <= above - {node.id}


def test_the_senses_that_are_easily_mistaken_are_the_meant_ones() -> None:
    meant = {
        ("sketch", "dolphin"): "toothed whales",
        ("sketch", "mouse"): "small rodents",
        ("icon", "mouse"): "electronic device",
        ("emoji", "turkey"): "gallinaceous bird",
        ("country", "georgia"): "republic in Asia Minor",
        ("sketch", "crown"): "jeweled headdress",
        ("icon", "hammer"): "hand tool",
    }
    for (source, word), part in meant.items():
        assert part in graph().node(SENSES[source][word]).definition


def test_the_file_that_is_read_is_the_one_of_the_lock() -> None:
    lock = json.loads((smelt_zoo.graph().parent / "lock.json").read_text())
    assert "graph/graph.json" in lock
    assert sum(name.startswith("graph/pictures/") for name in lock) == len(graph().styles)
