from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index
from smelt.hub.labels.label import ONE, Label, LabelKey
from smelt.hub.paper import paper_hub
from smelt.hub.selection.baselines import best_on_graph, graph_accuracies, inb, oracle


def test_the_imagenet_baseline_takes_the_three_best_of_the_papers_table() -> None:
    table = {model.name: model.imagenet for model in paper_hub().models}
    assert inb(table, 3) == ("ViT-H-14-378-quickgelu.dfn5b", "EVA02-E-14.laion2b_s4b_b115k", "ViT-L-14-quickgelu.dfn2b")
    assert [table[name] for name in inb(table, 3)] == [0.8437, 0.8196, 0.8141]
    assert oracle(table) == "ViT-H-14-378-quickgelu.dfn5b"


def test_equal_accuracies_keep_the_order_of_the_table() -> None:
    assert inb({"a": 0.5, "b": 0.7, "c": 0.7}, 2) == ("b", "c")
    assert inb({"a": 0.5}, 3) == ("a",)


@pytest.mark.parametrize(
    ("table", "k", "message"),
    [({}, 1, "no accuracies"), ({"a": 0.1}, 0, "at least 1"), ({"a": 0.1, "b": float("nan")}, 1, "accuracy of b")],
)
def test_nothing_to_choose_by_is_refused(table: dict[str, float], k: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        inb(table, k)


def _graph() -> SemanticGraph:
    """Two nodes with two and four pictures, and one that has none."""
    shades = iter(range(6))
    counts = {"dog": 2, "car": 4, "idea": 0}
    return SemanticGraph.build(
        "small",
        [
            NewNode(
                f"{name}.n.01",
                name,
                f"the {name}",
                pictures=[
                    ("photo", f"{name} {number}", np.full((2, 2, 3), next(shades), dtype=np.uint8))
                    for number in range(count)
                ],
            )
            for name, count in counts.items()
        ],
    )


def _index(graph: SemanticGraph, *answers: int) -> Index:
    eye = ONE * np.eye(3, dtype=np.int16)
    return Index.build(Label(LabelKey(str(answers), graph.version, "", "caption"), eye[list(answers)], eye), graph)


def test_the_best_on_the_graph_is_so_by_the_mean_over_nodes_that_have_pictures() -> None:
    graph = _graph()
    indexes = {
        "cars": _index(graph, 1, 1, 1, 1, 1, 1),  # 0 of 2, 4 of 4: mean 1/2, though 4 of 6 pictures are right
        "both": _index(graph, 0, 0, 1, 1, 0, 0),  # 2 of 2, 2 of 4: mean 3/4
        "none": _index(graph, 1, 1, 0, 0, 0, 0),
    }
    assert graph_accuracies(indexes, graph) == {"cars": 0.5, "both": 0.75, "none": 0.0}
    assert best_on_graph(indexes, graph) == ("both",)
    assert best_on_graph(indexes, graph, 2) == ("both", "cars")
    with pytest.raises(RecipeError, match="no labelled model"):
        best_on_graph({}, graph)
