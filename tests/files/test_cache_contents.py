"""`smelt cache`: every kind is known, counts and times can be checked by hand, and cleaning takes what it may alone."""

import ast
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smelt
from smelt.errors import RecipeError
from smelt.files.cache import CACHE_KINDS, cache_folder, cached_path

SOURCE = Path(smelt.__file__).parent
DAY = 86_400
NAMES = {
    "hashes": "hashes.json",
    "towers": f"{'a' * 64}.json",
    "zoo": "pico-llama-0123456789ab",
    "statistics": "b" * 32,
    "learned": "c" * 64,
    "mix": "d" * 64,
    "heads": f"answers-{'e' * 64}.f32",
    "features": f"{'f' * 32}.safetensors",
    "hub": f"{'1' * 32}.label",
    "captions": f"{'2' * 64}.txt",
    "embeddings": f"{'3' * 32}.sqlite",
    "open_clip": "8" * 32,
    "small_files": "9" * 32,
    "wordnet": "4" * 16,
    "completion": f"methods-{'6' * 16}.json",
    "slurm": "77_0_result.pkl",
}
FOLDERS = {"zoo", "statistics", "learned", "mix", "open_clip", "small_files", "wordnet"}


def put(kind, name=None, *, size=100, days=0.0):
    """A thing of this kind that was last used so many days ago."""
    place = cached_path(kind, name or NAMES[kind])
    file = place / "one.bin" if kind in FOLDERS else place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))
    then = time.time() - days * DAY
    os.utime(file, (then, then))
    return place


def names_there():
    return sorted(path.relative_to(cache_folder()).as_posix() for path in cache_folder().rglob("*") if path.is_file())


