"""The hub on a real Postgres server: the same behaviour as on SQLite, several writers included."""

import signal

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

import postgres
from hub_processes import WAY, add, add_many, ended, start
from pico_hub import CLASSES, model, new_hub, pixels
from smelt.errors import RecipeError
from smelt.hub.hub import Hub
from smelt.hub.store.schema import Base

CAPTIONS = [f"{name} which is the {name} thing" for name in CLASSES]


@pytest.fixture(scope="module")
def server():
    with postgres.server() as url:
        yield url


@pytest.fixture
def place(server, tmp_path):
    """A fresh database and a folder."""
    return postgres.database(server, tmp_path), tmp_path / "files"


def test_the_tables_are_those_of_the_code(place):
    with new_hub(place[0], files=place[1], embedder="hashed") as hub, hub._store.database.connection() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_a_hub_on_postgres_adds_selects_predicts_and_removes(place, tmp_path):
    url, files = place
    with pytest.raises(RecipeError, match="smelt hub init"):
        Hub.open(url, files=files)
    with new_hub(url, files=files, embedder="hashed") as hub:
        for name in ("guesses1", "knows"):
            hub.add(model(tmp_path / name, name))
        secret = hub.create_token("ada")
    with pytest.raises(RecipeError, match="there is a hub already"):
        new_hub(url, files=files, embedder="hashed")
    with Hub.open(url, files=files) as hub:
        selection = hub.select(CLASSES, nodes=1, captions=CAPTIONS)
        assert selection.used == ("knows",)
        assert hub.predict([pixels("blue"), pixels("green")], selection).names == ["blue", "green"]
        assert hub.check_token(secret) == "ada"
        hub.remove("knows")
        assert [card.name for card in hub.models()] == ["guesses1"]
        assert hub.models()[0].added.tzinfo is not None


@pytest.mark.parametrize("after", [False, True])
def test_a_killed_add_leaves_no_half_model(place, tmp_path, after):
    url, files = place
    new_hub(url, files=files, embedder="hashed").close()
    folder = model(tmp_path / "knows")
    process = start(add, url, folder, "smelt.hub.store.store:move_into_place", 1, after, False, files)
    assert ended(process) == -signal.SIGKILL
    with Hub.open(url, files=files) as hub:
        assert (hub.models(), list(files.glob("models/*")), list(files.glob("files/??/*"))) == ([], [], [])
        assert hub.add(folder, label=False).name == "knows"


def test_two_writers_at_once_lose_nothing_and_one_gets_the_name(place, tmp_path):
    url, files = place
    new_hub(url, files=files, embedder="hashed").close()
    work = [[model(tmp_path / side / name) for name in (f"{side}1", "same", f"{side}2")] for side in "ab"]
    ready = WAY.Barrier(2)
    both = [start(add_many, url, folders, ready, files) for folders in work]
    assert sorted(ended(process) for process in both) == [0, 1]
    with Hub.open(url, files=files) as hub:
        assert [card.name for card in hub.models()] == ["a1", "a2", "b1", "b2", "same"]
