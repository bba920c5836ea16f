"""Reading ahead of a run: what it will read of files on servers is fetched in its order, within a bounded room.

A file is cut into pieces of one size. The run says in which order it will want ranges (`begin`), and several
connections fetch their pieces in that order, as long as there is room. Workers take what they need (`read`) and wait
for what is on its way; what nobody has asked for yet they fetch themselves. A piece whose last user is done (`done`)
makes room first, then those that were read to their end, then those that are needed last: there is never more held than
the room.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from smelt.errors import SmeltError
from smelt.files.remote.remote_file import RemoteFile

__all__ = ["CONNECTIONS", "LEAST_ROOM", "USUAL_ROOM", "ReadAhead", "Wanted"]

USUAL_ROOM = 256 << 20
"""Bytes that may be held or on their way: the bandwidth of 10 Gbit/s for a fifth of a second."""
LEAST_ROOM = 1 << 20
CONNECTIONS = 16
_PIECE = 8 << 20
_SMALL = 1 << 16
"""Reads up to here that nobody has announced are fetched as they are."""
_LOOKED_FOR = 32
"""Tensors that are announced at once to find out who wants a piece."""


class Wanted(NamedTuple):
    """Some bytes that will be read."""

    file: RemoteFile
    start: int
    end: int


_Key = tuple[RemoteFile, int]


@dataclass(eq=False)
class _Piece:
    users: int = 0
    """Tensors that are announced and not done."""
    unread: int = 0
    """Bytes that their users have not read."""
    content: memoryview | None = None
    error: BaseException | None = None
    asked: bool = False
    """Whether it is on its way, or was."""


@dataclass
class _Pass:
    """One walk over all that is wanted."""

    coming: Iterator[tuple[str, Sequence[Wanted]]]
    of_tensor: dict[str, list[_Key]] = field(default_factory=dict)
    queue: deque[_Key] = field(default_factory=deque)


class ReadAhead:
    """For one run, and any number of its threads."""

    def __init__(self, files: Iterable[RemoteFile], room: int = USUAL_ROOM, connections: int = CONNECTIONS):
        self._files = list(files)
        self._size = max(1 << 16, min(_PIECE, room // 8))
        self._most = max(2, room // self._size)
        self._connections = min(connections, max(1, self._most // 2))
        self._change = threading.Condition()
        self._pieces: dict[_Key, _Piece] = {}
        """Those that are held, on their way or announced, in the order in which they were announced."""
        self._taken = 0
        """Pieces that are held or on their way."""
        self._pass: _Pass | None = None
        self._closed = threading.Event()
        for file in self._files:
            file.reader = self
        for number in range(self._connections if self._files else 0):
            threading.Thread(target=self._fetch_on, name=f"smelt-fetch-{number}", daemon=True).start()

    def begin(self, wanted: Iterable[tuple[str, Sequence[Wanted]]]) -> None:
        """From now on tensors are read in this order, each of which wants some ranges."""
        if not self._files:
            return
        with self._change:
            for key, piece in list(self._pieces.items()):  # of the pass before; what is held may be wanted again
                piece.users = piece.unread = 0
                if not piece.asked:
                    del self._pieces[key]
            self._pass = _Pass(iter(wanted))
            self._change.notify_all()

    def done(self, tensor: str) -> None:
        """Nothing of this tensor is read any more."""
        if not self._files or self._pass is None:
            return
        with self._change:
            for key in self._pass.of_tensor.pop(tensor, ()):
                if (piece := self._pieces.get(key)) is not None:
                    piece.users -= 1
            self._change.notify_all()

    def read(self, file: RemoteFile, position: int, room: memoryview) -> None:
        """Fill the room with bytes of a file, from `position` on."""
        end = position + len(room)
        for number in range(position // self._size, -(-end // self._size)):
            begin = number * self._size
            low, high = max(position, begin), min(end, begin + self._size)
            some = room[low - position : high - position]
            content = self._piece((file, number), len(some))
            if content is None:
                some[:] = file.fetch(low, high, sleep=self._closed.wait)
            else:
                some[:] = content[low - begin : high - begin]

    def close(self) -> None:
        """Stop fetching; whoever waits is told so."""
        self._closed.set()
        with self._change:
            self._change.notify_all()
            for file in self._files:
                if file.reader is self:
                    file.reader = None

    def _piece(self, key: _Key, count: int) -> memoryview | None:
        """The content of a piece; None where a reader fetches what it needs itself."""
        with self._change:
            piece = self._pieces.get(key)
            for _ in range(_LOOKED_FOR):  # a worker may be quicker than those who fetch
                if piece is not None or self._pass is None or not self._announce_next(self._pass):
                    break
                piece = self._pieces.get(key)
            if piece is None and count < min(_SMALL, self._size):
                return None
            if piece is None or not piece.asked:
                if not self._make_room(urgent=True):
                    return None
                piece = self._pieces.setdefault(key, _Piece())
                piece.asked, self._taken = True, self._taken + 1
                mine = True
            else:
                mine = False
        if mine:
            self._fetch(key, piece)
        with self._change:
            self._change.wait_for(lambda: piece.content is not None or piece.error is not None or self._closed.is_set())
            if piece.error is not None:
                raise _again(piece.error)
            if piece.content is None:
                raise SmeltError("the run was ended while it was reading")
            piece.unread -= count
            if piece.unread <= 0:
                self._change.notify_all()
            return piece.content

    def _fetch_on(self) -> None:
        while (found := self._next()) is not None:
            self._fetch(*found)

    def _next(self) -> tuple[_Key, _Piece] | None:
        """The next piece to fetch, when there is room for it; None at the end."""
        with self._change:
            while not self._closed.is_set():
                key = self._upcoming()
                if key is not None and self._make_room():
                    assert self._pass is not None
                    self._pass.queue.popleft()
                    piece = self._pieces[key]
                    piece.asked, self._taken = True, self._taken + 1
                    return key, piece
                self._change.wait()
            return None

    def _upcoming(self) -> _Key | None:
        """The first announced piece that nobody has asked for; announces some more where none is left."""
        walk = self._pass
        if walk is None:
            return None
        while True:
            while walk.queue:
                piece = self._pieces.get(walk.queue[0])
                if piece is not None and not piece.asked and piece.users > 0:
                    return walk.queue[0]
                walk.queue.popleft()
            if not self._announce_next(walk):
                return None

    def _announce_next(self, walk: _Pass) -> bool:
        """What the next tensor wants; False where there is none."""
        tensor, ranges = next(walk.coming, ("", None))
        for wanted in ranges or ():
            self._announce(walk, tensor, wanted)
        return ranges is not None

    def _announce(self, walk: _Pass, tensor: str, wanted: Wanted) -> None:
        for number in range(wanted.start // self._size, -(-wanted.end // self._size)):
            key = wanted.file, number
            piece = self._pieces.setdefault(key, _Piece())
            piece.users += 1
            begin = number * self._size
            piece.unread += min(wanted.end, begin + self._size) - max(wanted.start, begin)
            walk.of_tensor.setdefault(tensor, []).append(key)
            walk.queue.append(key)

    def _make_room(self, urgent: bool = False) -> bool:
        """Whether there is room for one piece more, after letting go of what is not needed any more."""
        if self._taken < self._most:
            return True
        held = [(key, piece) for key, piece in self._pieces.items() if piece.content is not None]
        spent = next((key for key, piece in held if piece.users <= 0), None)
        if spent is None:
            read = [key for key, piece in held if piece.unread <= 0]
            # What was read may be read again while its tensor is worked on, if there is room to wait for that.
            spent = read[0] if read and (urgent or len(read) > self._most // 2) else None
        if spent is None and urgent and held:
            spent = held[-1][0]
        if spent is None:
            return False
        self._let_go(spent)
        return True

    def _let_go(self, key: _Key) -> None:
        piece = self._pieces.pop(key)
        self._taken -= 1
        if piece.users > 0 and piece.unread > 0:  # it is fetched again when its turn comes
            self._pieces[key] = _Piece(piece.users, piece.unread)
            if self._pass is not None:
                self._pass.queue.append(key)

    def _fetch(self, key: _Key, piece: _Piece) -> None:
        file, number = key
        start = number * self._size
        try:
            content = file.fetch(start, min(start + self._size, file.size), sleep=self._closed.wait)
        except BaseException as error:
            with self._change:
                piece.error = error
                self._change.notify_all()
            return
        with self._change:
            piece.content = content
            self._change.notify_all()


def _again(error: BaseException) -> BaseException:
    """The same fault for another thread."""
    if isinstance(error, OSError):
        return OSError(error.errno, error.strerror, error.filename)
    return error
