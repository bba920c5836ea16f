"""Backups: the rows of one moment with all their files, restored whole into an empty place or not at all."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from hub_processes import ended, kill_at, start
from pico_hub import CLASSES, full_hub, model, new_hub
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.hub.backup import backup as backups
from smelt.hub.backup.manifest import Manifest
from smelt.hub.hub import Hub
from smelt.hub.store.schema import JobRow

CAPTIONS = [f"{name} which is the {name} thing" for name in CLASSES]


def chosen(hub):
    """What a selection says, number for number."""
    return hub.select(CLASSES, nodes=2, k=2, captions=CAPTIONS).as_dict()


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path):
    return full_hub(tmp_path / "hub")


@pytest.fixture
def taken(place, tmp_path):
    """A backup of that hub."""
    with Hub.open(place) as hub:
        hub.backup(tmp_path / "out")
    return tmp_path / "out"


def test_what_is_restored_answers_as_the_hub_did(place, tmp_path):
    with Hub.open(place) as hub:
        secret = hub.create_token("ada")
        made = hub.backup(tmp_path / "out")
        before = chosen(hub), [(card.name, card.hash, card.files, card.added) for card in map(hub.model, ("knows",))]
    assert (made.models, made.labels) == (2, 2)
    Hub.restore(tmp_path / "out", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert (chosen(hub), [(c.name, c.hash, c.files, c.added) for c in [hub.model("knows")]]) == before
        assert hub.check_token(secret) == "ada"
        assert hub.label() == []
        hub.remove("knows")
        assert hub.add(model(tmp_path / "knows")).status == "ready"
    with Hub.open(place) as hub:  # the one that was backed up is a hub of its own still
        assert chosen(hub) == before[0]


def test_the_secret_of_a_token_is_in_no_file_of_a_backup(place, tmp_path):
    with Hub.open(place) as hub:
        secret = hub.create_token("ada").split("_")[2]
        hub.backup(tmp_path / "out")
    assert not any(
        secret.encode() in data or bytes.fromhex(secret) in data for data in content(tmp_path / "out").values()
    )


def test_a_job_that_ran_during_the_backup_waits_in_the_restored_hub(place, tmp_path):
    with Hub.open(place) as hub:
        with hub._store.write() as session:
            session.add(JobRow(kind="label", model="knows", status="running", attempts=1, owner="elsewhere:1:1:1"))
        hub.backup(tmp_path / "out")
    Hub.restore(tmp_path / "out", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert [(job.status, job.model) for job in hub.jobs()] == [("waiting", "knows")]


def test_a_second_backup_needs_force_and_copies_only_what_is_new(place, taken, tmp_path, monkeypatch):
    with Hub.open(place) as hub:
        with pytest.raises(OutputError, match="already exists"):
            hub.backup(taken)
        hub.add(model(tmp_path / "new", "guesses2"), label=False)
        copied, real = [], backups.copy_in
        monkeypatch.setattr(backups, "copy_in", lambda source, *rest: copied.append(source) or real(source, *rest))
        hub.backup(taken, force=True)
    assert len(copied) == 1  # the weights; its other files are those of `knows`
    Hub.restore(taken, tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert [card.name for card in hub.models()] == ["guesses1", "knows", "new"]


def test_a_folder_that_is_no_backup_is_kept(place, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with Hub.open(place) as hub:
        with pytest.raises(OutputError, match="is kept"):
            hub.backup(tmp_path / "mine", force=True)
        for inside in (place / "backup", place, tmp_path):
            with pytest.raises(OutputError, match="hub's own folder"):
                hub.backup(inside, force=True)
    assert content(tmp_path / "mine") == {"letter.txt": b"dear"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub", "mine"]


def test_a_model_that_is_removed_meanwhile_makes_it_look_again(place, tmp_path, monkeypatch):
    with Hub.open(place) as hub, Hub.open(place) as other:
        real, gone = backups._held, []

        def held(store, name, staged):
            if not gone:
                gone.append(name)
                other.remove("guesses1")
            return real(store, name, staged)

        monkeypatch.setattr(backups, "_held", held)
        assert hub.backup(tmp_path / "out").models == 1
    Hub.restore(tmp_path / "out", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert [card.name for card in hub.models()] == ["knows"]


def test_what_is_removed_while_files_are_copied_is_in_the_backup_all_the_same(place, tmp_path, monkeypatch):
    with Hub.open(place) as hub, Hub.open(place) as other:
        real, gone = backups.copy_in, []

        def copied(*words):
            if not gone:
                gone.append(1)
                other.remove("guesses1")
            return real(*words)

        monkeypatch.setattr(backups, "copy_in", copied)
        assert hub.backup(tmp_path / "out").models == 2
        assert [card.name for card in hub.models()] == ["knows"]
    Hub.restore(tmp_path / "out", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert [(card.name, card.label) for card in hub.models()] == [("guesses1", True), ("knows", True)]


def test_a_hub_whose_bytes_have_turned_is_not_backed_up_as_if_they_were_right(place, tmp_path):
    with Hub.open(place) as hub:
        digest = next(sha256 for name, _, sha256 in hub.model("knows").files if name == "config.json")
        path = place / "files" / digest[:2] / digest
        path.write_bytes(path.read_bytes().replace(b"{", b"[", 1))
        with pytest.raises(CorruptFile, match="no longer what it was"):
            hub.backup(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub"]


@pytest.mark.parametrize("what", ["folder", "hub", "file"])
def test_a_place_that_is_taken_is_left_alone(taken, place, tmp_path, what):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("dear")
    before = content(tmp_path)
    with pytest.raises((RecipeError, OutputError)):
        Hub.restore(taken, tmp_path / what)
    assert {path: data for path, data in content(tmp_path).items() if "hub.db-" not in path} == {
        path: data for path, data in before.items() if "hub.db-" not in path
    }


def die_in_backup(place, out, point, call):
    with Hub.open(place) as hub:
        kill_at(point, call, after=False)
        hub.backup(out, force=True)


def die_in_restore(backup, place, point, call):
    kill_at(point, call, after=False)
    Hub.restore(backup, place)


@pytest.mark.parametrize(
    ("point", "call"),
    [
        ("smelt.hub.backup.backup:copy_in", 3),
        ("smelt.hub.backup.manifest:Manifest.save", 1),
        ("smelt.hub.backup.backup:swap_folder", 1),
        ("smelt.files.writing:os.rename", 2),
    ],
)
def test_a_killed_backup_leaves_the_older_one(place, taken, tmp_path, point, call):
    with Hub.open(place) as hub:
        hub.add(model(tmp_path / "new", "guesses2"))
    process = start(die_in_backup, str(place), taken, point, call)
    assert ended(process) == -signal.SIGKILL
    aside = taken.with_name(f".{taken.name}.before")
    assert Manifest.read(aside if aside.exists() else taken).rows["models"].lines == 2
    with Hub.open(place) as hub:
        assert hub.backup(taken, force=True).models == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub", "new", "out"]
    assert list((place / "staging").iterdir()) == []


@pytest.mark.parametrize(
    ("point", "call"),
    [
        ("smelt.hub.backup.restore:copy_in", 3),
        ("smelt.hub.backup.restore:write_rows", 3),
        ("smelt.hub.backup.restore:_settle", 1),
        ("smelt.hub.backup.restore:move_into_place", 1),
    ],
)
def test_a_killed_restore_leaves_no_hub_and_can_be_begun_again(taken, tmp_path, point, call):
    process = start(die_in_restore, taken, tmp_path / "again", point, call)
    assert ended(process) == -signal.SIGKILL
    with pytest.raises(RecipeError, match="there is no hub"):
        Hub.open(tmp_path / "again")
    Hub.restore(taken, tmp_path / "again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "hub", "out"]
    with Hub.open(tmp_path / "again") as hub:
        assert [card.label for card in hub.models()] == [True, True]


def lines_of(taken, name):
    return [json.loads(line) for line in (taken / name).read_text().splitlines()]


def forge(taken, name, lines):
    """Other lines, and a manifest that vouches for them: what an attacker can write."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    (taken / name).write_bytes(data)
    manifest = json.loads((taken / "backup.json").read_text())
    piece = [len(lines), len(data), hashlib.sha256(data).hexdigest()]
    if name == "files.jsonl":
        manifest["files"] = piece
    else:
        manifest["rows"][Path(name).stem] = piece
    (taken / "backup.json").write_text(json.dumps(manifest))


