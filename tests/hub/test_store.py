"""The store: migrations, names, files that models share, and what is swept away."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from smelt.errors import RecipeError
from smelt.hub.place import find_place
from smelt.hub.store import Store
from smelt.hub.store.database import Database
from smelt.hub.store.migrate import MIGRATIONS, upgrade
from smelt.hub.store.names import check_name
from smelt.hub.store.schema import Base, FileRow, GraphRow, HubRow, ModelRow


def empty_store(place) -> Store:
    store = Store.create(find_place(place))
    with store.staging() as staging:
        (staging / "graph").mkdir()
        graph = GraphRow(version="a" * 64, name="none", nodes=0, pictures=0)
        hub = HubRow(name="hub", embedder="hashed", embedder_config="{}", node_text="caption", graph=graph.version)
        store.found(hub, staging / "graph", graph)
    return store


def put(store: Store, name: str, **files: str) -> None:
    import hashlib

    row = ModelRow(
        name=name,
        hash="f" * 64,
        ref="x",
        copied=True,
        family="clip",
        architecture="",
        parameters=1,
        bytes=1,
        preprocess="",
    )
    with store.staging() as staging:
        (staging / "model").mkdir()
        for file, content in files.items():
            (staging / "model" / file).write_text(content)
            digest = hashlib.sha256(content.encode()).hexdigest()
            row.files.append(FileRow(name=file, sha256=digest, size=len(content)))
        store.add_model(row, staging / "model")


def stored(store: Store) -> int:
    return len(list(store.files.folder.glob("??/*")))


def test_the_tables_that_migrations_make_are_those_of_the_code(tmp_path):
    store = Store.create(find_place(tmp_path))
    with store.database.connection() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_readers_do_not_wait_for_a_writer(tmp_path):
    store = empty_store(tmp_path)
    with store.write() as session:
        session.execute(text("UPDATE hub SET name = 'other'"))
        assert store.hub().name == "hub"
    assert store.hub().name == "other"
    assert sqlite3.connect(tmp_path / "hub.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_older_database_is_brought_up_to_date(tmp_path):
    store = empty_store(tmp_path / "hub")
    newer = tmp_path / "migrations"
    (newer / "versions").mkdir(parents=True)
    for old in MIGRATIONS.glob("versions/0*.py"):
        (newer / "versions" / old.name).write_text(old.read_text())
    (newer / "versions" / "9999_colour.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\nrevision, down_revision = '9999', '0001'\n"
        "def upgrade():\n    op.add_column('hub', sa.Column('colour', sa.String, server_default='blue'))\n"
    )
    assert upgrade(store.database, newer) == ["9999"]
    with store.read() as session:
        assert session.execute(text("SELECT name, colour FROM hub")).one() == ("hub", "blue")
    assert upgrade(store.database, newer) == []


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path):
    store = empty_store(tmp_path / "hub")
    newer = tmp_path / "migrations"
    (newer / "versions").mkdir(parents=True)
    for old in MIGRATIONS.glob("versions/0*.py"):
        (newer / "versions" / old.name).write_text(old.read_text())
    (newer / "versions" / "9999_broken.py").write_text(
        "from alembic import op\nrevision, down_revision = '9999', '0001'\n"
        "def upgrade():\n    op.execute('CREATE TABLE half (x INTEGER)')\n    raise ValueError('broken')\n"
    )
    with pytest.raises(ValueError, match="broken"):
        upgrade(store.database, newer)
    with store.read() as session:
        assert session.execute(text("SELECT count(*) FROM sqlite_master WHERE name = 'half'")).scalar() == 0
    assert upgrade(store.database) == []


def test_a_database_of_a_newer_smelt_is_refused(tmp_path):
    store = empty_store(tmp_path)
    with store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '7777'"))
    store.close()
    with pytest.raises(RecipeError, match="newer Smelt"):
        Store.open(find_place(tmp_path))


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "hub.db").write_text("something else, long enough to be looked at" * 10)
    with pytest.raises(RecipeError, match="file is not a database"):
        Store.open(find_place(tmp_path))


def test_a_place_without_a_hub_says_how_to_make_one(tmp_path):
    with pytest.raises(RecipeError, match="smelt hub init"):
        Store.open(find_place(tmp_path))
    assert list(tmp_path.iterdir()) == []
    Store.create(find_place(tmp_path)).close()  # as if killed before the hub's own row was there
    with pytest.raises(RecipeError, match="smelt hub init"):
        Store.open(find_place(tmp_path))
    empty_store(tmp_path)


def test_a_second_hub_in_the_same_place_is_refused(tmp_path):
    empty_store(tmp_path)
    with pytest.raises(RecipeError, match="there is a hub already"):
        Store.create(find_place(tmp_path))


def test_equal_files_of_two_models_are_stored_once_and_outlive_one_of_them(tmp_path):
    store = empty_store(tmp_path)
    put(store, "one", config="same", weights="1")
    put(store, "two", config="same", weights="2")
    assert stored(store) == 3
    folders = [store.model_folder(name) for name in ("one", "two")]
    assert len({(folder / "config").stat().st_ino for folder in folders}) == 1
    store.remove_model("one")
    assert (stored(store), folders[0].exists(), (folders[1] / "config").read_text()) == (2, False, "same")
    store.remove_model("two")
    assert stored(store) == 0


def test_files_are_copied_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    store = empty_store(tmp_path)
    put(store, "one", config="same")
    put(store, "two", config="same")
    assert stored(store) == 1
    store.remove_model("one")
    assert (store.model_folder("two") / "config").read_text() == "same"


def test_a_taken_name_is_refused_and_leaves_the_first_model_alone(tmp_path):
    store = empty_store(tmp_path)
    put(store, "one", config="first")
    with pytest.raises(RecipeError, match="has a model named 'one' already"):
        put(store, "one", config="second")
    assert (store.model_folder("one") / "config").read_text() == "first"
    assert stored(store) == 1


@pytest.mark.parametrize("name", ["", "..", ".x", "a/b", "a b", "ä", "a" * 101, "-x", "a\n"])
def test_a_name_that_is_no_safe_folder_is_refused(name):
    with pytest.raises(RecipeError, match="cannot be a model's name"):
        check_name(name)


def test_an_unknown_model_is_named_with_what_was_probably_meant(tmp_path):
    store = empty_store(tmp_path)
    put(store, "colours", config="x")
    with pytest.raises(RecipeError, match="did you mean 'colours'"):
        store.model("colour")


def test_what_a_live_process_is_making_is_not_swept(tmp_path):
    store = empty_store(tmp_path)
    with store.staging() as staging:
        (staging / "half").write_text("x")
        other = Store.open(find_place(tmp_path))
        assert other.tidy() == 0
        assert (staging / "half").exists()
    assert not staging.exists()


def test_a_password_never_shows(tmp_path):
    place = find_place("postgresql://me:secret@nowhere.invalid:1/db?connect_timeout=1", tmp_path)
    assert place.shown == "postgresql://nowhere.invalid:1/db"
    with pytest.raises(RecipeError) as error, Database(place).read() as session:
        session.execute(text("SELECT 1"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("where", ["mysql://x/y", "sqlite:///x.db"])
def test_other_databases_are_refused(where):
    with pytest.raises(RecipeError, match="a folder or in a Postgres"):
        find_place(where)


def test_a_server_needs_a_folder_for_the_files(monkeypatch):
    monkeypatch.delenv("SMELT_HUB_FILES", raising=False)
    with pytest.raises(RecipeError, match="--files"):
        find_place("postgresql://host/db")


def test_the_default_place_follows_the_environment(monkeypatch, tmp_path):
    from smelt.hub.place import default_place

    monkeypatch.setenv("SMELT_HUB", str(tmp_path / "there"))
    assert default_place() == tmp_path / "there"
    assert find_place().folder == (tmp_path / "there").resolve()
    monkeypatch.delenv("SMELT_HUB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_place() == Path(tmp_path) / "smelt" / "hub"
