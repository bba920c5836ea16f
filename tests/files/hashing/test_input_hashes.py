"""The inputs of a merge are hashed from the very bytes that are merged, and read again only where they must be."""

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest
from blake3 import blake3

from smelt.files.hashing import blake3 as module
from smelt.files.hashing.blake3 import compiled_blake3
from smelt.files.hashing.input_hashes import FileDigest, InputHashes, hashing_reads, note_read
from smelt.files.identity import HashMemory, cache_key, file_hashes, file_identity, identities

compiled = pytest.mark.skipif(compiled_blake3() is None, reason="BLAKE3 was not compiled: files are hashed at the end")


def right(content):
    return blake3(content).hexdigest()


def read(path, start=0, end=None):
    """As a source reads: the bytes are got, and told of."""
    with open(path, "rb") as file:
        file.seek(start)
        content = bytearray(file.read() if end is None else file.read(end - start))
        note_read(file.fileno(), start, memoryview(content))


def overwrite(path, content):
    """Other bytes in the same file."""
    with open(path, "r+b") as file:
        file.write(content)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "x").write_bytes(b"old" * 1000)
    return tmp_path / "x"


@compiled
def test_what_is_read_to_be_merged_is_hashed_and_nothing_else(file):
    """Read outside as `old`, inside as `new`, and changed again before the digest is asked for."""
    hashes = InputHashes(identities([file]))
    read(file)
    overwrite(file, b"new" * 1000)
    with hashing_reads(hashes):
        read(file)
    read(file)
    overwrite(file, b"end" * 1000)
    assert hashes.result() == {file: FileDigest(right(b"new" * 1000))}


@compiled
def test_the_rest_is_read_when_the_digest_is_asked_for(file):
    hashes = InputHashes(identities([file]))
    with hashing_reads(hashes):
        read(file, 300, 900)
    overwrite(file, b"new" * 1000)
    assert hashes.result()[file].blake3 == right(b"new" * 100 + b"old" * 200 + b"new" * 700)


@compiled
def test_what_another_thread_reads_meanwhile_is_not_merged(file):
    hashes = InputHashes(identities([file]))
    with hashing_reads(hashes):
        other = threading.Thread(target=read, args=[file])
        other.start()
        other.join()
    overwrite(file, b"new" * 1000)
    assert hashes.result()[file].blake3 == right(b"new" * 1000)


@compiled
def test_two_paths_to_one_file_are_one_file(file, tmp_path):
    os.link(file, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(file)
    paths = [file, tmp_path / "hard", tmp_path / "soft"]
    hashes = InputHashes(identities(paths))
    with hashing_reads(hashes):
        read(tmp_path / "hard", 0, 1500)
        read(tmp_path / "soft", 1500)
    overwrite(file, b"new" * 1000)
    assert hashes.result() == dict.fromkeys(paths, FileDigest(right(b"old" * 1000)))


@compiled
def test_a_file_that_is_none_of_these_is_left_alone(file, tmp_path):
    (tmp_path / "other").write_bytes(b"new" * 1000)
    hashes = InputHashes(identities([file]))
    with hashing_reads(hashes):
        read(tmp_path / "other")
    assert hashes.result() == {file: FileDigest(right(b"old" * 1000))}


def test_an_empty_file_has_a_hash(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    hashes = InputHashes(identities([tmp_path / "x"]))
    with hashing_reads(hashes):
        read(tmp_path / "x")
    assert hashes.result() == {tmp_path / "x": FileDigest(right(b""))}


def test_a_file_that_ended_is_told(file):
    hashes = InputHashes(identities([file]))
    os.truncate(file, 2999)
    with pytest.raises(OSError, match="ended while it was being hashed"):
        hashes.result()


def test_placeholders_are_as_long_as_the_right_ones(file, tmp_path):
    """Those of a plain file, and of one that the cache of the hub knows, whose SHA-256 stands there too."""
    name = hashlib.sha256(b"content").hexdigest()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / name).write_bytes(b"content")
    (tmp_path / "linked").symlink_to(tmp_path / "blobs" / name)
    hashes = InputHashes(identities([file, tmp_path / "linked"]))

    def written(digests):
        return json.dumps({path.name: digest.entry() for path, digest in digests.items()})

    before, after = hashes.placeholders(), hashes.result()
    assert len(written(before)) == len(written(after))
    assert written(before) != written(after)
    assert after[file].entry() == {"blake3": right(b"old" * 1000)}
    assert after[tmp_path / "linked"].entry() == {"blake3": right(b"content"), "sha256": name}


def test_the_name_of_a_blob_is_not_taken_for_its_blake3(tmp_path):
    """Where a name lies, the digest of what was read says so."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / ("0" * 64)).write_bytes(b"content")
    hashes = InputHashes(identities([tmp_path / "blobs" / ("0" * 64)]))
    assert list(hashes.result().values()) == [FileDigest(right(b"content"), "0" * 64)]


def test_remembered_hashes_of_the_old_kind_are_neither_believed_nor_lost(file):
    """hashes.json of Smelt 0.2: SHA-256 by the file's identity."""
    memory, seen = Path(os.environ["SMELT_CACHE"]) / "hashes.json", file_identity(file)
    old = {cache_key(file, seen): "5" * 64, "another file|1|2|3|4|5|6": "6" * 64}
    memory.write_text(json.dumps(old))
    assert InputHashes({file: seen}).result() == {file: FileDigest(right(b"old" * 1000))}
    now = json.loads(memory.read_text())
    assert now.items() > old.items()
    assert sorted(now.values()) == sorted([*old.values(), right(b"old" * 1000)])
    assert file_hashes({file: seen}) == {file: "5" * 64}, "what was known stays known"


def test_hashes_of_both_kinds_stand_side_by_side(file):
    seen = identities([file])
    sha256 = hashlib.sha256(b"old" * 1000).hexdigest()
    assert file_hashes(seen) == {file: sha256}
    assert InputHashes(seen).result() == {file: FileDigest(right(b"old" * 1000))}
    assert HashMemory("sha256").get(file, seen[file]) == sha256
    assert HashMemory("blake3").get(file, seen[file]) == right(b"old" * 1000)


def test_known_files_are_not_read_again(file, monkeypatch):
    seen = identities([file])
    InputHashes(seen).result()
    monkeypatch.setattr(module.TreeHash, "finish", lambda *_: pytest.fail("read again"))
    again = InputHashes(seen)
    with open(file, "rb") as opened:
        assert again.tree_of(opened.fileno()) is None, "nothing is left to hash"
    assert again.result() == {file: FileDigest(right(b"old" * 1000))}


def test_a_file_is_read_once_however_often_its_digest_is_asked_for(file, monkeypatch):
    hashes = InputHashes(identities([file]))
    first = hashes.result()
    monkeypatch.setattr(module.TreeHash, "finish", lambda *_: pytest.fail("read again"))
    assert hashes.result() == first


def test_without_the_compiled_part_files_are_hashed_at_the_end(file, monkeypatch):
    monkeypatch.setattr(module, "compiled_blake3", lambda: None)
    hashes = InputHashes(identities([file]))
    with hashing_reads(hashes):
        read(file)
    assert hashes.result() == {file: FileDigest(right(b"old" * 1000))}
