"""How many examples go through a network at once where their layers' inputs are kept until they are summed.

What a measurement takes and what a plan says of it come from the same numbers.
"""

from __future__ import annotations

__all__ = ["CHUNK", "TOGETHER", "examples_at_once"]

CHUNK, TOGETHER = 32, 4
"""Examples of a forward pass, and how many such chunks, or more, are kept and go into the sums at once."""
_MEMORY, _MEMORY_ELSEWHERE = 512 << 20, 2 << 30
"""Bytes of the inputs of all chunks that are kept, in main memory or on an accelerator."""


def examples_at_once(numbers: float, device: str, chunk: int = CHUNK) -> int:
    """Examples of a chunk: the number asked for, or the power of two below it with which `TOGETHER` chunks fit.

    `numbers` are the float32 numbers that the longest example gives all layers. One example is the least. It does not
    depend on the number of threads, since the sums' last bits depend on it.
    """
    memory = _MEMORY if device == "cpu" else _MEMORY_ELSEWHERE
    most = max(1, int(memory / TOGETHER / (4 * numbers or 1)))
    return chunk if chunk <= most else 1 << (most.bit_length() - 1)
