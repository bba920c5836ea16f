"""A model of a selection suite: one as it is, or a group merged by an entry. Its name follows from both.

Groups are always in the pool's order, however they grew, so that the same group is merged and asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BASE", "EXPERT", "JOINT", "Candidate", "alone", "group"]

BASE, JOINT, EXPERT = "pretrained", "joint", "expert-"
"""The entries of models as they are; an expert's is the last word and its name."""


@dataclass(frozen=True)
class Candidate:
    """`entry` and `part` are those of its rows."""

    entry: str
    part: str | None = None
    names: tuple[str, ...] = ()
    """The models that it is made of; none for the references."""

    @property
    def who(self) -> str:
        """What analyses call it."""
        return self.entry if self.part is None else f"{self.entry}@{self.part}"

    @property
    def stem(self) -> str:
        """The name of its recipe's file."""
        return self.entry if self.part is None else f"{self.entry}-{self.part}"


def alone(name: str) -> Candidate:
    """An expert by itself."""
    return Candidate(f"{EXPERT}{name}", None, (name,))


def group(entry: str, names: Sequence[str], every: Sequence[str]) -> Candidate:
    """A group merged by an entry; that of one model is the model, whatever the entry would make of it."""
    own = tuple(name for name in every if name in names)
    if len(own) == 1:
        return alone(own[0])
    left = [name for name in every if name not in own]
    part = "all" if not left else f"all-but-{left[0]}" if len(left) == 1 else "+".join(own)
    return Candidate(entry, part, own)
