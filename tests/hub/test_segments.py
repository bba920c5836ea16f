"""Many indexes in few files answer as each alone does; files grow by merging, and damaged ones are refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from smelt.errors import CorruptFile, RecipeError
from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.labels.index import Index, argmax_counts, right_of_many
from smelt.hub.labels.index_table import IndexTable
from smelt.hub.labels.label import Label, LabelKey
from smelt.hub.labels.merge_segments import merge_segments
from smelt.hub.labels.right_answers import compiled_answers
from smelt.hub.labels.segment import Segment
from smelt.hub.matching.match import Match
from smelt.hub.selection import best
from smelt.hub.selection.select import Selection, TaskWords, choose, class_precision, reuse_metric, select_models
from smelt.hub.store.index_files import IndexFiles

SIZES = [0, 3, 8, 9, 64, 65, 75, 72, 1, 16]
SELECTED = np.array([1, 2, 4, 5, 6, 7, 9])


def a_graph(sizes: list[int]) -> SemanticGraph:
    nodes = []
    for number, size in enumerate(sizes):
        pictures = [
            (("sketch", "photo")[turn % 2], f"{number}, {turn}", np.full((2, 2, 3), turn, dtype=np.uint8))
            for turn in range(size)
        ]
        nodes.append(NewNode(f"node-{number}", f"node {number}", "made up", pictures=pictures))
    return SemanticGraph.build("made up", nodes)


GRAPH = a_graph(SIZES)


def a_label(seed: int) -> Label:
    """Few different numbers, so that scores tie; later models are better, unevenly."""
    draw = np.random.default_rng(seed)
    texts = draw.integers(-2, 3, (len(GRAPH.nodes), 4)).astype(np.int16)
    pictures = draw.integers(-2, 3, (len(GRAPH.pictures), 4)).astype(np.int16)
    for number, node in enumerate(GRAPH.nodes):
        for picture in node.pictures:
            if draw.random() < seed % 7 / 7:
                pictures[picture] = texts[number] * 2
    return Label(LabelKey(f"model {seed}", GRAPH.version, "as it is", "caption"), pictures, texts)


LABELS = {f"m{seed:02d}": a_label(seed) for seed in range(40)}
LABELS["m40"] = LABELS["m13"]  # a copy, which ties with it everywhere


def singles(folder: Path, names: list[str]) -> list[Segment]:
    return [Segment.open(Index.build(LABELS[name], GRAPH).save(folder / name)) for name in names]


@pytest.fixture(scope="module")
def built() -> dict[str, Index]:
    return {name: Index.build(label, GRAPH) for name, label in LABELS.items()}


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> IndexTable:
    """The models in three segments: of 20, of 13 that were merged twice, and some alone."""
    folder, names = tmp_path_factory.mktemp("merged"), list(LABELS)
    groups = [names[:20], names[20:26], names[26:33]]
    files = []
    for number, group in enumerate(groups):
        alone = singles(folder, group)
        merge_segments(folder / f"group {number}", alone, {one.names[0] for one in alone})
        files.append(Segment.open(folder / f"group {number}"))
    both = files[1:]
    merge_segments(folder / "both", both, {name for one in both for name in one.names})
    segments = [files[0], Segment.open(folder / "both"), *singles(folder, names[33:40])]
    homes = {digest: (at, place) for at, one in enumerate(segments) for place, digest in enumerate(one.names)}
    found = [homes[LABELS[name].key.digest] for name in names]
    return IndexTable.placed(names, segments, [home for home, _ in found], [place for _, place in found])


@pytest.mark.parametrize("fused", ["1", "0"])
def test_a_merged_index_answers_as_arg_max_does(
    merged: IndexTable, monkeypatch: pytest.MonkeyPatch, fused: str
) -> None:
    monkeypatch.setenv("SMELT_FUSED", fused)
    compiled_answers.cache_clear()
    keep = np.random.default_rng(0).random(len(GRAPH.pictures)) < 0.6
    try:
        for chosen in (SELECTED, SELECTED[::-1], np.array([7]), np.arange(len(SIZES))):
            for counts in (None, keep):
                right, pictures = right_of_many(list(merged.values()), chosen, counts, threads=3)
                for name, row in zip(merged, right, strict=True):
                    answers = argmax_counts(LABELS[name], GRAPH, chosen, counts)
                    assert row.tolist() == answers.diagonal().tolist(), name
                assert pictures.tolist() == answers.sum(axis=1).tolist()
    finally:
        compiled_answers.cache_clear()


def test_a_merge_is_the_same_file_whatever_was_merged_before(tmp_path: Path) -> None:
    names = list(LABELS)[:6]
    alone = singles(tmp_path, names)
    wanted = {one.names[0] for one in alone}
    merge_segments(tmp_path / "at once", alone, wanted)
    for number, group in enumerate((alone[:2], alone[2:5])):
        merge_segments(tmp_path / f"part {number}", group, wanted)
    parts = [Segment.open(tmp_path / "part 0"), Segment.open(tmp_path / "part 1"), alone[5]]
    merge_segments(tmp_path / "in steps", parts, wanted)
    assert (tmp_path / "in steps").read_bytes() == (tmp_path / "at once").read_bytes()
    whole = Segment.open(tmp_path / "at once")
    merge_segments(tmp_path / "third", [whole], {whole.names[3]})
    assert (tmp_path / "third").read_bytes() == (tmp_path / names[3]).read_bytes(), "one taken out is the one put in"
    assert whole.key(3) == LABELS[names[3]].key


def full(built: dict[str, Index], match: Match, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple]]:
    """The formulas, over all models at once, from arg max."""
    recall = np.stack(
        [
            counts.diagonal() / np.maximum(counts.sum(axis=1), 1)
            for counts in (argmax_counts(LABELS[name], GRAPH, match.selected) for name in built)
        ]
    )
    precision = class_precision(recall, match.transfer)
    reuse = reuse_metric(precision)
    return recall, precision, reuse, choose(reuse, k)


@pytest.mark.parametrize("k", [1, 3])
def test_a_selection_that_keeps_few_rows_is_that_of_all_models(
    merged: IndexTable, built: dict[str, Index], monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    monkeypatch.setattr(best, "KEPT", 10)
    monkeypatch.setattr(best, "_RANKED", 4)
    monkeypatch.setattr("smelt.hub.labels.metrics._BLOCK", 3)
    for trial in range(20):
        draw = np.random.default_rng(trial)
        transfer = draw.random((len(SELECTED), 5)) * (draw.random((len(SELECTED), 5)) < 0.4)
        match = Match(SELECTED, transfer, ((),) * 5)
        task = TaskWords(tuple("abcde"))
        recall, precision, reuse, chosen = full(built, match, k)
        found = select_models(merged, match, task, k=k)
        names = list(built)
        assert found.chosen_names == tuple(tuple(names[one] for one in some) for some in chosen)
        rows = [names.index(name) for name in found.models]
        assert rows == sorted(rows), "in the hub's order"
        for kept, whole in ((found.recall, recall), (found.precision, precision), (found.reuse, reuse)):
            assert kept.tolist() == whole[rows].tolist(), "the same numbers, to the bit"
        order = sorted(range(len(names)), key=lambda one: -precision.mean(axis=1)[one])
        assert [name for name, _ in found.ranking[:4]] == [names[one] for one in order[:4]]
        runner = [name for name in np.array(names)[np.argsort(-reuse[:, 0], kind="stable")] if name in found.models]
        assert runner[: k + 1] == [names[one] for one in choose(reuse, k + 1)[0]], "who came next is there, too"
        assert (found.asked, len(found.models) < 41) == (41, True)
        assert Selection.from_dict(found.as_dict()).asked == 41


def test_up_to_a_thousand_models_all_rows_are_there(merged: IndexTable) -> None:
    match = Match(SELECTED, np.ones((len(SELECTED), 2)), ((),) * 2)
    found = select_models(merged, match, TaskWords(("a", "b")))
    assert (found.models, found.recall.shape) == (tuple(LABELS), (41, 7))


def test_segments_of_different_graphs_are_not_mixed(tmp_path: Path) -> None:
    other = a_graph([3, 4])
    label = Label(LabelKey("x", other.version, "p", "caption"), np.ones((7, 2), np.int16), np.ones((2, 2), np.int16))
    stranger = Segment.open(Index.build(label, other).save(tmp_path / "other"))
    (mine,) = singles(tmp_path, ["m01"])
    with pytest.raises(RecipeError, match="different graphs cannot become one"):
        merge_segments(tmp_path / "out", [mine, stranger], set(mine.names + stranger.names))
    with pytest.raises(RecipeError, match="different versions of the graph"):
        right_of_many([Index(mine), Index(stranger)], [0])


def test_a_damaged_segment_is_not_merged_and_nothing_is_left(tmp_path: Path) -> None:
    alone = singles(tmp_path, ["m01", "m02"])
    path = tmp_path / "m02"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    shutil.copy(path, tmp_path / "kept")
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match="m02: the segment is not what was written"):
        merge_segments(tmp_path / "out", [alone[0], Segment.open(path)], {one.names[0] for one in alone})
    assert not (tmp_path / "out").exists()


def test_every_place_of_a_segment_that_is_damaged_is_refused_or_read_within_bounds(tmp_path: Path) -> None:
    alone = singles(tmp_path, list(LABELS)[:5])
    whole = merge_segments(tmp_path / "whole", alone, {one.names[0] for one in alone})
    assert len(whole) == 5
    content, draw, refused = (tmp_path / "whole").read_bytes(), np.random.default_rng(0), []
    for trial in range(300):
        damaged = bytearray(content)
        for place in draw.integers(0, len(content), 1 + trial % 8):
            damaged[place] = int(draw.integers(0, 256))
        (tmp_path / f"{trial}").write_bytes(damaged)
        try:
            segment = Segment.open(tmp_path / f"{trial}")
            right, _ = right_of_many([Index(segment, number) for number in range(segment.models)], SELECTED)
            assert right.min() >= 0
        except CorruptFile as error:
            refused.append(str(tmp_path / f"{trial}") in str(error))
    assert (len(refused) > 100, all(refused)) == (True, True), "by the file's name"


def test_eight_files_become_one_and_old_files_go_on_being_read(tmp_path: Path) -> None:
    files, names = IndexFiles(tmp_path / "indexes"), list(LABELS)[:9]
    for name in names[:8]:
        assert files.due({LABELS[one].key.digest for one in names}, ()) == []
        files.add(Index.build(LABELS[name], GRAPH).save(tmp_path / "draft"))
    before = files.open()
    wanted = {LABELS[name].key.digest for name in names}
    due = files.due(wanted, ())
    assert len(due) == 8
    merge_segments(tmp_path / "merged", due, wanted)
    files.replace(tmp_path / "merged", [one.path for one in due])
    after = files.open()
    assert (len(files.names()), len(after.segments), after.segments[0].models) == (1, 1, 8)
    right, _ = right_of_many([Index(one) for one in before.segments], SELECTED)  # their files are gone
    again, _ = right_of_many([Index(after.segments[0], number) for number in range(8)], SELECTED)
    assert right.tolist() == again.tolist()
    files.add(Index.build(LABELS[names[8]], GRAPH).save(tmp_path / "draft"))
    assert len(files.open().segments) == 2
    assert files.open().segments[0] is after.segments[0], "what is open stays open"


def test_a_file_of_which_little_is_used_is_due_and_one_of_no_use_goes(tmp_path: Path) -> None:
    files, names = IndexFiles(tmp_path / "indexes"), list(LABELS)[:5]
    alone = singles(tmp_path, names)
    wanted = [one.names[0] for one in alone]
    merge_segments(tmp_path / "merged", alone, wanted)
    files.add(tmp_path / "merged")
    assert files.due(wanted[:3], ()) == []
    (due,) = files.due(wanted[:2], ())
    assert due.models == 5
    files.sweep(wanted[:1])
    assert len(files.names()) == 1
    files.sweep([])
    assert files.names() == []


def test_a_label_that_was_made_anew_is_read_from_the_newest_file(tmp_path: Path) -> None:
    files = IndexFiles(tmp_path / "indexes")
    for _ in range(2):
        files.add(Index.build(LABELS["m01"], GRAPH).save(tmp_path / "draft"))
    assert files.open().homes == {LABELS["m01"].key.digest: (1, 0)}
    files.sweep([LABELS["m01"].key.digest])
    assert [name[:12] for name in files.names()] == ["000000000002"]
