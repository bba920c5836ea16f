"""A process that is killed while it adds or labels leaves nothing half, and two that write at once lose nothing."""

import signal

import pytest

from hub_processes import WAY, add, add_and_merge, add_many, ended, start
from pico_hub import model, new_hub
from smelt.hub.hub import Hub
from smelt.hub.labels.index import Index

KILLED = -signal.SIGKILL
POINTS = [
    ("smelt.hub.models.intake:copy_in", 2, True),
    ("smelt.hub.models.add:check_model", 1, False),
    ("smelt.hub.models.add:check_model", 1, True),
    ("smelt.hub.store.store:ContentStore.share", 2, True),
    ("smelt.hub.store.store:move_into_place", 1, False),
    ("smelt.hub.store.store:move_into_place", 1, True),
]


@pytest.fixture
def place(tmp_path):
    new_hub(tmp_path / "hub", embedder="hashed").close()
    return tmp_path / "hub"


def files(place):
    return sorted(str(path.relative_to(place)) for path in place.glob("*/**/*") if "graphs" not in path.parts)


@pytest.mark.parametrize(("point", "call", "after"), POINTS)
def test_a_killed_add_leaves_no_half_model_and_can_be_done_again(place, tmp_path, point, call, after):
    folder = model(tmp_path / "knows")
    assert ended(start(add, place, folder, point, call, after)) == KILLED
    assert any((place / "staging").iterdir())  # it was killed in the middle, not before
    with Hub.open(place) as hub:
        assert hub.models() == []
        assert [name for name in files(place) if name.count("/") > 1] == []
        assert hub.add(folder, label=False).name == "knows"
        hub.classifier("knows")


def test_killed_after_the_commit_it_is_there_as_a_whole(place, tmp_path):
    folder = model(tmp_path / "knows")
    assert ended(start(add, place, folder, "smelt.hub.store.store:HubStore.add_model", 1, True)) == KILLED
    with Hub.open(place) as hub:
        assert [card.name for card in hub.models()] == ["knows"]
        hub.classifier("knows")


@pytest.mark.parametrize(
    ("point", "call"),
    [("smelt.hub.labels.labelling:make_label", 1), ("smelt.hub.store.index_files:move_into_place", 1)],
)
def test_a_killed_labelling_leaves_a_whole_model_that_waits(place, tmp_path, point, call):
    folder = model(tmp_path / "knows")
    assert ended(start(add, place, folder, point, call, True, True)) == KILLED
    with Hub.open(place) as hub:
        assert [(card.name, card.status) for card in hub.models()] == [("knows", "waiting")]
        assert list((place / "labels").glob("*")) + list((place / "indexes").glob("*.segment")) == []
        assert hub.label() == ["knows"]
        assert hub.model("knows").status == "ready"


@pytest.mark.parametrize(
    ("point", "after", "lie_there"),
    [
        ("smelt.hub.store.index_upkeep:merge_segments", True, 2),  # written, but not in its place
        ("smelt.hub.store.index_files:IndexFiles._place", True, 2),  # the label's own file
        ("smelt.hub.store.index_files:IndexFiles.replace", False, 2),
        ("smelt.hub.store.index_files:IndexFiles.replace", True, 1),  # before the transaction's end
    ],
)
def test_a_killed_merge_of_the_index_leaves_the_old_files_or_the_new_one(place, tmp_path, point, after, lie_there):
    with Hub.open(place) as hub:
        hub.add(model(tmp_path / "first"))
        want = {card.name for card in hub.models()}
    assert ended(start(add_and_merge, place, model(tmp_path / "second", "guesses1"), point, after)) == KILLED
    assert len(list((place / "indexes").glob("*.segment"))) == lie_there
    with Hub.open(place) as hub:
        if point.endswith("_place"):  # killed before the label's row was written
            assert hub.label() == ["second"]
        graph = hub.graph
        table = hub._labelling.indexes(None, graph)
        assert set(table) == want | {"second"}
        assert hub.label() == [], "nothing is damaged"
        for name in table:
            row = hub._store.model(name)
            alone = Index.build(hub._labelling.archive(row, graph), graph)
            assert table[name].right([1, 2, 3])[0].tolist() == alone.right([1, 2, 3])[0].tolist()
    assert len(list((place / "indexes").glob("*.segment"))) in (1, 2)
    assert list((place / "staging").iterdir()) == []


def test_readers_select_while_a_writer_adds_and_merges(place, tmp_path):
    names = ("guesses1", "guesses2")
    with Hub.open(place) as reader:
        reader.add(model(tmp_path / "first"))
        for number, name in enumerate(names):
            process = start(add_and_merge, place, model(tmp_path / f"more{number}", name))
            while process.is_alive():
                assert len(reader._labelling.indexes(None, reader.graph)) >= number + 1
            assert ended(process) == 0
            assert len(reader._labelling.indexes(None, reader.graph)) == number + 2
    assert len(list((place / "indexes").glob("*.segment"))) < 4


def test_two_writers_at_once_lose_nothing_and_one_gets_the_name(place, tmp_path):
    work = [[model(tmp_path / side / name) for name in (f"{side}1", "same", f"{side}2")] for side in "ab"]
    ready = WAY.Barrier(2)
    both = [start(add_many, place, folders, ready) for folders in work]
    assert sorted(ended(process) for process in both) == [0, 1]
    with Hub.open(place) as hub:
        assert [card.name for card in hub.models()] == ["a1", "a2", "b1", "b2", "same"]
        assert all(len(hub.model(name).files) == len(list(work[0][0].iterdir())) for name in ("a1", "same"))
        assert list((place / "staging").iterdir()) == []
        for card in hub.models():
            hub.remove(card.name)
        assert list(place.glob("files/??/*")) == []
