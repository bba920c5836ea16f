"""Opening a file that somebody named: nothing waits, and every failure says which file and why."""

import os
import socket

import pytest

from smelt.errors import CorruptFile
from smelt.files.reading import check_name, is_there, names_in, read_bytes, read_text


def test_what_is_no_plain_file_is_said_by_its_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as place:
        place.bind("socket")
        cases = {".": "is a folder", "pipe": "is a pipe", "loop": "leads back to itself", "socket": "is a socket"}
        cases |= {
            "/dev/zero": "is a device",
            "none": "no such file",
            "x" * 300: "longer than a file's name",
            "\0": "no name",
        }
        for name, reason in cases.items():
            with pytest.raises(CorruptFile, match=reason):
                read_bytes(name)


def test_text_is_utf8_with_or_without_a_mark_before_it(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbf\xc3\xa9")
    assert read_text(file) == "é"
    file.write_bytes(b"ab\xff")
    with pytest.raises(CorruptFile, match=r"a\.txt: is not text in UTF-8 .* at byte 2"):
        read_text(file)


def test_a_file_is_read_up_to_its_bound(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert read_bytes(tmp_path / "a", 10) == b"x" * 10
    with pytest.raises(CorruptFile, match="has 10 bytes"):
        read_bytes(tmp_path / "a", 9)


def test_a_path_is_there_or_not_or_it_is_said_why_nobody_knows(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert is_there(tmp_path / "file")
    assert not any(map(is_there, (tmp_path / "no", tmp_path / "file" / "inner", "x" * 300, "\0")))
    with pytest.raises(CorruptFile, match="leads back to itself"):
        is_there(tmp_path / "loop")


def test_names_of_a_folder_come_in_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).touch()
    assert names_in(tmp_path) == ["a", "b"]
    with pytest.raises(CorruptFile, match="no such file"):
        names_in(tmp_path / "none")


def test_a_name_that_is_no_text_is_shown_in_ascii(tmp_path):
    check_name(tmp_path / "é")
    with pytest.raises(CorruptFile, match=r"caf.udce9: a part of the name is not text"):
        check_name(tmp_path / os.fsdecode(b"caf\xe9"))