def refused(taken, tmp_path, match):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptFile, match=match):
        Hub.restore(taken, tmp_path / "again")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "path",
    [
        "../escaped",
        "/tmp/escaped",
        "files/../../escaped",
        "hub.db",
        "hub.id",
        "models/knows/config.json",
        "graphs/" + "0" * 64 + "/../../x",
        "graphs/" + "0" * 64 + "/..",
        "staging/x",
        "files/aa/" + "b" * 64,
        "labels/" + "a" * 64 + ".safetensors\n",
    ],
)
def test_a_path_that_no_hub_writes_is_refused(taken, tmp_path, path):
    _, size, digest = lines_of(taken, "files.jsonl")[0]
    forge(taken, "files.jsonl", [[path, size, digest]])
    refused(taken, tmp_path, "is no file of a hub|out of order|another hash")


@pytest.mark.parametrize(
    ("table", "column", "value", "match"),
    [
        ("models", "name", "../../escaped", "cannot be a model's name"),
        ("models", "name", "x" * 101, "name cannot be"),
        ("models", "copied", False, "lies outside of the hub"),
        ("models", "base", "hub:../../x", "outside of the hub"),
        ("files", "name", "../../../escaped", "no file of a model"),
        ("files", "name", "run.py", "no file of a model"),
        ("files", "sha256", "../../escaped", "is no hash"),
        ("files", "size", 1, "no bytes in the backup, or others"),
        ("files", "size", "1", "size cannot be"),
        ("graphs", "version", "..", "is no hash"),
        ("labels", "digest", "0" * 64, "has no file"),
        ("hub", "created", "yesterday", "created cannot be"),
    ],
)
def test_a_row_that_no_hub_has_is_refused(taken, tmp_path, table, column, value, match):
    lines = lines_of(taken, f"rows/{table}.jsonl")
    forge(taken, f"rows/{table}.jsonl", [{**lines[0], column: value}, *lines[1:]])
    refused(taken, tmp_path, match)


