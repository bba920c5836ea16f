"""What runs inside the sandbox's process: limits first, then the program. Nothing but the standard library, no Smelt.

    python -s -S -P inside.py FOLDER SECONDS MEMORY MARK < stdin      the program is FOLDER/program.py

A hook refuses what a program that solves an exercise never does: sockets, processes, foreign code, and writing
outside its folder. Where the system allows it, there is no network at all. The file descriptor MARK hears when the
program begins, and when it has ended: one that leaves in the middle is not taken for one that got to its end.
"""

import os
import resource
import sys

BEGIN, END = b"(", b")"
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
)
_REFUSED += ("os.startfile", "os.kill", "os.putenv", "pty.", "sys.addaudithook", "signal.pthread_kill", "webbrowser.")
_REFUSED += ("winreg.", "ftplib.", "http.client.", "imaplib.", "poplib.", "smtplib.", "telnetlib.", "urllib.Request")
_MODULES = {"_ctypes", "ctypes", "_posixshmem"}
_WRITES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink"}
_WRITES |= {"os.truncate", "os.utime", "os.mkfifo", "os.mknod", "os.setxattr", "os.removexattr", "os.chflags"}


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


def refuse_beyond(folder: str) -> None:
    """An audit hook cannot be taken out again."""
    inside = os.path.realpath(folder) + os.sep
    write_flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    real, join, text = os.path.realpath, os.path.join, os.fsdecode
    busy: list[str] = []

    def outside(path: object) -> bool:
        return not isinstance(path, int) and not join(real(text(path)), "").startswith(inside)  # type: ignore[arg-type]

    def hook(event: str, given: tuple[object, ...]) -> None:
        if busy:  # the questions that the hook itself asks of the file system
            return
        if event.startswith(_REFUSED):
            raise PermissionError(f"the sandbox does not allow {event}")
        if event == "import" and given[0] in _MODULES:
            raise PermissionError(f"the sandbox does not allow the module {given[0]}")
        paths: list[object] = []
        if event == "open":
            path, mode, flags = given
            if set(str(mode or "")) & set("wax+") or (isinstance(flags, int) and flags & write_flags):
                paths = [path]
        elif event in _WRITES:
            paths = [one for one in given[:2] if isinstance(one, (str, bytes))]
        if not paths:
            return
        busy.append(event)
        try:
            wrong = any(outside(path) for path in paths)
        finally:
            busy.pop()
        if wrong:
            raise PermissionError(f"the sandbox does not allow {event} outside its folder")

    def fork_exec(*_: object) -> None:
        raise PermissionError("the sandbox does not allow processes")

    try:
        import _posixsubprocess

        setattr(_posixsubprocess, "fork_exec", fork_exec)  # noqa: B010 # the one door to processes that no event guards
    except ImportError:
        pass
    sys.addaudithook(hook)


def main() -> None:
    folder, seconds, memory, mark = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with open(os.path.join(folder, "program.py"), encoding="utf-8") as file:
        source = file.read()
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
    os.write(mark, END)
    os._exit(0)  # threads that still run do not hold it up


if __name__ == "__main__":
    main()
