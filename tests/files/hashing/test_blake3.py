"""BLAKE3 of a file whose bytes come in any order, from any thread: the digest that everybody else computes."""

import os
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from blake3 import blake3

from smelt.files.hashing import blake3 as module
from smelt.files.hashing.blake3 import DIGITS, TreeHash, blake3_of, compiled_blake3

compiled = pytest.mark.skipif(compiled_blake3() is None, reason="BLAKE3 was not compiled")

EDGES = [0, 1, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049, 3 * 1024, 5 * 1024 + 1]
SIZES = [*EDGES, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 1 << 15, 1 << 17, 1 << 20, 3_000_001]

PUBLISHED = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
    1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
    2048: "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
    2049: "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
}
"""From the test vectors of the specification: byte i of the input is i % 251."""


def counted(size):
    return bytes(i % 251 for i in range(size))


def pieces(content, seed, most=None):
    """A content cut at random places, as (position, bytes) in a random order."""
    chance = random.Random(seed)
    many = min(len(content), most or chance.randint(1, 60))
    cuts = sorted({0, len(content), *(chance.randrange(len(content) + 1) for _ in range(many))})
    found = [(start, content[start:end]) for start, end in pairwise(cuts)]
    chance.shuffle(found)
    return found


def by_pieces(content, seed, path, threads=4):
    """The digest of pieces that several threads add; the file is empty, so that nothing of it can be read."""
    tree = TreeHash(len(content))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda piece: tree.add(*piece), pieces(content, seed)))
    assert list(tree.gaps()) == []
    return tree.finish(path)


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    return tmp_path / "empty"


@pytest.fixture
def lanes():
    """`lanes(n)` hashes no more than n chunks side by side, as on a machine without such wide vectors."""
    library = compiled_blake3()
    yield library.smelt_blake3_allow_lanes
    library.smelt_blake3_allow_lanes(16)


@pytest.mark.parametrize(("size", "digest"), PUBLISHED.items())
def test_the_digest_is_the_published_one(tmp_path, size, digest):
    (tmp_path / "x").write_bytes(counted(size))
    assert blake3_of(tmp_path / "x") == digest
    assert blake3(counted(size)).hexdigest() == digest


@pytest.mark.parametrize("size", SIZES)
def test_the_digest_of_a_file_is_that_of_the_library(tmp_path, size):
    content = random.Random(size).randbytes(size)
    (tmp_path / "x").write_bytes(content)
    assert blake3_of(tmp_path / "x") == blake3(content).hexdigest()
    assert len(blake3_of(tmp_path / "x")) == DIGITS


@pytest.mark.skipif(shutil.which("b3sum") is None, reason="NOT TESTED: b3sum is not installed")
@pytest.mark.parametrize("size", [0, 1025, 3_000_001])
def test_the_digest_is_what_b3sum_prints(tmp_path, size):
    (tmp_path / "x").write_bytes(random.Random(size).randbytes(size))
    said = subprocess.run(["b3sum", "--no-names", tmp_path / "x"], capture_output=True, text=True, check=True).stdout
    assert blake3_of(tmp_path / "x") == said.strip()


@compiled
@pytest.mark.parametrize("count", [1, 4, 8, 16])
@pytest.mark.parametrize("size", SIZES)
def test_pieces_in_any_order_from_four_threads_give_the_same_digest(empty, lanes, size, count):
    """Also on machines with fewer lanes, or without any."""
    lanes(count)
    assert compiled_blake3().smelt_blake3_lanes() <= count
    content = random.Random(size).randbytes(size)
    for seed in range(20 if size <= 1 << 15 else 2):
        assert by_pieces(content, seed, empty) == blake3(content).hexdigest(), seed


