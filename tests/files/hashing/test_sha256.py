"""Hashes are those of FIPS 180-4 and of hashlib, in C and without it, whatever the lengths and in whatever steps."""

import hashlib
import os

import pytest

from smelt.files.hashing import sha256
from smelt.files.hashing.sha256 import FileHash, StopFlag, hash_both

EXAMPLES = {  # of the standard, and of its validation suite
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}
CHUNK = 1 << 16  # what sha256.c reads at once
LENGTHS = [1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129]
LENGTHS += [end + step for end in (CHUNK, 2 * CHUNK, 1 << 18, 1 << 20) for step in (-64, -1, 0, 1, 64)]


@pytest.fixture(params=["compiled", "hashlib"], autouse=True)
def way(request, monkeypatch):
    if request.param == "hashlib":
        monkeypatch.setattr(sha256, "_fast", lambda: None)
    elif sha256._fast() is None:
        pytest.skip("not compiled, or a processor without the instructions")


def file_of(path, content):
    path.write_bytes(content)
    return path


def both(one, other):
    """Their digests, taken together as far as that goes."""
    stop = StopFlag()
    hash_both(one, other, stop)
    return one.finish(stop), other.finish(stop)


@pytest.mark.parametrize("message", EXAMPLES, ids=len)
def test_examples_of_the_standard(tmp_path, message):
    path = file_of(tmp_path / "x", message)
    assert FileHash(path).finish() == EXAMPLES[message]
    assert both(FileHash(path), FileHash(path)) == (EXAMPLES[message],) * 2


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_around_the_ends_of_blocks_and_chunks(tmp_path, length):
    content = os.urandom(length)
    assert FileHash(file_of(tmp_path / "x", content)).finish() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("lengths", [(0, 1000), (1000, 0), (55, 64), (100_000, 1_000_001), (1_000_001, 130)], ids=str)
def test_two_files_of_different_length_at_once(tmp_path, lengths):
    contents = [os.urandom(length) for length in lengths]
    files = [FileHash(file_of(tmp_path / str(n), content)) for n, content in enumerate(contents)]
    assert both(*files) == tuple(hashlib.sha256(content).hexdigest() for content in contents)


def test_the_shorter_one_decides_how_far_two_go_together(tmp_path):
    short, long = FileHash(file_of(tmp_path / "a", bytes(130))), FileHash(file_of(tmp_path / "b", bytes(1000)))
    hash_both(short, long, StopFlag())
    assert (short.position, long.position) == (128, 128)


def test_a_file_that_is_still_being_written_is_hashed_in_steps(tmp_path):
    content = os.urandom(300_000)
    path = file_of(tmp_path / "x", bytes(300_000))
    hash_ = FileHash(path, 300_000)
    for end in (10, 64, 1000, 200_000, 299_999):
        with open(path, "r+b") as file:
            file.write(content[:end])
        hash_.advance(end, StopFlag())
        assert hash_.position == end // 64 * 64
    path.write_bytes(content)
    assert hash_.finish() == hashlib.sha256(content).hexdigest()


def test_what_is_stopped_takes_in_nothing_more(tmp_path):
    stop = StopFlag()
    stop.set()
    one, other = (FileHash(file_of(tmp_path / name, bytes(1000))) for name in "ab")
    hash_both(one, other, stop)
    one.advance(1000, stop)
    assert (one.position, other.position) == (0, 0)
    assert one.finish(stop) == ""


@pytest.mark.parametrize("left", [0, 10, 640])
def test_a_file_that_has_shrunk_is_an_error_with_its_name(tmp_path, left):
    one, other = (FileHash(file_of(tmp_path / name, bytes(100_010))) for name in "ab")
    os.truncate(tmp_path / "b", left)
    with pytest.raises(OSError, match="b: ended while it was being hashed"):
        hash_both(one, other, StopFlag())
    with pytest.raises(OSError, match="b: ended while it was being hashed"):
        other.finish()


def test_a_file_that_lost_its_last_bytes_is_an_error_too(tmp_path):
    hash_ = FileHash(file_of(tmp_path / "a", bytes(70)))
    os.truncate(tmp_path / "a", 69)
    with pytest.raises(OSError, match="a: ended while it was being hashed"):
        hash_.finish()
