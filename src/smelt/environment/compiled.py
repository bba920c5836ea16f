"""The compiled parts of Smelt: whether they are in use, with which instructions, and why not where they are not."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CompiledPart", "compiled_parts"]

_INSTRUCTIONS = {4: "AVX-512 (x86-64-v4)", 3: "AVX2 (x86-64-v3)", 1: "SSE2 (x86-64)", 2: "NEON"}
"""What the machine says of itself (`smelt_instructions` in machine.c)."""
_LANES = {16: "AVX-512 (16 lanes)", 8: "AVX2 (8 lanes)", 4: "4 lanes", 1: "1 lane"}
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
    """The vector machine of merges, BLAKE3, and the decoder of GGUF's blocks."""
    from smelt.engine.run.cpu.machine import library
    from smelt.files.hashing.blake3 import compiled_blake3
    from smelt.formats.gguf.blocks import compiled_blocks

    machine, hashes, blocks = library(), compiled_blake3(), compiled_blocks()
    folder = Path(__file__).parents[1]
    merges = "runs merges in torch instead; the same result, later"
    hashing = "hashes files when they are complete instead; the same result, later"
    decoding = "decodes blocks of GGUF by the gguf package instead; the same result, later"
    return [
        CompiledPart(
            "merges",
            machine is not None,
            _instructions(machine) if machine is not None else None,
            None if machine is not None else f"{_why_not(folder / 'engine/run/cpu', '_machine')}; {merges}",
        ),
        CompiledPart(
            "BLAKE3",
            hashes is not None,
            _LANES.get(hashes.smelt_blake3_lanes()) if hashes is not None else None,
            None if hashes is not None else f"{_why_not(folder / 'files/hashing', '_blake3')}; {hashing}",
        ),
        CompiledPart(
            "GGUF",
            blocks is not None,
            None,
            None if blocks is not None else f"{_why_not(folder / 'formats/gguf', '_blocks')}; {decoding}",
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
        ctypes.CDLL(str(files[0]))
    except OSError:
        return f"{files[0].name} cannot be loaded here: it was made for another system"
    return f"{files[0].name} was made by another version of Smelt; install it again"
