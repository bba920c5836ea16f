"""What runs inside the sandbox's process: limits first, then the program. Nothing but the standard library, no Smelt.

    python -s -S -P inside.py FOLDER SECONDS MEMORY MARK < token + stdin      the program is FOLDER/program.py

A hook refuses what a program that solves an exercise never does: sockets, processes, foreign code, and writing
outside its folder. Functions and modules that ask no hook are taken away. Where the system allows it, there is no
network at all. The file descriptor MARK hears when the program begins, and when it has ended: the token, which the
program is not told, so that one that leaves in the middle is not taken for one that got to its end.
"""

import os
import resource
import sys
from _thread import get_ident

BEGIN = b"("
TOKEN = 32
"""Bytes of the token that says the end was reached; they come before the program's own input."""
NO_MEMORY = 97
"""The exit code that says the memory was not enough."""

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
"""Foreign code, and modules that write files without asking: of SQLite a word of SQL can (`attach`)."""

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


def close_network() -> None:
    """A user and network namespace of its own, where the system has such things and allows them."""
    try:
        import ctypes

        new_user, new_network = 0x10000000, 0x40000000
        ctypes.CDLL(None).unshare(new_user | new_network)
    except (ImportError, OSError, AttributeError):
        pass
    for name in [name for name in sys.modules if name.partition(".")[0] in ("ctypes", "_ctypes")]:
        del sys.modules[name]


def set_limits(seconds: float, memory: int) -> None:
    limits = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 16 << 20,
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_NPROC: 64,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # a stricter limit is there already, or the system has no such limit
            continue


class Places:
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
    places = Places(folder)
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

    take_away()
    open_from_anywhere(places)
    sys.addaudithook(hook)


def take_away() -> None:
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


def open_from_anywhere(places: Places) -> None:
    """The event of `os.open` does not tell the folder that a path starts from: let it see the whole path."""
    plain = os.open

    def opened(path: object, flags: int, mode: int = 0o777, *, dir_fd: object = None) -> int:
        whole = path if dir_fd is None else places.absolute(path, dir_fd)
        return plain(whole, flags, mode)  # type: ignore[arg-type]

    for module in ("os", "posix"):
        if module in sys.modules:
            setattr(sys.modules[module], "open", opened)  # noqa: B010


def read_token() -> bytes:
    """Before anything of the program's own input is read."""
    token = b""
    while len(token) < TOKEN:
        piece = os.read(0, TOKEN - len(token))
        if not piece:
            os._exit(1)  # nobody is there any more
        token += piece
    return token


def main() -> None:
    folder, seconds, memory, mark = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with open(os.path.join(folder, "program.py"), encoding="utf-8") as file:
        source = file.read()
    token = read_token()
    os.chdir(folder)
    close_network()
    set_limits(seconds, memory)
    refuse_beyond(folder)
    sys.argv = ["program.py"]
    program = sys.modules["__main__"] = type(sys)("__main__")  # what doctest and others look into
    program.__file__ = "program.py"
    os.write(mark, BEGIN)
    try:
        exec(compile(source, "program.py", "exec"), program.__dict__)
        sys.stdout.flush()
    except MemoryError:
        os._exit(NO_MEMORY)
    os.write(mark, token)
    os._exit(0)  # threads that still run do not hold it up


if __name__ == "__main__":
    main()
