"""Hashes are sha256sum's, remembered for files that did not change, and never a stale one."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from smelt.files import identity
from smelt.files.identity import InputHashes, hash_file, identities


def sha(content):
    return hashlib.sha256(content).hexdigest()


def hashes(*paths):
    parents = InputHashes(identities(paths))
    try:
        return dict(parents.result())
    finally:
        parents.close()


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_the_hash_is_that_of_the_bytes(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    assert hash_file(tmp_path / "x") == sha(content)


def test_a_file_that_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"a")}
    monkeypatch.setattr(identity, "FileHash", lambda *_: pytest.fail("read again"))
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"a")}


def test_a_file_that_changed_is(tmp_path):
    (tmp_path / "x").write_bytes(b"a")
    hashes(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"b")
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"b")}


def test_two_files_of_the_same_size_are_told_apart(tmp_path):
    (tmp_path / "x").write_bytes(b"a")
    (tmp_path / "y").write_bytes(b"b")
    assert hashes(tmp_path / "x", tmp_path / "y") == {tmp_path / "x": sha(b"a"), tmp_path / "y": sha(b"b")}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 3}'])
def test_a_damaged_memory_costs_time_only(tmp_path, content):
    memory = Path(os.environ["SMELT_CACHE"]) / "hashes.json"
    memory.write_text(content)
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"a")}
    assert sha(b"a") in json.loads(memory.read_text()).values()


def test_a_memory_that_cannot_be_written_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "file" / "below"))
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"a")}


def test_blobs_of_the_hugging_face_cache_carry_their_hash_as_their_name(tmp_path):
    (tmp_path / "blobs").mkdir()
    name = sha(b"content")
    (tmp_path / "blobs" / name).write_bytes(b"content")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / name)
    assert hashes(tmp_path / "model.safetensors") == {tmp_path / "model.safetensors": name}


def test_work_that_is_given_up_is_not_remembered(tmp_path):
    (tmp_path / "x").write_bytes(os.urandom(30_000_000))
    parents = InputHashes(identities([tmp_path / "x"]))
    parents.close()
    assert hashes(tmp_path / "x")[tmp_path / "x"] == sha((tmp_path / "x").read_bytes())


def test_a_file_that_changes_while_it_is_hashed_is_not_known_by_what_it_was(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"before")

    class Changing(identity.FileHash):
        def finish(self, stop=None):
            found = super().finish(stop)
            (tmp_path / "x").write_bytes(b"after")
            return found

    with monkeypatch.context() as patched:
        patched.setattr(identity, "FileHash", Changing)
        hashes(tmp_path / "x")
    assert hashes(tmp_path / "x") == {tmp_path / "x": sha(b"after")}
