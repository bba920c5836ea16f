"""Hashes are sha256sum's and b3sum's, remembered for files that did not change, and never a stale one."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from blake3 import blake3

from smelt.files import identity
from smelt.files.hashing import input_hashes
from smelt.files.hashing.input_hashes import InputHashes
from smelt.files.identity import file_hashes, hash_file, identities


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def by_sha256(*paths):
    return dict(file_hashes(paths))


def by_blake3(*paths):
    return {path: digest.blake3 for path, digest in InputHashes(identities(paths)).result().items()}


KINDS = pytest.mark.parametrize(
    ("hashes", "right"),
    [(by_sha256, sha256), (by_blake3, lambda content: blake3(content).hexdigest())],
    ids=["sha256", "blake3"],
)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_the_hash_is_that_of_the_bytes(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    assert hash_file(tmp_path / "x") == sha256(content)


@KINDS
def test_a_file_that_did_not_change_is_not_read_again(tmp_path, monkeypatch, hashes, right):
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"a")}
    monkeypatch.setattr(identity, "hash_file", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr(input_hashes, "TreeHash", lambda *_: pytest.fail("read again"))
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"a")}


@KINDS
def test_a_file_that_changed_is(tmp_path, hashes, right):
    (tmp_path / "x").write_bytes(b"a")
    hashes(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"b")
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"b")}


@KINDS
def test_two_files_of_the_same_size_are_told_apart(tmp_path, hashes, right):
    (tmp_path / "x").write_bytes(b"a")
    (tmp_path / "y").write_bytes(b"b")
    assert hashes(tmp_path / "x", tmp_path / "y") == {tmp_path / "x": right(b"a"), tmp_path / "y": right(b"b")}


@KINDS
@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 3}'])
def test_a_damaged_memory_costs_time_only(tmp_path, content, hashes, right):
    memory = Path(os.environ["SMELT_CACHE"]) / "hashes.json"
    memory.write_text(content)
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"a")}
    assert right(b"a") in json.loads(memory.read_text()).values()


@KINDS
def test_a_memory_that_cannot_be_written_is_no_obstacle(tmp_path, monkeypatch, hashes, right):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "file" / "below"))
    (tmp_path / "x").write_bytes(b"a")
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"a")}


def test_blobs_of_the_hugging_face_cache_carry_their_hash_as_their_name(tmp_path, monkeypatch):
    (tmp_path / "blobs").mkdir()
    name = sha256(b"content")
    (tmp_path / "blobs" / name).write_bytes(b"content")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / name)
    monkeypatch.setattr(identity, "hash_file", lambda *_: pytest.fail("read, though its name says it"))
    assert by_sha256(tmp_path / "model.safetensors") == {tmp_path / "model.safetensors": name}


@KINDS
def test_a_file_that_changes_while_it_is_hashed_is_not_known_by_what_it_was(tmp_path, monkeypatch, hashes, right):
    """It is seen, hashed and then changed: what is remembered is said of the file that was seen."""
    (tmp_path / "x").write_bytes(b"before")

    def changed(path):
        (tmp_path / "x").write_bytes(b"after!")
        return sha256(b"before")

    class Changing(input_hashes.TreeHash):
        def finish(self, path):
            found = super().finish(path)
            (tmp_path / "x").write_bytes(b"after!")
            return found

    with monkeypatch.context() as patched:
        patched.setattr(identity, "hash_file", changed)
        patched.setattr(input_hashes, "TreeHash", Changing)
        assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"before")}
    assert hashes(tmp_path / "x") == {tmp_path / "x": right(b"after!")}
