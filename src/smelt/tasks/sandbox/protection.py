"""What this system offers against programs that models write: found out once, by a process that confines itself.

Where something is missing, that is said on stderr before the first program runs, and rows have it in `sandbox`.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass

from smelt.errors import SmeltError
from smelt.tasks.sandbox.inside.plain import NotPlain, decode
from smelt.tasks.sandbox.process import Process, watch

__all__ = ["Protection", "SandboxError", "announced", "protection"]

_MISSING = {
    "seccomp": "no seccomp on this system: processes, network and writing are refused by Python alone, "
    "and a program that is written to break out can",
    "landlock": "no Landlock on this system: programs can read whatever you can read, the answers of tasks too",
}


class SandboxError(SmeltError):
    """The sandbox itself does not work here; no program has run."""


@dataclass(frozen=True)
class Protection:
    """The layers that stop a program."""

    layers: tuple[str, ...]
    """Of `landlock` and `seccomp`, which are the kernel's, and `python`."""
    libraries: tuple[str, ...]
    """Files that modules of the standard library need, beside themselves."""

    @property
    def name(self) -> str:
        """As rows have it: `landlock+seccomp`, `seccomp`, `python`."""
        return "+".join(self.layers)

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not stopped by the kernel, a sentence each."""
        return tuple(text for layer, text in _MISSING.items() if layer not in self.layers)


@functools.cache
def protection() -> Protection:
    """What there is here. Takes about as long as a few programs, once."""
    with Process({"role": "probe"}) as probe:
        watch([probe], 0)
    try:
        layers, libraries = decode(bytes(probe.said["mark"]), lambda *_: None)
    except (NotPlain, TypeError, ValueError):
        raise SandboxError(f"the sandbox for programs cannot be started: {probe.text('stderr').strip()}") from None
    return Protection(tuple(layers), tuple(libraries))


@functools.cache
def announced() -> Protection:
    """The same, and a note on stderr, once, of what is missing. Before anything is run."""
    found = protection()
    for text in found.missing:
        sys.stderr.write(f"note: code that a model wrote will run here, and there is {text}\n")
    sys.stderr.flush()
    return found
