"""What a process of the sandbox says of itself: by its mark, which is a pipe, and by its exit code."""

from __future__ import annotations

__all__ = ["BEGIN", "END", "NO_MEMORY"]

BEGIN = b"begin\n"
END = b"end\n"
NO_MEMORY = 97
"""The exit code that says the memory was not enough."""
