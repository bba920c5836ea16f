"""The compiled parts of Smelt: whether they are in use, with which instructions, and why not where they are not."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CompiledPart", "compiled_parts"]

_INSTRUCTIONS = {4: "AVX-512 (x86-64-v4)", 3: "AVX2 (x86-64-v3)", 1: "SSE2 (x86-64)", 2: "NEON"}
"""What the machine says of itself (`smelt_instructions` in machine.c)."""
_SUFFIXES = (".so", ".dll", ".dylib", ".pyd")


@dataclass(frozen=True)
class CompiledPart:
    """A library of Smelt's own in C."""

    what: str
    used: bool
    instructions: str | None
    """The vector instructions that it works with; None where it is not used, or does not say."""
    why: str | None
    """Why it is not used."""


def compiled_parts() -> list[CompiledPart]:
    """The vector machine of merges, and SHA-256."""
    from smelt.engine.run.cpu.machine import library
    from smelt.files.hashing.sha256 import files_at_once

    machine = library()
    hashes = files_at_once() > 1
    folder = Path(__file__).parents[1]
    merges = "runs merges in torch instead; the same result, later"
    hashing = "hashes with hashlib instead; the same result, later"
    return [
        CompiledPart(
            "merges",
            machine is not None,
            _instructions(machine) if machine is not None else None,
            None if machine is not None else f"{_why_not(folder / 'engine/run/cpu', '_machine')}; {merges}",
        ),
        CompiledPart(
            "SHA-256",
            hashes,
            "SHA" if hashes else None,
            None if hashes else f"{_why_not(folder / 'files/hashing', '_sha256')}; {hashing}",
        ),
    ]


def _instructions(machine: ctypes.CDLL) -> str | None:
    try:
        return _INSTRUCTIONS.get(machine.smelt_instructions())
    except AttributeError:  # made by an older version of Smelt
        return None


def _why_not(folder: Path, name: str) -> str:
    if os.environ.get("SMELT_FUSED") == "0":
        return "SMELT_FUSED is 0"
    files = [path for path in folder.glob(f"{name}*") if path.suffix in _SUFFIXES]
    if not files:
        return "not compiled: there was no C compiler when Smelt was installed"
    try:
        found = ctypes.CDLL(str(files[0]))
    except OSError:
        return f"{files[0].name} cannot be loaded here: it was made for another system"
    if name == "_sha256" and hasattr(found, "smelt_sha256_here") and not found.smelt_sha256_here():
        return "the processor has no instructions for SHA-256"
    return f"{files[0].name} was made by another version of Smelt; install it again"