@compiled
@pytest.mark.parametrize("count", [1, 4, 8, 16])
def test_every_size_up_to_forty_chunks_has_its_digest(empty, lanes, count):
    """Whole, and in two halves of which the second comes first."""
    lanes(count)
    whole = random.Random(1).randbytes(40 * 1024)
    for size in range(0, len(whole), 511):
        content, tree, halves = whole[:size], TreeHash(size), TreeHash(size)
        tree.add(0, content)
        halves.add(size // 2, content[size // 2 :])
        halves.add(0, content[: size // 2])
        assert tree.finish(empty) == halves.finish(empty) == blake3(content).hexdigest(), size


@compiled
def test_one_byte_at_a_time_is_enough(empty):
    content = random.Random(2).randbytes(2500)
    order = list(range(2500))
    random.Random(3).shuffle(order)
    tree = TreeHash(2500)
    for at in order:
        tree.add(at, content[at : at + 1])
    assert tree.finish(empty) == blake3(content).hexdigest()


@compiled
def test_the_order_of_chunks_counts(empty):
    """As many equal bytes in other places are another file."""
    one, two = b"a" * 1024 + b"b" * 1024, b"b" * 1024 + b"a" * 1024
    assert by_pieces(one, 1, empty) != by_pieces(two, 1, empty)


@compiled
@pytest.mark.parametrize("content", [b"x" * 3000, bytearray(b"x" * 3000), memoryview(bytearray(b"x" * 3000))], ids=type)
def test_bytes_and_memory_of_any_kind_can_be_added(empty, content):
    tree = TreeHash(3000)
    tree.add(0, content)
    assert tree.finish(empty) == blake3(b"x" * 3000).hexdigest()


@compiled
def test_memory_that_cannot_be_written_to_can_be_added(empty):
    tree = TreeHash(3000)
    tree.add(0, memoryview(b"x" * 3000))
    assert tree.finish(empty) == blake3(b"x" * 3000).hexdigest()


@pytest.mark.parametrize("nothing", [b"", memoryview(b""), memoryview(bytearray())], ids=["bytes", "fixed", "memory"])
def test_nothing_can_be_added_anywhere(tmp_path, nothing):
    """An empty tensor has a place, and no bytes."""
    (tmp_path / "x").write_bytes(b"abc")
    tree = TreeHash(3)
    for position in (0, 1, 3):
        tree.add(position, nothing)
    assert tree.finish(tmp_path / "x") == blake3(b"abc").hexdigest()


@compiled
@pytest.mark.parametrize("size", [500, 1024, 100_000])
def test_bytes_that_come_twice_are_hashed_once_and_the_first_count(empty, size):
    content = random.Random(size).randbytes(size)
    tree = TreeHash(size)
    for position, piece in pieces(content, 7):
        tree.add(position, piece)
        tree.add(position, bytes(len(piece)))
    assert tree.finish(empty) == blake3(content).hexdigest()


@compiled
@pytest.mark.parametrize("size", [500, 5000, 100_000])
def test_pieces_that_overlap_give_the_same_digest(tmp_path, size):
    """Each begins before the end of the one before it. What is passed over is read from the file."""
    content = random.Random(size).randbytes(size)
    (tmp_path / "x").write_bytes(content)
    tree, step = TreeHash(size), size // 10
    for at in range(0, size, step):
        tree.add(at, content[at : at + step + step // 2])
    assert tree.finish(tmp_path / "x") == blake3(content).hexdigest()


@compiled
def test_a_hundred_threads_with_the_same_pieces_do_not_disturb_each_other(empty):
    content = random.Random(4).randbytes(300_000)
    tree = TreeHash(len(content))
    with ThreadPoolExecutor(16) as pool:
        for _ in range(100):
            pool.submit(lambda: [tree.add(*piece) for piece in pieces(content, 5, 40)])
    assert tree.finish(empty) == blake3(content).hexdigest()


@compiled
def test_gaps_are_what_has_not_come():
    tree = TreeHash(10_000)
    assert list(tree.gaps()) == [(0, 10_000)]
    tree.add(100, bytes(900))
    tree.add(5000, bytes(1000))
    assert list(tree.gaps()) == [(0, 100), (1000, 5000), (6000, 10_000)]
    tree.add(1000, bytes(4000))
    assert list(tree.gaps()) == [(0, 100), (6000, 10_000)]
    tree.add(0, bytes(100))
    tree.add(6000, bytes(4000))
    assert list(tree.gaps()) == []
    assert list(TreeHash(0).gaps()) == []


@compiled
@pytest.mark.parametrize("size", [100, 1025, 3_000_001])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_what_never_came_is_read_at_the_end(tmp_path, size, share):
    """The bytes that came are not read again: in the file they are zeros by then."""
    content = random.Random(size).randbytes(size)
    tree, left = TreeHash(size), bytearray(content)
    given = pieces(content, 6)
    for position, piece in given[: int(share * len(given))]:
        tree.add(position, piece)
        left[position : position + len(piece)] = bytes(len(piece))
    (tmp_path / "x").write_bytes(left)
    assert tree.finish(tmp_path / "x") == blake3(content).hexdigest()


def test_more_than_one_thread_reads_a_large_file(tmp_path):
    """40 MB of zeros: five parts of 8 MB."""
    with open(tmp_path / "x", "wb") as file:
        file.truncate(40_000_000)
    assert blake3_of(tmp_path / "x") == blake3(bytes(40_000_000)).hexdigest()


@pytest.mark.parametrize("without", [False, True], ids=["compiled", "not compiled"])
@pytest.mark.parametrize("size", [1, 1025, 20_000_000])
def test_a_file_that_is_too_short_is_told(tmp_path, monkeypatch, size, without):
    if without:
        monkeypatch.setattr(module, "compiled_blake3", lambda: None)
    with open(tmp_path / "x", "wb") as file:
        file.truncate(size - 1)
    with pytest.raises(OSError, match=r"x: ended while it was being hashed; the file has changed"):
        TreeHash(size).finish(tmp_path / "x")


@pytest.mark.parametrize("without", [False, True], ids=["compiled", "not compiled"])
def test_a_file_that_has_grown_is_hashed_as_far_as_it_went(tmp_path, monkeypatch, without):
    """Whoever asks compares sizes and identities himself."""
    if without:
        monkeypatch.setattr(module, "compiled_blake3", lambda: None)
    (tmp_path / "x").write_bytes(b"a" * 2000 + b"more")
    assert TreeHash(2000).finish(tmp_path / "x") == blake3(b"a" * 2000).hexdigest()


@pytest.mark.parametrize("without", [False, True], ids=["compiled", "not compiled"])
def test_a_file_that_is_not_there_is_told(tmp_path, monkeypatch, without):
    if without:
        monkeypatch.setattr(module, "compiled_blake3", lambda: None)
    with pytest.raises(FileNotFoundError):
        TreeHash(5).finish(tmp_path / "nowhere")


@pytest.mark.parametrize("size", SIZES)
def test_without_the_compiled_part_the_digest_is_the_same(tmp_path, monkeypatch, size):
    monkeypatch.setattr(module, "compiled_blake3", lambda: None)
    content = random.Random(size).randbytes(size)
    (tmp_path / "x").write_bytes(content)
    tree = TreeHash(size)
    assert tree.address is None
    for position, piece in pieces(content, 8):
        tree.add(position, piece)
    assert tree.finish(tmp_path / "x") == blake3_of(tmp_path / "x") == blake3(content).hexdigest()


@compiled
def test_a_tree_that_nobody_finishes_gives_its_memory_back():
    """2,000 trees of 100,000 bytes, each with 97 open chunks of a kilobyte: 200 MB if they stayed."""
    import resource

    def most():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def grow():
        tree = TreeHash(100_000)
        for at in range(0, 100_000, 1024):
            tree.add(at, b"x")

    grow()
    before = most()
    for _ in range(2000):
        grow()
    assert most() - before < 50_000_000


@compiled
@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="asks /proc what the processor has")
def test_the_widest_vectors_of_the_processor_are_used(lanes):
    with open("/proc/cpuinfo") as file:
        flags = {word for line in file if line.startswith("flags") for word in line.split()}
    if not flags:
        pytest.skip("NOT TESTED: this processor says nothing of vectors")
    widest = 16 if "avx512f" in flags else 8 if "avx2" in flags else 4
    for allowed in (16, 8, 4, 1):
        lanes(allowed)
        assert compiled_blake3().smelt_blake3_lanes() == min(widest, allowed)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 2048, 70_000, 300_001])
def test_trees_of_several_processes_become_one(tmp_path, size):
    """Pieces at random places, given to three trees; some come twice, and some from nobody."""
    draw = random.Random(size)
    content = draw.randbytes(size)
    path = tmp_path / "file"
    path.write_bytes(content)
    for _ in range(30):
        cuts = sorted({0, size, *(draw.randrange(size + 1) for _ in range(7))})
        whole, others = TreeHash(size), [TreeHash(size) for _ in range(3)]
        for start, stop in pairwise(cuts):
            if draw.random() < 0.9:
                draw.choice(others).add(start, content[start:stop])
        others[0].add(size // 3, content[size // 3 :])
        for other in others:
            whole.join(other.packed())
            assert not other.has_some
        assert whole.finish(path) == blake3(content).hexdigest()


@compiled
def test_what_another_tree_packed_is_not_read_again_and_nonsense_is_nothing(tmp_path, monkeypatch):
    content = bytes(range(256)) * 20
    path = tmp_path / "file"
    path.write_bytes(content)
    whole, other = TreeHash(len(content)), TreeHash(len(content))
    other.add(700, content[700:4200])
    whole.join(b"nonsense")
    whole.join(other.packed()[:-1])
    assert list(whole.gaps()) == [(0, 5120)]
    other.add(700, content[700:4200])
    whole.join(other.packed())
    assert list(whole.gaps()) == [(0, 700), (4200, 5120)]
    assert whole.finish(path) == blake3(content).hexdigest()
