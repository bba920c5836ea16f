"""Hashes of files that are being written: right whatever the order of pieces, and nearly done at the end."""

import hashlib
import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from smelt.files.hashing import sha256
from smelt.files.hashing.sha256 import FileHash, HashPool, IncrementalHashes

MB = 1 << 20


def sha(content):
    return hashlib.sha256(content).hexdigest()


def empty(tmp_path, *sizes):
    files = [(tmp_path / str(number), size) for number, size in enumerate(sizes)]
    for path, size in files:
        path.write_bytes(bytes(size))
    return files


def put(path, start, content):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(content)


def positions(hashes):
    return [file._hash.position if file._hash else 0 for file in hashes._files]


@pytest.mark.parametrize("seed", range(4))
def test_pieces_in_any_order_from_several_threads(tmp_path, seed):
    contents = [os.urandom(size) for size in (9 * MB + 17, 1000, 0, 5 * MB)]
    files = empty(tmp_path, *map(len, contents))
    hashes = IncrementalHashes(files)
    pieces = [
        (number, start, min(start + 700_001, len(content)))
        for number, content in enumerate(contents)
        for start in range(0, len(content), 700_001)
    ]
    random.Random(seed).shuffle(pieces)

    def write(piece):
        number, start, end = piece
        put(files[number][0], start, contents[number][start:end])
        hashes.wrote(number, start, end)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, pieces))
    assert hashes.result() == [sha(content) for content in contents]
    hashes.close()


def test_it_goes_as_far_as_there_is_no_gap(tmp_path):
    (path, _), content = empty(tmp_path, 6 * MB)[0], os.urandom(6 * MB)
    hashes = IncrementalHashes([(path, 6 * MB)])
    path.write_bytes(content)
    hashes.wrote(0, 0, 2 * MB)
    assert positions(hashes) == [2 * MB]
    hashes.wrote(0, 4 * MB, 6 * MB)
    assert positions(hashes) == [2 * MB]
    hashes.wrote(0, 2 * MB, 4 * MB)
    assert positions(hashes) == [6 * MB]
    assert hashes.result() == [sha(content)]


def test_a_file_that_is_all_there_is_finished_at_once_and_closed(tmp_path):
    (path, size) = empty(tmp_path, 2 * MB + 10)[0]
    hashes = IncrementalHashes([(path, size)])
    hashes.wrote(0, 0, 2 * MB)
    hashes.wrote(0, 2 * MB, size)
    assert hashes._files[0].digest == sha(bytes(size))
    assert hashes._files[0]._hash._descriptor == -1


def test_one_writer_hashes_only_so_much_before_it_writes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sha256, "_MOST", 3 * MB)
    files = empty(tmp_path, 10 * MB)
    hashes = IncrementalHashes(files)
    hashes.found(0, 0, 8 * MB)
    assert positions(hashes) == [0]
    hashes.wrote(0, 8 * MB, 9 * MB)
    assert positions(hashes) == [3 * MB]
    hashes.wrote(0, 9 * MB, 10 * MB)
    assert positions(hashes) == [6 * MB]
    assert hashes.result() == [sha(bytes(10 * MB))]


def test_writing_twice_is_a_fault_of_the_program(tmp_path):
    hashes = IncrementalHashes(empty(tmp_path, 2 * MB))
    hashes.wrote(0, 0, MB)
    with pytest.raises(AssertionError):
        hashes.wrote(0, 0, MB)


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7])
def test_many_files_are_hashed_by_few_threads(tmp_path, monkeypatch, count, cores, at_once):
    monkeypatch.setattr(sha256, "usable_cores", lambda: cores)
    monkeypatch.setattr(sha256, "files_at_once", lambda: at_once)
    contents = [os.urandom(100_000 * number + number) for number in range(count)]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    hashers = HashPool(lambda n=n: FileHash(tmp_path / str(n)) for n in range(count))
    assert len(hashers._threads) == min(4, cores, count)
    assert [future.result() for future in hashers.futures] == [sha(content) for content in contents]
    hashers.close()


def test_a_file_that_is_missing_is_an_error_for_itself_alone(tmp_path):
    (tmp_path / "b").write_bytes(b"b")
    hashers = HashPool(lambda name=name: FileHash(tmp_path / name) for name in "ab")
    with pytest.raises(FileNotFoundError):
        hashers.futures[0].result()
    assert hashers.futures[1].result() == sha(b"b")
    hashers.close()


def test_who_asks_after_the_end_does_not_wait_for_ever(tmp_path):
    (tmp_path / "x").write_bytes(bytes(50 * MB))
    hashers = HashPool([lambda: FileHash(tmp_path / "x")])
    hashers.close()
    assert hashers.futures[0].cancelled() or hashers.futures[0].result() == sha(bytes(50 * MB))
