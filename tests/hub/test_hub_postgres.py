"""The hub on a real Postgres server: the same behaviour as on SQLite, several writers included."""

import signal

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from starlette.testclient import TestClient

import postgres
from hub_processes import WAY, add, add_many, ended, kill_at, start
from pico_hub import CLASSES, full_hub, model, new_hub, pixels
from smelt.errors import RecipeError
from smelt.hub.hub import Hub
from smelt.hub.service import create_app
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


def chosen(hub):
    return hub.select(CLASSES, nodes=2, k=2, captions=CAPTIONS).as_dict()


def test_a_backup_goes_from_sqlite_to_postgres_and_back(server, tmp_path):
    with Hub.open(full_hub(tmp_path / "hub")) as hub:
        secret, before = hub.create_token("ada"), chosen(hub)
        hub.backup(tmp_path / "first")
    url, files = postgres.database(server, tmp_path), tmp_path / "files"
    Hub.restore(tmp_path / "first", url, files=files)
    with pytest.raises(RecipeError, match="is not empty"):
        Hub.restore(tmp_path / "first", url, files=files)
    with pytest.raises(RecipeError, match="there is a hub already"):
        Hub.restore(tmp_path / "first", url, files=tmp_path / "others")
    with Hub.open(url, files=files) as hub:
        assert (chosen(hub), hub.check_token(secret)) == (before, "ada")
        assert hub.add(model(tmp_path / "third", "guesses2")).label  # its number is one that no row had
        hub.backup(tmp_path / "second")
    Hub.restore(tmp_path / "second", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert [card.name for card in hub.models()] == ["guesses1", "knows", "third"]
        hub.remove("third")
        assert (chosen(hub), hub.check_token(secret)) == (before, "ada")


def die_in_restore(backup, url, files, point):
    kill_at(point, 1, after=True)
    Hub.restore(backup, url, files=files)


@pytest.mark.parametrize("point", ["smelt.hub.backup.restore:write_rows", "smelt.hub.backup.restore:_settle"])
def test_a_restore_that_is_killed_before_its_rows_are_there_can_be_begun_again(server, tmp_path, point):
    with Hub.open(full_hub(tmp_path / "hub")) as hub:
        hub.backup(tmp_path / "out")
    url, files = postgres.database(server, tmp_path), tmp_path / "files"
    assert ended(start(die_in_restore, tmp_path / "out", url, files, point)) == -signal.SIGKILL
    with pytest.raises(RecipeError, match="there is no hub"):
        Hub.open(url, files=files)
    Hub.restore(tmp_path / "out", url, files=files)
    with Hub.open(url, files=files) as hub:
        assert [card.label for card in hub.models()] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "hub", "out"]


def test_while_the_server_is_away_the_service_says_so_and_then_goes_on(tmp_path):
    with postgres.server() as server:
        files = tmp_path / "files"
        with new_hub(server, files=files, embedder="hashed") as hub:
            hub.add(model(tmp_path / "knows"))
            token = hub.create_token("ada")
            client = TestClient(create_app(hub), raise_server_exceptions=False)
            ask = {"classes": ["red"]}
            assert client.post("/api/v1/select", json=ask).status_code == 200
            with postgres.away(server):
                auth = {"Authorization": f"Bearer {token}"}
                answers = [
                    client.get("/models"),
                    client.get("/api/v1/models/knows"),
                    client.get("/api/v1/jobs/1"),
                    client.post("/api/v1/select", json=ask),
                    client.post("/api/v1/submit", headers=auth, files=[("files", ("config.json", b"{}"))]),
                    client.post("/api/v1/jobs/1/cancel", headers=auth),
                ]
                assert [answer.status_code for answer in answers] == [503] * 6
                for answer in answers:
                    assert answer.headers["Retry-After"] == "2"
                    assert "away or busy" in answer.text
                    assert str(tmp_path) not in answer.text
            assert client.post("/api/v1/select", json=ask).json()["used"] == ["knows"]
            assert client.get("/models").status_code == 200
            assert hub.check_token(token) == "ada"