def test_a_link_in_a_backup_is_not_followed(taken, tmp_path):
    secret = tmp_path / "secret"
    path = lines_of(taken, "files.jsonl")[0][0]
    data = (taken / path).read_bytes()
    secret.write_bytes(data)
    (taken / path).unlink()
    (taken / path).symlink_to(secret)
    refused(taken, tmp_path, "is a link")
    (taken / path).unlink()
    (taken / path).write_bytes(data)
    shutil.move(taken / "rows", tmp_path / "rows")
    (taken / "rows").symlink_to(tmp_path / "rows")
    refused(taken, tmp_path, "rows is a link")


def test_a_pipe_in_a_backup_does_not_hold_it_up(taken, tmp_path):
    path = lines_of(taken, "files.jsonl")[0][0]
    (taken / path).unlink()
    os.mkfifo(taken / path)
    refused(taken, tmp_path, "no plain file")


def test_a_file_that_has_grown_or_turned_is_refused(taken, tmp_path):
    path = lines_of(taken, "files.jsonl")[0][0]
    data = (taken / path).read_bytes()
    (taken / path).write_bytes(data + bytes(10))
    refused(taken, tmp_path, "larger than")
    (taken / path).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    refused(taken, tmp_path, "by its hash")


def test_files_that_are_more_than_is_told_or_than_fits_are_refused_before_they_are_read(taken, tmp_path):
    lines = lines_of(taken, "files.jsonl")
    forge(taken, "files.jsonl", [[path, 10**18, digest] for path, _, digest in lines])
    refused(taken, tmp_path, "larger than the")
    manifest = json.loads((taken / "backup.json").read_text())
    (taken / "backup.json").write_text(json.dumps({**manifest, "bytes": 10**18}))
    with pytest.raises(OutputError, match="are free there"):
        Hub.restore(taken, tmp_path / "again")


def test_a_row_without_end_is_refused(taken, tmp_path, monkeypatch):
    monkeypatch.setattr("smelt.hub.backup.rows._LONGEST", 100)
    refused(taken, tmp_path, "longer than 100 bytes")


def test_a_backup_of_another_revision_says_what_to_do(taken, tmp_path):
    manifest = json.loads((taken / "backup.json").read_text())
    (taken / "backup.json").write_text(json.dumps({**manifest, "revision": "9999"}))
    with pytest.raises(RecipeError, match="tables are of revision 9999"):
        Hub.restore(taken, tmp_path / "again")
    (taken / "backup.json").write_text("{}")
    with pytest.raises(CorruptFile, match="no backup of a hub"):
        Hub.restore(taken, tmp_path / "again")


def test_an_empty_hub_is_backed_up_too(tmp_path):
    with new_hub(tmp_path / "hub", embedder="hashed") as hub:
        hub.backup(tmp_path / "out")
    Hub.restore(tmp_path / "out", tmp_path / "again")
    with Hub.open(tmp_path / "again") as hub:
        assert (hub.models(), len(hub.graph.nodes)) == ([], 4)
