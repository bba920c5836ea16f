"""The portable guard, for systems whose kernel cannot confine a process: Python refuses by itself.

A hook refuses what a program that solves an exercise never does: sockets, processes, foreign code, and writing
outside its folder. Functions and modules that ask no hook are taken away. Where the system allows it, there is no
network at all. All this lives in the program's own process: it stops accidents, and nobody who means to get past it.
"""

from __future__ import annotations

import os
import resource
import sys
from _thread import get_ident

__all__ = ["refuse_beyond"]

_REFUSED: tuple[str, ...] = (
    "socket.",
    "subprocess.",
    "ctypes.",
    "os.fork",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "resource.",
)
_REFUSED += ("os.startfile", "os.kill", "os.putenv", "pty.", "sys.addaudithook", "signal.pthread_kill", "webbrowser.")
_REFUSED += ("winreg.", "ftplib.", "http.client.", "imaplib.", "poplib.", "smtplib.", "telnetlib.", "urllib.Request")
_MODULES = {"_ctypes", "ctypes", "_posixshmem", "_gdbm", "_dbm", "_sqlite3", "readline"}
_MODULES |= {"_xxsubinterpreters", "_interpreters"}
"""Foreign code, modules that write files without asking (of SQLite a word of SQL can: `attach`), and interpreters that
the hook does not reach."""

_WRITES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((0, 2), (1, 2)),
    "os.utime": ((0, 3),),
    "os.truncate": ((0, -1),),
    "os.setxattr": ((0, -1),),
    "os.removexattr": ((0, -1),),
    "os.chflags": ((0, -1),),
    "shutil.rmtree": ((0, 1),),
}
"""What an event is told: where its paths are, and where the descriptors of the folders that they start from."""

_UNASKED = {
    "os": ("mkfifo", "mknod", "pidfd_open"),
    "posix": ("mkfifo", "mknod", "pidfd_open"),
    "signal": ("pidfd_send_signal",),
    "_signal": ("pidfd_send_signal",),
    "_posixsubprocess": ("fork_exec",),
}
"""Functions that no event guards."""


def _close_network() -> None:
    """A user and network namespace of its own, where the system has such things and allows them."""
    try:
        import ctypes

        new_user, new_network = 0x10000000, 0x40000000
        ctypes.CDLL(None).unshare(new_user | new_network)
    except (ImportError, OSError, AttributeError):
        pass
    for name in [name for name in sys.modules if name.partition(".")[0] in ("ctypes", "_ctypes", __package__)]:
        del sys.modules[name]


def _limit_processes() -> None:
    """All of this user together, so it may be that not even a thread is left for it."""
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (64, 64))
    except (ValueError, OSError):  # as in confine.set_limits
        return


class _Places:
    """Where paths lead, and whether that is outside the folder. What cannot be told is outside."""

    def __init__(self, folder: str):
        self._inside = os.path.realpath(folder) + os.sep

    def absolute(self, path: object, start: object = -1) -> str:
        """A path as seen from an open folder, or from the present one; a descriptor is the file that it stands for."""
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")
        text = os.fsdecode(path)  # type: ignore[arg-type]
        return os.path.join(os.getcwd() if start in (None, -1) else os.readlink(f"/proc/self/fd/{start}"), text)

    def outside(self, path: object, start: object = -1) -> bool:
        """Of a link both count: where it lies and where it leads."""
        try:
            whole = self.absolute(path, start)
            folder, name = os.path.split(whole)
            ways = [os.path.realpath(whole), os.path.join(os.path.realpath(folder), name)]
        except (OSError, TypeError, ValueError):
            return True
        return not all(os.path.join(way, "").startswith(self._inside) for way in ways)


def refuse_beyond(folder: str) -> None:
    """An audit hook cannot be taken out again."""
    write_flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    places = _Places(folder)
    busy: set[int] = set()

    def wrong(event: str, given: tuple[object, ...]) -> bool:
        if event == "open":
            path, mode, flags = given
            writes = set(str(mode or "")) & set("wax+") or (isinstance(flags, int) and flags & write_flags)
            return bool(writes) and not isinstance(path, int) and places.outside(path)
        found = _WRITES.get(event, ())
        return any(places.outside(given[at], given[start] if 0 < start < len(given) else -1) for at, start in found)

    def hook(event: str, given: tuple[object, ...]) -> None:
        if get_ident() in busy:  # the questions that the hook itself asks of the file system
            return
        if event.startswith(_REFUSED):
            raise PermissionError(f"the sandbox does not allow {event}")
        if event == "import" and given[0] in _MODULES:
            raise ImportError(f"the sandbox does not allow the module {given[0]}")
        busy.add(get_ident())
        try:
            refused = wrong(event, given)
        finally:
            busy.discard(get_ident())
        if refused:
            raise PermissionError(f"the sandbox does not allow {event} outside its folder")

    _close_network()
    _limit_processes()
    _take_away()
    _open_from_anywhere(places)
    sys.addaudithook(hook)


def _take_away() -> None:
    """Put a refusal in the place of what no event guards."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("the sandbox does not allow processes, signals and special files")

    for module, names in _UNASKED.items():
        try:
            home = __import__(module)
        except ImportError:
            continue
        for name in names:
            if hasattr(home, name):
                setattr(home, name, refused)


def _open_from_anywhere(places: _Places) -> None:
    """The event of `os.open` does not tell the folder that a path starts from: let it see the whole path."""
    plain = os.open

    def opened(path: object, flags: int, mode: int = 0o777, *, dir_fd: object = None) -> int:
        whole = path if dir_fd is None else places.absolute(path, dir_fd)
        return plain(whole, flags, mode)  # type: ignore[arg-type]

    for module in ("os", "posix"):
        if module in sys.modules:
            setattr(sys.modules[module], "open", opened)  # noqa: B010
