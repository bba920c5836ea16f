"""Calls of the Linux kernel: those that a running Python needs, with their numbers, and those for which it has none.

A list of calls is NAME:x86_64:aarch64. Whatever is in none of them is refused: processes, sockets, signals to others,
tracing, io_uring, namespaces, modes and owners of files, and whatever kernels will learn.
"""

from __future__ import annotations

import os
import struct
import sys

__all__ = [
    "CHANGES",
    "CHECKED",
    "HARMLESS",
    "MACHINE",
    "SETUP",
    "call",
    "drop_privileges",
    "filter_calls",
    "known_kernel",
    "numbers",
]

HARMLESS = (
    # reading and writing what is open
    "read:0:63 readv:19:65 pread64:17:67 write:1:64 writev:20:66 pwrite64:18:68 close:3:57 fsync:74:82 lseek:8:62 "
    "dup:32:23 dup2:33:- dup3:292:24 pipe:22:- pipe2:293:59 poll:7:- ppoll:271:73 select:23:- pselect6:270:72 "
    # looking at files and folders
    "fstat:5:80 newfstatat:262:79 stat:4:- lstat:6:- statx:332:291 access:21:- faccessat:269:48 faccessat2:439:439 "
    "getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50 readlink:89:- readlinkat:267:78 umask:95:166 "
    # memory
    "mmap:9:222 mprotect:10:226 munmap:11:215 mremap:25:216 madvise:28:233 brk:12:214 "
    # signals and timers of its own
    "rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigpending:127:136 sigaltstack:131:132 "
    "alarm:37:- setitimer:38:103 getitimer:36:102 pause:34:- restart_syscall:219:128 "
    # threads, and who it is
    "futex:202:98 set_robust_list:273:99 rseq:334:293 sched_yield:24:124 sched_getaffinity:204:123 gettid:186:178 "
    "getpid:39:172 getppid:110:173 getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177 "
    # clocks, counters, the end
    "nanosleep:35:101 clock_nanosleep:230:115 clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 "
    "time:201:- times:100:153 getrusage:98:165 getrlimit:97:163 sysinfo:99:179 uname:63:160 getrandom:318:278 "
    "exit:60:93 exit_group:231:94"
)
CHANGES = (
    "mkdir:83:- mkdirat:258:34 rmdir:84:- unlink:87:- unlinkat:263:35 rename:82:- renameat:264:38 renameat2:316:276 "
    "symlink:88:- symlinkat:266:36 ftruncate:77:46"
)
"""Of files and folders: harmless only where something else says which."""
CHECKED = "open:2:- openat:257:56 ioctl:16:29 fcntl:72:25 clone:56:220 clone3:435:435 tgkill:234:131 prlimit64:302:261"
"""Harmless or not by what they are given."""
SETUP = "landlock_create_ruleset:444:444 landlock_add_rule:445:445 landlock_restrict_self:446:446 capset:126:91"
"""What confining itself needs; no longer allowed afterwards."""

_MACHINES = {"x86_64": 1, "aarch64": 2}


def numbers(calls: str, machine: str) -> dict[str, int]:
    """The calls of a list that a machine has, with their numbers there; of an unknown machine none."""
    if machine not in _MACHINES:
        return {}
    rows = (word.split(":") for word in calls.split())
    return {row[0]: int(row[_MACHINES[machine]]) for row in rows if row[_MACHINES[machine]] != "-"}


try:
    import ctypes
except ImportError:  # a Python that was built without it
    MACHINE = ""
else:
    MACHINE = os.uname().machine if sys.platform == "linux" and sys.maxsize > 2**32 else ""
    _C = ctypes.CDLL(None, use_errno=True)

_NUMBERS = numbers(SETUP, MACHINE)
_NO_NEW_PRIVS, _SET_PDEATHSIG, _SIGKILL = 38, 1, 9
_SET_SECCOMP, _MODE_FILTER = 22, 2
_CAPABILITY_VERSION = 0x20080522


def known_kernel() -> bool:
    """Whether this is Linux, on a machine whose numbers we know."""
    return bool(_NUMBERS)


def call(name: str, *given: int | bytes | None) -> int:
    """One of the calls that confining needs."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    return _checked(_C.syscall(ctypes.c_long(_NUMBERS[name]), *words))


def _prctl(what: int, *given: int | bytes) -> int:
    """The call that sets things of a process; it takes five words, whatever they mean."""
    words = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in (*given, 0, 0, 0, 0)[:4]]
    return _checked(_C.prctl(what, *words))


def drop_privileges() -> None:
    """It gets no new rights, lays down those of root, and does not outlive the one who started it."""
    _prctl(_NO_NEW_PRIVS, 1)
    call("capset", struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))
    _prctl(_SET_PDEATHSIG, _SIGKILL)


def filter_calls(program: bytes) -> None:
    """Have the kernel run a BPF program before every call of this process."""
    content = ctypes.create_string_buffer(program, len(program))
    _prctl(_SET_SECCOMP, _MODE_FILTER, struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(content)))


def _checked(found: int) -> int:
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
