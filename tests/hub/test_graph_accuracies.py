from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index, graph_accuracies
from smelt.hub.labels.label import ONE, Label, LabelKey


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


def test_accuracy_on_the_graph_is_the_mean_over_nodes_that_have_pictures() -> None:
    graph = _graph()
    indexes = {
        "cars": _index(graph, 1, 1, 1, 1, 1, 1),  # 0 of 2, 4 of 4: mean 1/2, though 4 of 6 pictures are right
        "both": _index(graph, 0, 0, 1, 1, 0, 0),  # 2 of 2, 2 of 4: mean 3/4
        "none": _index(graph, 1, 1, 0, 0, 0, 0),
    }
    assert graph_accuracies(indexes, graph) == {"cars": 0.5, "both": 0.75, "none": 0.0}
    with pytest.raises(RecipeError, match="no labelled model"):
        graph_accuracies({}, graph)
