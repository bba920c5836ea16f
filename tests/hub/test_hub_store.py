"""The store: migrations, names, files that models share, and what is swept away."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import event, select, text

from smelt.errors import RecipeError
from smelt.hub.location import find_location
from smelt.hub.store.database import Database, HubUnavailable
from smelt.hub.store.folder import check_empty, write_mark
from smelt.hub.store.migrate import MIGRATIONS, upgrade
from smelt.hub.store.names import check_name
from smelt.hub.store.schema import Base, FileRow, GraphRow, HubRow, LabelRow, ModelRow
from smelt.hub.store.store import HubStore


def empty_store(place) -> HubStore:
    store = HubStore.create(find_location(place))
    with store.staging() as staging:
        (staging / "graph").mkdir()
        graph = GraphRow(version="a" * 64, name="none", nodes=0, pictures=0)
        hub = HubRow(name="hub", embedder="hashed", embedder_config="{}", node_text="caption", graph=graph.version)
        store.found(hub, staging / "graph", graph)
    return store


def put(store: HubStore, name: str, base: str = "", **files: str) -> None:
    import hashlib

    row = ModelRow(
        name=name,
        hash="f" * 64,
        ref="x",
        copied=True,
        base=base,
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


def stored(store: HubStore) -> int:
    return len(list(store.files.folder.glob("??/*")))


def test_the_tables_that_migrations_make_are_those_of_the_code(tmp_path):
    store = HubStore.create(find_location(tmp_path))
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
        "import sqlalchemy as sa\nfrom alembic import op\nrevision, down_revision = '9999', '0002'\n"
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
        "from alembic import op\nrevision, down_revision = '9999', '0002'\n"
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
        HubStore.open(find_location(tmp_path))


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "hub.db").write_text("something else, long enough to be looked at" * 10)
    with pytest.raises(RecipeError, match="file is not a database"):
        HubStore.open(find_location(tmp_path))


def test_a_place_without_a_hub_says_how_to_make_one(tmp_path):
    with pytest.raises(RecipeError, match="smelt hub init"):
        HubStore.open(find_location(tmp_path))
    assert list(tmp_path.iterdir()) == []
    HubStore.create(find_location(tmp_path)).close()  # as if killed before the hub's own row was there
    with pytest.raises(RecipeError, match="smelt hub init"):
        HubStore.open(find_location(tmp_path))
    empty_store(tmp_path)


def test_a_second_hub_in_the_same_place_is_refused(tmp_path):
    empty_store(tmp_path)
    with pytest.raises(RecipeError, match="there is a hub already"):
        HubStore.create(find_location(tmp_path))


@pytest.mark.parametrize("name", ["notes.txt", "models/thesis/draft.txt", "staging/mine/x", "graphs/sales/x", ".git/x"])
def test_a_folder_with_something_in_it_is_refused_and_left_as_it_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(RecipeError, match=rf"not empty \(it holds {name.split('/')[0]}\).*choose a new or empty one"):
        HubStore.create(find_location(tmp_path))
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()] == [Path(name)]


def test_a_database_of_another_program_is_refused(tmp_path):
    sqlite3.connect(tmp_path / "hub.db").execute("CREATE TABLE mine (x INTEGER)").connection.close()
    with pytest.raises(RecipeError, match="not a hub's"):
        HubStore.create(find_location(tmp_path))
    tables = sqlite3.connect(tmp_path / "hub.db").execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("mine",)]


def test_what_is_not_of_the_hubs_own_form_is_never_swept(tmp_path):
    store = empty_store(tmp_path)
    put(store, "one", config="1")
    mine = ["models/my notes/a", "labels/notes.index", "files/ab/readme.txt", f"files/ab/{'c' * 64}", "graphs/old/a"]
    left = [f"labels/{'e' * 64}.index", f"files/cc/{'c' * 64}", f"graphs/{'b' * 64}/x", "models/gone/config"]
    for name in mine + left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    store.remove_model("one")
    assert [name for name in mine + left if (tmp_path / name).exists()] == mine


@pytest.mark.parametrize(("content", "said"), [(None, "has no hub.id"), ("f" * 32, "of another hub")])
def test_a_folder_that_does_not_carry_the_hubs_mark_is_not_swept(tmp_path, content, said):
    store = empty_store(tmp_path)
    put(store, "one", config="1")
    (tmp_path / "hub.id").unlink()
    if content is not None:
        (tmp_path / "hub.id").write_text(content)
    with pytest.raises(RecipeError, match=f"{said}.*must hold {store.hub().mark}"):
        store.remove_model("one")
    assert [row.name for row in store.models()] == ["one"]
    with pytest.raises(RecipeError, match=said), store.write() as session:
        store._sweep(session)
    with pytest.raises(RecipeError, match=said):
        HubStore.open(find_location(tmp_path))
    (tmp_path / "hub.id").write_text(store.hub().mark)
    HubStore.open(find_location(tmp_path)).close()


def test_two_hubs_do_not_share_a_folder(tmp_path):
    server = find_location("postgresql://nowhere.invalid/db", tmp_path)
    check_empty(server)
    write_mark(server, "a" * 32)
    for place in (server, find_location(tmp_path)):
        with pytest.raises(RecipeError, match="belongs to another hub"):
            check_empty(place)
    with pytest.raises(RecipeError, match="another hub took this folder"):
        write_mark(server, "b" * 32)
    assert (tmp_path / "hub.id").read_text().strip() == "a" * 32


def test_a_base_that_was_removed_while_its_pack_came_in_is_noticed(tmp_path):
    store = empty_store(tmp_path)
    put(store, "base", config="1")
    put(store, "pack", base="hub:base", delta="2")
    with pytest.raises(RecipeError, match="base is the base of pack"):
        store.remove_model("base")
    store.remove_model("pack")
    store.remove_model("base")
    with pytest.raises(RecipeError, match="change of base, which was removed meanwhile"):
        put(store, "pack", base="hub:base", delta="2")
    assert (store.models(), stored(store), list((tmp_path / "models").iterdir())) == ([], 0, [])


def label_files(folder):
    for name in ("index", "archive"):
        (folder / name).write_text("x")
    return folder / "index", folder / "archive"


def test_labels_are_asked_for_by_their_digests(tmp_path):
    store = empty_store(tmp_path)
    put(store, "one", config="1")
    digests = [f"{number:064x}" for number in range(1100)]
    with store.write() as session:
        for digest in (digests[0], digests[-1], "9" * 64):
            session.add(LabelRow(digest=digest, model="f" * 64, graph="a" * 64, text="caption", seconds=1))
    asked = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *words: asked.append(words[2]))
    assert set(store.labels(digests)) == {digests[0], digests[-1]}
    questions = [one for one in asked if "FROM labels" in one]
    assert (len(questions), all("WHERE" in one for one in questions)) == (3, True)
    assert store.labels([]) == {}


def test_a_label_of_a_removed_model_or_an_old_graph_is_not_kept(tmp_path):
    store = empty_store(tmp_path)

    def finished(graph, **words):
        row = LabelRow(digest="1" * 64, model="f" * 64, graph=graph, text="caption", seconds=1)
        with store.staging() as staging:
            return store.add_label(row, *label_files(staging), **words)

    assert (finished("a" * 64), list(tmp_path.glob("labels/*"))) == ("removed", [])
    put(store, "one", config="1")
    assert (finished("b" * 64), list(tmp_path.glob("labels/*"))) == ("outgrown", [])
    assert finished("b" * 64, ahead=True) == "kept"


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
        other = HubStore.open(find_location(tmp_path))
        assert other.tidy() == 0
        assert (staging / "half").exists()
    assert not staging.exists()


def test_a_password_never_shows(tmp_path):
    place = find_location("postgresql://me:secret@nowhere.invalid:1/db?connect_timeout=1", tmp_path)
    assert place.shown == "postgresql://nowhere.invalid:1/db"
    with pytest.raises(HubUnavailable) as error, Database(place).read() as session:
        session.execute(text("SELECT 1"))
    assert "secret" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("where", ["mysql://x/y", "sqlite:///x.db"])
def test_other_databases_are_refused(where):
    with pytest.raises(RecipeError, match="a folder or in a Postgres"):
        find_location(where)


def test_a_server_needs_a_folder_for_the_files(monkeypatch):
    monkeypatch.delenv("SMELT_HUB_FILES", raising=False)
    with pytest.raises(RecipeError, match="files=FOLDER"):
        find_location("postgresql://host/db")


def test_the_default_place_follows_the_environment(monkeypatch, tmp_path):
    from smelt.hub.location import default_location

    monkeypatch.setenv("SMELT_HUB", str(tmp_path / "there"))
    assert default_location() == tmp_path / "there"
    assert find_location().folder == (tmp_path / "there").resolve()
    monkeypatch.delenv("SMELT_HUB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_location() == Path(tmp_path) / "smelt" / "hub"


def test_models_are_looked_at_page_by_page_and_no_others_are_loaded(tmp_path):
    store = empty_store(tmp_path)
    for number in range(5):
        put(store, f"m{number}", config=f"{number}")
    with store.write() as session:
        for number, row in enumerate(session.scalars(select(ModelRow).order_by(ModelRow.name))):
            row.parameters, row.description = 100 - number % 2, ("GROSS Äpfel 100%", "small_pears")[number % 2]
    assert [row.name for row in store.model_page("", "name", 1, 2)] == ["m1", "m2"]
    assert [row.name for row in store.model_page("", "size", 0, None)] == ["m0", "m2", "m4", "m1", "m3"]
    assert [row.name for row in store.model_page("", "added", 0, 2)] == ["m4", "m3"]
    assert [row.name for row in store.model_page("äpfel gross", "name", 1, 9)] == ["m2", "m4"]
    assert (store.count_models(), store.count_models("PEARS"), store.count_models("pears äpfel")) == (5, 2, 0)
    assert (store.count_models("0%"), store.count_models("l_p"), store.count_models("%")) == (3, 2, 3)
    loaded = []
    event.listen(ModelRow, "load", lambda row, _: loaded.append(row.name))
    store.model_page("", "name", 3, 1)
    assert loaded == ["m3"]


def test_the_state_of_a_store_changes_with_every_model_and_label(tmp_path):
    store, seen = empty_store(tmp_path), []
    steps = [lambda: put(store, "one", config="1"), lambda: put(store, "two", config="2")]
    for step in [*steps, lambda: store.remove_model("one"), lambda: put(store, "one", config="1")]:
        seen.append(store.changes())
        assert store.changes() == seen[-1]
        step()
    with store.write() as session:
        session.add(LabelRow(digest="1" * 64, model="f" * 64, graph="a" * 64, text="caption", seconds=1))
    seen.append(store.changes())
    assert len(set(seen)) == 5
