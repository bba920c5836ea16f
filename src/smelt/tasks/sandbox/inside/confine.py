"""Confining a process: limits first, then what the kernel refuses from now on; where it cannot, what Python refuses.

Layers, by name: `landlock` (files: only the standard library may be read, only the folder written) and `seccomp` (no
processes, sockets, signals to others, and without Landlock no writing at all). Without seccomp there is `python`: the
hook of guard.py, which accidents do not get past and a program written to break out does.
"""

from __future__ import annotations

import os
import resource
import sys

from . import guard, landlock, seccomp
from .kernel import drop_privileges, known_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["confine", "set_limits", "shared_libraries"]

_PUBLIC = ["/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/locale"]
_DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom"]
_PACKAGES = {"site-packages", "dist-packages"}
"""Below the standard library of some systems, and not part of it; tasks may lie there, with their answers."""


def set_limits(seconds: float, memory: int) -> None:
    """Of time on a processor, address space, files. A stricter limit that is there already stays."""
    limits = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 16 << 20,
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # stricter already, or the system has no such limit
            continue


def confine(libraries: list[str], folder: str | None) -> list[str]:
    """Put on every layer that this system has, and name them.

    `folder` may be written; `libraries` are files that modules of the standard library link to.
    """
    found = []
    if known_kernel():
        drop_privileges()
        readable = [*_standard_library(), *libraries, *_PUBLIC]
        if _taken(landlock.restrict, readable, [folder] if folder else [], _DEVICES):
            found.append("landlock")
        if _taken(seccomp.install, "landlock" in found):
            found.append("seccomp")
    if "seccomp" not in found:
        guard.refuse_beyond(folder or os.devnull)
        found.append("python")
    return found


def _taken(layer: Callable[..., None], *given: object) -> bool:
    """Whether the kernel has such a thing, and lets us."""
    try:
        layer(*given)
    except OSError:
        return False
    return True


def _standard_library() -> list[str]:
    """Everything on the path, but no packages: entry by entry, since the kernel knows no exceptions."""
    found = []
    for place in sys.path:
        if not os.path.isdir(place):
            found.append(place)
        elif os.path.dirname(place) not in sys.path:
            found += [os.path.join(place, name) for name in os.listdir(place) if name not in _PACKAGES]
    return found


def shared_libraries() -> list[str]:
    """Files beyond the standard library that its compiled modules bring along."""
    import importlib
    import importlib.machinery

    endings = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    for place in filter(os.path.isdir, sys.path):
        for name in (one.partition(".")[0] for one in os.listdir(place) if one.endswith(endings)):
            try:
                importlib.import_module(name)
            except Exception:  # not for this system, or for nobody's use
                continue
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            mapped = {line.split(maxsplit=5)[5].rstrip("\n") for line in file if " /" in line}
    except OSError:
        return []
    return sorted(path for path in mapped if os.path.isfile(path) and not path.startswith(tuple(sys.path)))
