"""The semantic graph: growing, saving, searching, drawing pictures from hyponyms, and refusing what is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.hub.graph.graph import MOST, NewNode, SemanticGraph, find_graph
from smelt.hub.graph.grow import drawn_from_descendants


def colour(value: int, height: int = 4, width: int = 4) -> np.ndarray:
    return np.full((height, width, 3), value, dtype=np.uint8)


def animals() -> SemanticGraph:
    return SemanticGraph.build(
        "animals",
        [
            NewNode("animal.n.01", "animal", "a living organism", draws=True),
            NewNode(
                "dog.n.01",
                "dog",
                "a member of the genus Canis",
                names=("dog", "domestic dog"),
                parents=["animal.n.01"],
                pictures=[("sketch", "dog 1", colour(1)), ("photo", "dog 2", colour(2, 5, 7))],
            ),
            NewNode(
                "cat.n.01",
                "cat",
                "feline mammal that hates dogs",
                parents=["animal.n.01"],
                pictures=[("sketch", "cat 1", colour(3)), ("sketch", "cat 2", colour(4))],
            ),
        ],
        notice="made up",
    )


def test_a_node_knows_its_caption_and_its_neighbours() -> None:
    graph = animals()
    assert graph.node("dog.n.01").caption == "dog which is a member of the genus Canis"
    assert graph.number("cat.n.01") == 2
    assert graph.children("animal.n.01") == ("dog.n.01", "cat.n.01")
    assert graph.ancestors("cat.n.01") == graph.roots == ("animal.n.01",)
    assert graph.styles == ("sketch", "photo")
    assert graph.style_of([0, 1, 2]).tolist() == [0, 1, 0]
    with pytest.raises(RecipeError, match=re.escape("(did you mean 'dog.n.01'?)")):
        graph.number("dog.n.1")


def test_search_puts_the_name_before_the_definition() -> None:
    graph = animals()
    assert [node.id for node in graph.search("dog")] == ["dog.n.01", "cat.n.01"]
    assert [node.id for node in graph.search("Domestic_Dog")] == ["dog.n.01"]
    assert [node.id for node in graph.search("a", limit=1)] == ["animal.n.01"]
    assert graph.search("zebra") == graph.search(" ") == []


def test_saved_and_loaded_a_graph_is_the_same(tmp_path: Path) -> None:
    graph = animals()
    loaded = graph.save(tmp_path / "graph")
    assert loaded == graph
    assert (loaded.nodes, loaded.pictures, loaded.notice) == (graph.nodes, graph.pictures, "made up")
    assert all(np.array_equal(a, b) for a, b in zip(loaded.pixels(range(4)), graph.pixels(range(4)), strict=True))
    assert [path.name for path in sorted((tmp_path / "graph" / "pictures").iterdir())][-1] == "sketch.webp"
    loaded.verify()
    assert find_graph(tmp_path / "graph") == graph
    with pytest.raises(OutputError, match="exists"):
        graph.save(tmp_path / "graph")


def test_added_nodes_come_last_and_old_numbers_stay(tmp_path: Path) -> None:
    old = animals().save(tmp_path / "old")
    new = [
        NewNode("cow.n.01", "cow", "gives milk", parents=["animal.n.01"], pictures=[("sketch", "cow", colour(9))]),
        NewNode("kitten.n.01", "kitten", "young cat", parents=["cat.n.01"], pictures=[("sketch", "cat 1", colour(3))]),
    ]
    graph = old.with_nodes(new).save(tmp_path / "new")
    assert graph.nodes[:3] == old.nodes
    assert graph.pictures[:4] == old.pictures
    assert graph.number("cow.n.01") == 3
    assert graph.node("kitten.n.01").pictures == old.node("cat.n.01").pictures[:1], "an equal picture is stored once"
    assert graph.version != old.version
    assert graph.version_of_first(3, 4) == old.version
    graph.verify()
    kept = (tmp_path / "new" / "pictures" / "sketch.webp").read_bytes()
    assert kept == (tmp_path / "old" / "pictures" / "sketch.webp").read_bytes(), "old files are taken over as they are"


def test_a_smaller_file_changes_the_pixels_and_the_version(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    graph = SemanticGraph.build(
        "noise", [NewNode("a", "a", "noise", pictures=[("x", str(i), p) for i, p in enumerate(noise)])]
    )
    exact, small = graph.save(tmp_path / "exact"), graph.save(tmp_path / "small", quality=10)
    small.verify()
    assert exact.version == graph.version != small.version
    sizes = [(tmp_path / name / "pictures" / "x.webp").stat().st_size for name in ("exact", "small")]
    assert sizes[1] < sizes[0]
    assert small.save(tmp_path / "again", quality=10) == small, "what lies in files already is not packed anew"


def test_a_picture_file_is_kept_as_it_is(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "photo.jpg"
    Image.fromarray(colour(100, 30, 20)).save(path)
    graph = SemanticGraph.build("files", [NewNode("a", "a", "one", pictures=[("photo", "mine", path)])])
    saved = graph.save(tmp_path / "graph")
    assert saved == graph
    (kept,) = (tmp_path / "graph" / "pictures").iterdir()
    assert kept.read_bytes() == path.read_bytes()
    assert saved.pixels([0])[0].shape == (30, 20, 3)


def test_a_hypernym_draws_evenly_from_its_children() -> None:
    parents = {"top": [], "rich": ["top"], "poor": ["top"], "son": ["rich"], "daughter": ["rich"]}
    own = {"rich": range(100), "poor": range(100, 103), "son": range(200, 300), "daughter": range(300, 400)}
    drawn = drawn_from_descendants(parents, own, {"top", "rich"}, most=21)
    assert len(drawn["top"]) == len(set(drawn["top"])) == 21
    assert sum(100 <= number < 103 for number in drawn["top"]) == 3, "the poor child gives all it has"
    shares = [sum(low <= number < low + 100 for number in drawn["top"]) for low in (0, 200, 300)]
    assert shares == [6, 6, 6], "and the rich child's share is even over its own and its children's"
    assert drawn["rich"] == tuple(range(21)), "its own pictures come first"
    assert drawn == drawn_from_descendants(parents, own, {"top", "rich"}, most=21)
    assert drawn["top"] != drawn_from_descendants(parents, own, {"top"}, most=21, seed=1)["top"]


def test_a_hypernym_of_the_graph_shares_pictures_and_a_child_gets_none_of_its_parent() -> None:
    graph = animals()
    assert sorted(graph.node("animal.n.01").pictures) == [0, 1, 2, 3]
    later = graph.with_nodes([NewNode("puppy.n.01", "puppy", "young dog", parents=["dog.n.01"], draws=True)])
    assert later.node("puppy.n.01").pictures == ()
    assert MOST == 75


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (NewNode("dog.n.01", "dog", "again"), "the id 'dog.n.01' is there 2 times"),
        (NewNode("a", "a", "x", parents=["b"]), "the hypernym 'b' of 'a' is not in the graph"),
        (NewNode("a", "a", "x", parents=["a"]), "run in a circle"),
        (NewNode("a", "", "x"), "needs an id and a name"),
        (NewNode("a", "a", "x", pictures=[("s", "t", np.zeros((4, 4), np.uint8))]), "must be bytes [height, width, 3]"),
        (
            NewNode("a", "a", "x", pictures=[("s", str(n), colour(n)) for n in range(76)]),
            "'a' has 76 pictures; at most 75 count",
        ),
    ],
)
def test_nodes_that_do_not_fit_are_refused(node: NewNode, said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        animals().with_nodes([node])


def test_circles_among_new_nodes_are_refused() -> None:
    with pytest.raises(RecipeError, match="circle"):
        animals().with_nodes([NewNode("a", "a", "x", parents=["b"]), NewNode("b", "b", "x", parents=["a"])])


def _set(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for step in path[:-1]:
            content = content[step]
        content[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("format", to=99), "its format is 99"),
        (_set("nodes", 1, "parents", to=["plant.n.01"]), "the hypernym 'plant.n.01' of 'dog.n.01' is not in the graph"),
        (_set("nodes", 0, "parents", to=["cat.n.01"]), "circle"),
        (_set("nodes", 1, "pictures", to=[0, 4]), "'dog.n.01' has the picture 4, but the graph has 4 pictures"),
        (_set("nodes", 1, "definition", to="something else"), "says it is version"),
        (_set("nodes", 1, "pictures", to=["0"]), "a picture that is no number"),
        (_set("pictures", "tile", 0, to=7), "picture 0 has style 0, sheet 0 and tile 7"),
        (_set("pictures", "sha256", to=[]), "cannot be read"),
        (_set("sheets", 0, "file", to="pictures/../../secret"), "does not lie in pictures/"),
        (_set("sheets", 0, "file", to="pictures/none.webp"), "is not there"),
        (_set("nodes", to=5), "cannot be read"),
    ],
)
def test_a_broken_folder_is_refused(change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path) -> None:
    animals().save(tmp_path / "graph")
    note = tmp_path / "graph" / "graph.json"
    content = json.loads(note.read_text())
    change(content)
    note.write_text(json.dumps(content))
    with pytest.raises(CorruptFile, match=re.escape(said)):
        SemanticGraph.load(tmp_path / "graph")


def test_other_pixels_are_found_when_the_graph_is_verified(tmp_path: Path) -> None:
    from smelt.tasks.pictures.mosaic import write_mosaic

    graph = animals().save(tmp_path / "graph")
    path = tmp_path / "graph" / "pictures" / "sketch.webp"
    path.unlink()
    write_mosaic(path, np.stack([colour(1), colour(3), colour(200)]))
    with pytest.raises(CorruptFile, match=re.escape("picture 3 of the graph 'animals' (cat 2) is not the one")):
        graph.verify()
    path.write_bytes(b"no picture")
    with pytest.raises(CorruptFile, match="cannot be read as a picture"):
        SemanticGraph.load(tmp_path / "graph").pixels([0])


def test_a_folder_without_a_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=re.escape("has no graph.json")):
        find_graph(tmp_path)
