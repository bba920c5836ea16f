"""A file is known again by what the system itself keeps about it, whatever its visible time says."""

import os
from pathlib import Path

import pytest

from smelt.errors import CorruptFile, InputChanged
from smelt.files.identity import check_unchanged, file_identity, identities


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"before")
    return path


def test_a_file_that_nobody_touches_is_the_same(file: Path) -> None:
    seen = identities([file])
    assert file.read_bytes() == b"before"
    check_unchanged(seen)


def test_an_edit_is_noticed_though_size_and_time_are_put_back(file: Path) -> None:
    before = file_identity(file)
    file.write_bytes(b"after!")
    os.utime(file, ns=(before.mtime, before.mtime))
    now = file_identity(file)
    assert (now.size, now.mtime, now.inode) == (before.size, before.mtime, before.inode)
    with pytest.raises(InputChanged, match=r"weights \(it was changed and its time put back"):
        check_unchanged({file: before})


def test_it_is_said_what_happened_to_each(file: Path, tmp_path: Path) -> None:
    gone, moved = tmp_path / "gone", tmp_path / "moved"
    for path in (gone, moved):
        path.write_bytes(b"before")
    seen = identities([file, gone, moved])
    file.write_bytes(b"longer than before")
    gone.unlink()
    (tmp_path / "new").write_bytes(b"before")
    os.replace(tmp_path / "new", moved)
    with pytest.raises(InputChanged) as caught:
        check_unchanged(seen)
    assert f"{file} (it was written to), {gone} (it is gone), {moved} (another file has taken its place)" in str(
        caught.value
    )
    assert caught.value.exit_code == 1


def test_many_changes_are_not_all_named(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(8)]
    for path in paths:
        path.write_bytes(b"")
    seen = identities(paths)
    for path in paths:
        path.unlink()
    with pytest.raises(InputChanged, match=r"/4 \(it is gone\), and 3 more\."):
        check_unchanged(seen)


def test_a_hard_link_is_no_change_of_the_bytes(file: Path, tmp_path: Path) -> None:
    seen = identities([file])
    os.link(file, tmp_path / "second")
    assert file_identity(file).ctime != seen[file].ctime
    check_unchanged(seen)


def test_a_link_is_the_file_that_it_leads_to(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    assert file_identity(tmp_path / "link") == file_identity(file)


def test_a_file_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="missing: not a file that can be read"):
        file_identity(tmp_path / "missing")