def calls(name):
    """Where a function is called in the source: (file, its first argument)."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name:
                first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
                yield path.relative_to(SOURCE).as_posix(), first


def test_whoever_keeps_something_asks_the_table_for_its_place():
    users = {file for file, _ in calls("cache_folder")}
    assert users <= {"files/cache.py", "files/cache_contents.py", "files/cache_cleaning.py"}, "use cached_path"
    assert {kind for _, kind in calls("cached_path")} == set(CACHE_KINDS)


def test_a_name_that_the_table_does_not_have_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="CACHE_KINDS"):
        cached_path("statistics", "of-photos")
    with pytest.raises(KeyError):
        cached_path("statistic", "a" * 32)


def test_what_the_rooms_really_write_is_listed_under_their_kind(tmp_path, two):
    import torch

    from smelt.files.identity import file_hashes
    from smelt.learning.store import lock_of, place_of
    from smelt.models.families.clip.head_cache import remembered

    file_hashes([two[0] / "model.safetensors"])
    remembered("0" * 64, (2,), lambda: torch.ones(2))
    for place in (*place_of("5" * 64), lock_of("5" * 64)):
        place.parent.mkdir(exist_ok=True)
        place.touch()
    found = {one.kind: one.entries for one in smelt.list_cache().kinds if one.entries}
    assert found == {"hashes": 1, "heads": 1, "learned": 1}
    assert smelt.list_cache().others == []


def test_slurms_jobs_are_listed_one_by_one():
    pytest.importorskip("submitit")
    from smelt.jobs.job import Job
    from smelt.jobs.slurm import SlurmExecutor

    queue = SlurmExecutor(cluster="local")
    queue.start()
    queue.submit(1, Job("math:sqrt", {}))
    queue.wait()
    queue.stop()
    (slurm,) = smelt.list_cache(["slurm"]).kinds
    assert (slurm.entries, smelt.list_cache().others) == (1, [])


def test_every_kind_is_counted_with_size_and_times():
    for number, kind in enumerate(CACHE_KINDS):
        put(kind, size=10 + number, days=number)
    found = smelt.list_cache()
    assert [one.kind for one in found.kinds] == list(CACHE_KINDS)
    assert [(one.entries, one.bytes) for one in found.kinds] == [(1, 10 + number) for number in range(len(CACHE_KINDS))]
    assert found.bytes == sum(10 + number for number in range(16)) == 280
    assert all(one.first == one.last for one in found.kinds)
    assert found.kinds[0].last > found.kinds[1].last > found.kinds[14].last


def test_first_use_is_the_oldest_writing_and_last_use_the_latest_reading():
    put("heads", "one.f32", days=9)
    file = put("heads", "two.f32", days=5)
    os.utime(file, (time.time() - 2 * DAY, time.time() - 5 * DAY))  # written five days ago, read two days ago
    (heads,) = smelt.list_cache(["heads"]).kinds
    assert heads.entries == 2
    assert (_days_ago(heads.first), _days_ago(heads.last)) == (9, 2)
    assert [one.entries for one in smelt.list_cache(["heads"], older_than="3d").kinds] == [1]


def _days_ago(moment):
    from datetime import UTC, datetime

    return round((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds() / DAY)


@pytest.mark.parametrize(("age", "gone"), [("30d", 1), ("3w", 2), ("36h", 3), (0, 4), (None, 4)])
def test_cleaning_by_age_takes_what_was_not_used_for_so_long(age, gone):
    for number, days in enumerate((0, 2, 25, 40)):
        put("heads", f"head{number}.f32", days=days)
    done = smelt.clean_cache(older_than=age)
    assert [one.name for one in done.removed] == [f"head{number}.f32" for number in range(4 - gone, 4)]
    assert names_there() == [f"heads/head{number}.f32" for number in range(4 - gone)]
    assert done.bytes == 100 * gone


def test_cleaning_by_kind_leaves_all_other_kinds():
    for kind in CACHE_KINDS:
        put(kind)
    smelt.clean_cache(["statistics", "hashes"])
    left = {one.kind for one in smelt.list_cache().kinds if one.entries}
    assert left == set(CACHE_KINDS) - {"statistics", "hashes"}


def test_no_kind_at_all_is_nothing_to_remove():
    put("heads", "one.f32")
    assert smelt.clean_cache([]).removed == []
    assert names_there() == ["heads/one.f32"]


def test_a_dry_run_removes_nothing_and_says_the_same():
    for kind in CACHE_KINDS:
        put(kind)
    before = names_there()
    would = smelt.clean_cache(dry_run=True)
    assert names_there() == before
    assert smelt.clean_cache().removed == would.removed
    assert names_there() == []


@pytest.mark.parametrize("bad", ["3x", "", "d", "-1d", "30", -1.0, float("nan")])
def test_an_age_that_cannot_be_read_is_refused(bad):
    with pytest.raises(RecipeError, match="age"):
        smelt.clean_cache(older_than=bad)


def test_what_is_not_named_as_ours_is_left_alone_and_told():
    (cache_folder() / "statistics").mkdir(parents=True)
    for name in ("notes.txt", "statistics/my thesis.pdf"):
        (cache_folder() / name).write_text("mine")
    assert smelt.list_cache().others == ["notes.txt", "statistics/my thesis.pdf"]
    smelt.clean_cache()
    assert names_there() == ["notes.txt", "statistics/my thesis.pdf"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_nothing_outside_of_the_folder_is_removed_through_links(tmp_path):
    precious = tmp_path / "precious"
    for name in ("a" * 32, "b" * 32):
        (precious / name).mkdir(parents=True)
        (precious / name / "data").write_text("mine")
    root = cache_folder()
    (root / "statistics").symlink_to(precious)  # a kind's folder
    (root / "mix").mkdir(parents=True)
    (root / "mix" / ("d" * 64)).symlink_to(precious / ("a" * 32))  # an entry
    inside = put("learned")
    (inside / "models").symlink_to(precious)  # a link in an entry
    (root / "hashes.json").symlink_to(precious / ("a" * 32) / "data")
    done = smelt.clean_cache()
    assert [one.kind for one in done.removed] == ["learned"]
    assert sorted(path.name for path in precious.rglob("data")) == ["data", "data"]
    assert smelt.list_cache().others == ["hashes.json", f"mix/{'d' * 64}", "statistics"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_the_cache_folder_itself_may_be_a_link_to_a_larger_disk(tmp_path, monkeypatch):
    (tmp_path / "large").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "large")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    put("heads", "one.f32")
    assert len(smelt.clean_cache().removed) == 1
    assert list((tmp_path / "large" / "heads").iterdir()) == []


HOLDERS = {
    "a lock beside it": ("learned", "lock", "locked"),
    "a locked folder in it": ("mix", "folder", "locked"),
    "a lock of SQLite": ("embeddings", "sqlite", "open"),
    "an open file": ("zoo", "open", "open"),
    "a mapped file": ("hub", "map", "open"),
}
HOLD = """
import fcntl, mmap, os, sqlite3, sys
way, path = sys.argv[1:]
if way in ("lock", "folder"):
    held = os.open(path, os.O_RDONLY if way == "folder" else os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
elif way == "sqlite":
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("begin exclusive")
elif way == "map":
    with open(path, "rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
else:
    held = open(path, "rb")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc for what a process has open")
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_a_running_process_uses_is_kept_until_it_ends(holder):
    kind, way, said = HOLDERS[holder]
    place = put(kind)
    file = {"lock": place.with_name(f"{place.name}.lock"), "folder": place / "learning", "open": place / "one.bin"}
    target = file.get(way, place)
    if way == "folder":
        target.mkdir()
    if way == "sqlite":
        target.unlink()
        with contextlib.closing(sqlite3.connect(target)) as made:
            made.execute("create table vectors (key)")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, way, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    try:
        done = smelt.clean_cache()
        assert place.exists()
        assert (done.removed, [entry.kind for entry, _ in done.kept]) == ([], [kind])
        assert said in done.kept[0][1] or "open" in done.kept[0][1]
    finally:
        process.communicate()
    assert [one.kind for one in smelt.clean_cache().removed] == [kind]
    assert names_there() == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
@pytest.mark.parametrize("way", ["flock", "record"])
def test_locks_are_enough_where_the_system_does_not_tell_what_is_open(way, monkeypatch):
    import smelt.files.cache_cleaning as cleaning

    monkeypatch.setattr(cleaning, "_open_files", lambda root: frozenset())
    place = put("embeddings")
    hold = (
        HOLD if way == "flock" else HOLD.replace("fcntl.flock(held, fcntl.LOCK_EX)", "fcntl.lockf(held, fcntl.LOCK_EX)")
    )
    process = subprocess.Popen(
        [sys.executable, "-c", hold, "lock", str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    try:
        assert [reason for _, reason in smelt.clean_cache().kept] == ["a process has it locked"]
    finally:
        process.communicate()


def test_what_is_being_made_is_kept_for_an_hour():
    for name, hours in ((f".{NAMES['zoo']}.0a1b2c3d", 0.5), (f".{NAMES['zoo']}.11111111", 1.5)):
        folder = cache_folder() / "zoo" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(10))
        then = time.time() - 3600 * hours
        os.utime(folder / "model.safetensors", (then, then))
    done = smelt.clean_cache()
    assert [one.name for one in done.removed] == [f".{NAMES['zoo']}.11111111"]
    assert [reason for _, reason in done.kept] == ["it is being made"]


def test_a_job_of_slurm_without_its_result_is_kept_for_a_week():
    for number, days in ((1, 3), (2, 8)):
        file = cache_folder() / "slurm" / f"{number}_submitted.pkl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (time.time() - days * DAY,) * 2)
    put("slurm", "1_0_log.out", days=3)
    put("slurm", "3_0_result.pkl")
    done = smelt.clean_cache()
    assert ([one.name for one in done.removed], [one.name for one, _ in done.kept]) == (["2", "3"], ["1"])


def test_ctrl_c_in_the_middle_leaves_no_half_entry_and_the_next_run_removes_the_rest(monkeypatch):
    place = put("statistics")
    (place / "two.bin").write_bytes(bytes(5))

    def interrupted(path):
        (Path(path) / "one.bin").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            smelt.clean_cache()
    assert not place.exists()
    (rest,) = names_there()
    assert rest.endswith(".removed/two.bin")
    (statistics,) = smelt.list_cache(["statistics"]).kinds
    assert (statistics.entries, statistics.bytes) == (1, 5)
    assert smelt.clean_cache().bytes == 5
    assert names_there() == []


def test_the_command_lists_kinds_with_something_in_them(cli):
    put("heads", "one.f32", size=1500)
    ran = cli("cache")
    assert ran.code == 0
    assert "heads" in ran.out
    assert "1.5 kB" in ran.out
    assert "statistics" not in ran.out
    assert max(map(len, ran.out.splitlines()[:4])) <= 80
    whole = json.loads(cli("cache", "--json").out)
    assert (whole["bytes"], len(whole["kinds"])) == (1500, len(CACHE_KINDS))


def test_in_a_script_cleaning_wants_a_yes(cli):
    put("heads", "one.f32")
    ran = cli("cache", "clean")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("smelt: this removes things from the cache: say --yes")
    assert names_there() == ["heads/one.f32"]
    ran = cli("cache", "clean", "--dry-run", "--json")
    assert json.loads(ran.out)["removed"] == [{"kind": "heads", "name": "one.f32", "bytes": 100}]
    assert names_there() == ["heads/one.f32"]
    ran = cli("cache", "clean", "--yes")
    assert (ran.code, ran.out) == (0, f"{cache_folder()}: 1 entry, 100 B removed\n")
    assert names_there() == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no such terminals")
@pytest.mark.parametrize(("typed", "code", "left"), [("n", 2, 1), ("y", 0, 0), ("\x03", 1, 1)])
def test_on_a_terminal_it_asks(typed, code, left):
    put("heads", "one.f32")
    answered, said = on_a_terminal(
        [sys.executable, "-c", "from smelt.cli import process; process()", "cache", "clean"], typed
    )
    assert answered == code, said
    assert "Remove? [y/N]" in said
    assert "Traceback" not in said
    assert len(names_there()) == left


def on_a_terminal(command, typed):
    """Run a command on a terminal of its own and answer its question; gives the exit code and all that was said."""
    import pty

    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
        os.execv(command[0], command)
    said = b""
    try:
        while b"[y/N]" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, typed.encode() + (b"" if typed == "\x03" else b"\n"))
        while part := os.read(terminal, 1000):
            said += part
    except OSError:  # its end, on Linux
        pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode()
