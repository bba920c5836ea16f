"""What is written is there whole or not at all, and leaves no rest beside it."""

import os

import pytest

from smelt.errors import OutputError
from smelt.files.cache import write_cached
from smelt.files.writing import (
    atomic_file,
    atomic_folder,
    move_into_place,
    recover_swap,
    write_file,
    write_json,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail_after(_):
    raise ValueError("another mistake")


@pytest.mark.parametrize("content", ["täglich\r\n", "täglich\r\n".encode(), [b"t", memoryview("äglich\r\n".encode())]])
def test_a_file_has_the_very_bytes_that_were_given(tmp_path, content):
    path = write_file(tmp_path / "new" / "file.txt", content)
    assert path.read_bytes() == "täglich\r\n".encode()
    assert names(path.parent) == ["file.txt"]


def test_json_ends_with_a_line(tmp_path):
    assert write_json(tmp_path / "a.json", {"a": [1]}).read_text() == '{\n "a": [\n  1\n ]\n}\n'
    assert write_json(tmp_path / "a.json", {"a": [1]}, indent=None).read_text() == '{"a": [1]}\n'


def test_what_fails_half_way_leaves_the_old_file_and_no_rest(tmp_path):
    path = write_file(tmp_path / "file", "old")

    def pieces():
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"file: the table cannot be written \(No space left on device\)"):
        write_file(path, pieces(), fault="the table cannot be written")
    with pytest.raises(ValueError, match="another"), atomic_file(path) as draft:
        fail_after(draft.write_text("half"))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_file_has_the_rights_that_the_user_gives_to_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        path = write_file(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    write_cached(tmp_path / "taken" / "file", "lost")
    write_cached(tmp_path / "cache" / "file", "kept")
    assert (tmp_path / "cache" / "file").read_text() == "kept"


def test_a_folder_appears_at_once(tmp_path):
    (tmp_path / "out").mkdir()
    with atomic_folder(tmp_path / "out") as draft:
        (draft / "a").write_text("new")
        assert names(tmp_path / "out") == []
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "a").read_text() == "new"


def test_a_folder_that_holds_something_is_kept_unless_it_is_to_be_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(OutputError, match="out: the graph cannot be written there"):  # noqa: SIM117
        with atomic_folder(tmp_path / "out", fault="the graph cannot be written there") as draft:
            (draft / "a").write_text("new")
    assert names(tmp_path / "out") == ["mine"]
    with atomic_folder(tmp_path / "out", replace=True) as draft:
        (draft / "a").write_text("new")
    assert names(tmp_path / "out") == ["a"]
    assert names(tmp_path) == ["out"]


def test_a_folder_whose_making_fails_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="another"), atomic_folder(tmp_path / "out") as draft:
        fail_after((draft / "a").write_text("half"))
    assert names(tmp_path) == []


def test_a_swap_that_was_killed_is_undone_or_ended(tmp_path):
    place, aside = tmp_path / "out", tmp_path / "aside"
    aside.mkdir()
    recover_swap(place, aside)
    assert names(tmp_path) == ["out"]
    aside.mkdir()
    recover_swap(place, aside)
    assert names(tmp_path) == ["out"]


def test_what_is_moved_into_place_replaces_a_rest(tmp_path):
    for name in ("draft", "place"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    move_into_place(tmp_path / "draft", tmp_path / "place")
    write_file(tmp_path / "a", "new")
    move_into_place(tmp_path / "a", tmp_path / "deep" / "b")
    assert names(tmp_path) == ["deep", "place"]
    assert names(tmp_path / "place") == ["draft"]
    assert (tmp_path / "deep" / "b").read_text() == "new"
