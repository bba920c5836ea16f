"""The index answers as arg max does, with ties, after growing, and from disk; and refuses what does not fit."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from smelt.errors import CorruptFile, RecipeError, SmeltError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index, argmax_counts, right_of_many
from smelt.hub.labels.label import ONE, Label, LabelKey


def a_graph(sizes: list[int], name: str = "made up") -> SemanticGraph:
    return SemanticGraph.build(name, [a_node(number, size) for number, size in enumerate(sizes)])


def a_node(number: int, size: int) -> NewNode:
    styles = ("sketch", "photo")
    pictures = [
        (styles[turn % 2], f"node {number}, picture {turn}", np.full((2, 2, 3), turn, dtype=np.uint8))
        for turn in range(size)
    ]
    return NewNode(f"node-{number}", f"node {number}", "made up", pictures=pictures)


def a_label(graph: SemanticGraph, pictures: np.ndarray, texts: np.ndarray) -> Label:
    return Label(LabelKey("model", graph.version, "as it is", "caption"), pictures, texts)


def with_scores(graph: SemanticGraph, scores: np.ndarray) -> Label:
    """A label whose scores of pictures (rows) with nodes (columns) are these: the texts are the unit axes."""
    nodes = len(graph.nodes)
    return a_label(graph, np.rint(scores * ONE).astype(np.int16), (np.eye(nodes) * ONE).astype(np.int16))


def coarse_label(graph: SemanticGraph, seed: int, width: int = 3) -> Label:
    """Numbers of -1, 0 and 1 only: most scores tie."""
    draw = np.random.default_rng(seed)
    pictures, texts = (
        draw.integers(-1, 2, (count, width)).astype(np.int16) for count in (len(graph.pictures), len(graph.nodes))
    )
    return a_label(graph, pictures, texts)


def test_a_picture_is_right_if_only_a_node_outside_the_selection_scores_higher() -> None:
    graph = a_graph([1, 0, 0, 0])  # M2
    index = Index.build(with_scores(graph, np.array([[0.31, 0.2, 0.1, 0.9]])), graph)
    right, pictures = index.right([0, 1, 2])
    assert right.tolist() == [1, 0, 0]
    assert pictures.tolist() == [1, 0, 0]
    assert index.right([0, 1, 2, 3])[0].tolist() == [0, 0, 0, 0]
    assert index.recall([0, 1, 2]).tolist() == [1.0, 0.0, 0.0]


def test_one_selected_node_is_always_right() -> None:
    graph = a_graph([5, 70, 9])  # M5
    index = Index.build(coarse_label(graph, 0), graph)
    assert [index.recall([node]).tolist() for node in range(3)] == [[1.0], [1.0], [1.0]]


def test_equal_scores_go_to_the_lower_number() -> None:
    graph = a_graph([1, 1])
    index = Index.build(with_scores(graph, np.full((2, 2), 0.5)), graph)
    assert index.right([0, 1])[0].tolist() == [1, 0]
    assert index.right([1, 0])[0].tolist() == [0, 1], "whatever the order in which nodes are asked for"


def test_index_and_arg_max_agree_on_200_random_hubs_full_of_ties() -> None:
    for trial in range(200):  # M11
        draw = np.random.default_rng(trial)
        graph = a_graph(draw.integers(0, 76, draw.integers(2, 12)).tolist())
        label = coarse_label(graph, trial)
        selected = draw.permutation(len(graph.nodes))[: draw.integers(1, len(graph.nodes) + 1)]
        keep = draw.random(len(graph.pictures)) < 0.5 if trial % 2 else None
        counts = argmax_counts(label, graph, selected, keep)
        right, pictures = Index.build(label, graph).right(selected, keep)
        assert right.tolist() == counts.diagonal().tolist(), trial
        assert pictures.tolist() == counts.sum(axis=1).tolist(), trial


def test_arg_max_counts_what_was_answered_instead() -> None:
    graph = a_graph([2, 1, 1])
    scores = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.9, 0.1], [0.0, 0.9, 0.1]])
    counts = argmax_counts(with_scores(graph, scores), graph, [0, 1, 2])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]


def test_only_kept_pictures_count() -> None:
    graph = a_graph([4, 1])  # sketch, photo, sketch, photo
    scores = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    index = Index.build(with_scores(graph, scores), graph)
    photos = graph.style_of(range(len(graph.pictures))) == graph.styles.index("photo")
    assert [list(map(int, part)) for part in index.right([0, 1], photos)] == [[1, 0], [2, 0]]
    assert [list(map(int, part)) for part in index.right([0, 1], ~photos)] == [[2, 1], [2, 1]]
    with pytest.raises(RecipeError, match="keep has 2 entries, but the graph of the index has 5 pictures"):
        index.right([0, 1], np.array([True, False]))


@pytest.mark.parametrize(("old", "new"), [([3, 0, 5], [2, 4]), ([3, 8], [9, 75]), ([2, 2], [0]), ([4], [])])
def test_an_index_that_grew_is_the_index_built_anew_byte_for_byte(
    old: list[int], new: list[int], tmp_path: Path
) -> None:
    small = a_graph(old)  # M12
    large = small.with_nodes([a_node(number, size) for number, size in enumerate(new, len(old))])
    label = coarse_label(large, 7)
    before = a_label(small, label.pictures[: len(small.pictures)], label.texts[: len(small.nodes)])
    grown = Index.build(before, small).extended(label, large)
    grown.save(tmp_path / "grown")
    Index.build(label, large).save(tmp_path / "anew")
    assert (tmp_path / "grown").read_bytes() == (tmp_path / "anew").read_bytes()


def test_growing_from_another_graph_or_model_is_refused() -> None:
    small, other = a_graph([3, 2]), a_graph([2, 3])
    large = other.with_nodes([a_node(2, 1)])
    label = coarse_label(large, 0)
    index = Index.build(coarse_label(small, 0), small)
    with pytest.raises(RecipeError, match="not the beginning of the graph 'made up'"):
        index.extended(label, large)
    stranger = Label(LabelKey("another", large.version, "as it is", "caption"), label.pictures, label.texts)
    with pytest.raises(RecipeError, match="another model"):
        Index.build(coarse_label(other, 0), other).extended(stranger, large)
    with pytest.raises(RecipeError, match="make the label on this graph first"):
        Index.build(label, small)


def test_an_index_on_disk_answers_as_the_one_in_memory(tmp_path: Path) -> None:
    graph = a_graph([10, 75, 3, 64, 65])
    index = Index.build(coarse_label(graph, 1), graph)
    opened = Index.open(index.save(tmp_path / "deep" / "index"))
    opened.verify()
    assert opened.key == index.key
    assert opened.nodes == 5
    for selected in ([0, 1, 2, 3, 4], [3, 1], [4]):
        assert [part.tolist() for part in opened.right(selected)] == [part.tolist() for part in index.right(selected)]


def test_many_models_are_asked_at_once(tmp_path: Path) -> None:
    graph = a_graph([10, 20, 30])
    indexes = [Index.build(coarse_label(graph, seed), graph) for seed in range(5)]
    right, pictures = right_of_many(indexes, [0, 2])
    assert right.tolist() == [index.right([0, 2])[0].tolist() for index in indexes]
    assert pictures.tolist() == [10, 30]


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """Only so many files more may be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_indexes_are_open_than_a_process_may_have_files(tmp_path: Path) -> None:
    graph = a_graph([2, 3])
    index = Index.build(coarse_label(graph, 1), graph)
    paths = [index.save(tmp_path / str(number)) for number in range(150)]
    with files_left(64):
        indexes = [Index.open(path) for path in paths]
        right, _ = right_of_many(indexes, [0, 1])
    assert right.tolist() == [index.right([0, 1])[0].tolist()] * 150


