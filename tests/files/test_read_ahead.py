"""Reading ahead: in the order that was announced, within the room, and every byte is the server's."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from smelt.files.remote.faults import Passing
from smelt.files.remote.read_ahead import ReadAhead, Wanted
from smelt.files.remote.remote_file import RemoteFile
from smelt.files.remote.store import Found

SIZE, PIECE = 4 << 20, 1 << 16
CONTENT = np.random.default_rng(0).integers(0, 256, SIZE, dtype=np.uint8).tobytes()


class Store:
    """One file in memory; it counts the requests, and fails where it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.failing = 0
        self._lock = threading.Lock()

    def read(self, name: str, start: int, end: int, pinned: str | None = None) -> tuple[memoryview, Found]:
        with self._lock:
            self.asked.append(start)
            self.failing, fails = max(0, self.failing - 1), self.failing > 0
        if fails:
            raise Passing("busy")
        time.sleep(0.0005)
        return memoryview(CONTENT)[start:end], Found(SIZE, '"one"', 0, None)

    def look(self, name: str) -> Found:
        return Found(SIZE, '"one"', 0, None)


@pytest.fixture
def store() -> Store:
    return Store()


def taken(ahead: ReadAhead) -> int:
    return ahead._taken * ahead._size


def test_tensors_come_in_their_order_and_never_more_is_held_than_the_room(store: Store) -> None:
    file = RemoteFile(store, "x", "https://host/x")
    store.asked.clear()
    room = 8 * PIECE
    ahead = ReadAhead([file], room)
    tensors = [(str(n), [Wanted(file, start, start + 100_000)]) for n, start in enumerate(range(0, SIZE, 100_000))]
    tensors = [(name, [Wanted(one.file, one.start, min(one.end, SIZE)) for one in wanted]) for name, wanted in tensors]
    ahead.begin(iter(tensors))
    for name, ((_, start, end),) in tensors:
        out = bytearray(end - start)
        assert file.fill(memoryview(out), start)
        assert out == CONTENT[start:end]
        assert taken(ahead) <= room
        ahead.done(name)
    ahead.close()
    assert sorted(set(store.asked)) == list(range(0, SIZE, PIECE))
    assert len(store.asked) == SIZE // PIECE  # each piece once
    early = [sorted(store.asked[:n]) for n in (8, 16)]
    assert max(early[0]) <= 16 * PIECE
    assert max(early[1]) <= 24 * PIECE


def test_what_nobody_announced_is_fetched_and_a_second_pass_begins_anew(store: Store) -> None:
    file = RemoteFile(store, "x", "https://host/x")
    ahead = ReadAhead([file], 8 * PIECE)
    for position, count in ((SIZE - 10, 10), (300_000, 5), (1_000_000, 500_000), (0, SIZE)):
        out = bytearray(count)
        assert file.fill(memoryview(out), position)
        assert out == CONTENT[position : position + count]
        assert taken(ahead) <= 8 * PIECE
    for _ in range(2):
        ahead.begin(iter([("whole", [Wanted(file, 0, SIZE)])]))
        out = bytearray(SIZE)
        assert file.fill(memoryview(out), 0)
        assert out == CONTENT
        ahead.done("whole")
    assert not file.fill(memoryview(bytearray(2)), SIZE - 1)
    ahead.close()


def test_passing_faults_are_asked_again_and_lasting_ones_reach_the_reader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smelt.files.remote.faults._FIRST", 0.001)
    file = RemoteFile(store, "x", "https://host/x")
    ahead = ReadAhead([file], 8 * PIECE)
    ahead.begin(iter([("whole", [Wanted(file, 0, SIZE)])]))
    store.failing = 8
    out = bytearray(SIZE)
    assert file.fill(memoryview(out), 0)
    assert out == CONTENT
    monkeypatch.setattr("smelt.files.remote.faults._LONGEST", 0.001)
    store.failing = 10**6
    with pytest.raises(OSError, match="busy") as found:
        file.fill(memoryview(out), 0)
    assert found.value.filename == "https://host/x"
    ahead.close()


def test_several_threads_read_the_same_file(store: Store) -> None:
    file = RemoteFile(store, "x", "https://host/x")
    ahead = ReadAhead([file], 8 * PIECE)
    parts = [(start, start + 50_000) for start in range(0, SIZE - 50_000, 50_000)]
    ahead.begin(iter((str(start), [Wanted(file, start, end)]) for start, end in parts))
    wrong: list[int] = []

    def work(first: int) -> None:
        for start, end in parts[first::4]:
            out = bytearray(end - start)
            if not file.fill(memoryview(out), start) or out != CONTENT[start:end]:
                wrong.append(start)
            ahead.done(str(start))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    ahead.close()
