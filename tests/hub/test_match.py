from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.hub.matching.match import domain_style, match, match_similarities

M1 = np.array([[0.9, 0.6, 0.1, 0.2], [0.2, 0.5, 0.8, 0.1]])


def test_two_nodes_per_class_give_the_transfer_matrix_of_m1() -> None:
    found = match_similarities(M1, nodes=2)
    assert found.selected.tolist() == [0, 1, 2]
    assert found.transfer.tolist() == [[0.9, 0.0], [0.6, 0.5], [0.0, 0.8]]
    assert found.nearest == (((0, 0.9), (1, 0.6)), ((2, 0.8), (1, 0.5)))


def test_vectors_are_compared_by_their_cosine() -> None:
    classes = np.array([[1.0, 0.0]], dtype=np.float32)
    nodes = np.array([[0.0, 1.0], [0.6, 0.8], [0.8, 0.6]], dtype=np.float32)
    found = match(classes, nodes, nodes=2)
    assert found.selected.tolist() == [1, 2]
    assert found.transfer[:, 0] == pytest.approx([0.6, 0.8])
    assert [number for number, _ in found.nearest[0]] == [2, 1]


def test_equal_similarities_keep_the_lower_number() -> None:
    assert match_similarities(np.array([[0.5, 0.5, 0.5]]), nodes=2).selected.tolist() == [0, 1]


def test_equal_captions_tie_exactly_whatever_their_place_among_the_rows() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(997, 48)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[996] = rows[3]
    (nearest,) = match(rows[3:4], rows, nodes=2).nearest
    assert [number for number, _ in nearest] == [3, 996]
    assert nearest[0][1] == nearest[1][1]


def test_a_node_that_is_opposite_in_meaning_carries_nothing() -> None:
    found = match_similarities(np.array([[0.3, -0.2]]), nodes=2)
    assert found.transfer.tolist() == [[0.3], [0.0]]
    assert found.nearest[0][1] == (1, -0.2)


def test_nodes_without_pictures_are_passed_over() -> None:
    found = match_similarities(M1, nodes=2, among=np.array([False, True, True, True]))
    assert found.selected.tolist() == [1, 2, 3]
    assert [number for number, _ in found.nearest[0]] == [1, 3]


def test_a_graph_with_fewer_nodes_gives_all_it_has() -> None:
    assert match_similarities(M1[:, :2], nodes=5).selected.tolist() == [0, 1]


def test_vectors_of_two_embedders_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"\(1, 3\) but the nodes' are \(4, 2\)"):
        match(np.zeros((1, 3)), np.zeros((4, 2)))


@pytest.mark.parametrize("table", [np.zeros((0, 3)), np.zeros((2, 0)), np.array([[np.nan]])])
def test_nothing_to_match_is_refused(table: np.ndarray) -> None:
    with pytest.raises(RecipeError):
        match_similarities(table)


class _Words:
    """An embedder of three directions."""

    name = "words"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.array([[float(word in text) for word in ("sketch", "photo", "icon")] for text in texts])
        return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def test_the_style_nearest_to_the_domain_is_found() -> None:
    assert domain_style("a quick sketch", ("photo", "sketch", "icon"), _Words()) == "sketch"
    with pytest.raises(RecipeError, match="no styles"):
        domain_style("photo", (), _Words())