def test_a_process_without_free_files_is_told_so_and_the_index_not_blamed(tmp_path: Path) -> None:
    graph = a_graph([2, 3])
    path = Index.build(coarse_label(graph, 1), graph).save(tmp_path / "index")
    with files_left(0), pytest.raises(SmeltError, match=r"too many files open; allow it more \(`ulimit -n") as error:
        Index.open(path)
    assert not isinstance(error.value, CorruptFile)


def test_an_open_index_outlives_its_file_and_is_unmapped_at_the_end(tmp_path: Path) -> None:
    graph = a_graph([2, 3])
    path = Index.build(coarse_label(graph, 1), graph).save(tmp_path / "unlike-any-other")
    opened = Index.open(path)
    before = opened.right([0, 1])[0].tolist()
    path.unlink()
    assert opened.right([0, 1])[0].tolist() == before
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert "unlike-any-other" in maps.read_text()
        del opened
        assert "unlike-any-other" not in maps.read_text()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    graph = a_graph([9, 9, 9])
    path = Index.build(coarse_label(graph, 1), graph).save(tmp_path / "index")
    whole = path.read_bytes()
    for content, said in [
        (b"", "cannot be opened"),
        (b"something else altogether", "is not a segment"),
        (whole[:-64], "cut off"),
        (whole + b"\0" * 64, "cut off"),
        (whole[:64] + whole[128:], "lie outside of it|do not fit|names other"),
        (whole[:-99] + b"x" + whole[-98:], "the foot of the segment is damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=said):
            Index.open(path)
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(CorruptFile, match="not what was written"):
        Index.open(path).verify()


@pytest.mark.parametrize(
    ("selected", "said"), [([], "at least one"), ([0, 3], "nodes are 0 to 2"), ([1, 1], "a node twice")]
)
def test_a_selection_that_is_none_is_refused(selected: list[int], said: str) -> None:
    graph = a_graph([1, 1, 1])
    index = Index.build(coarse_label(graph, 1), graph)
    with pytest.raises(RecipeError, match=said):
        index.right(selected)
