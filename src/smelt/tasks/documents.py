"""Which documents of which data set a split holds, known without a download: so that none is used twice.

Settings are chosen on some documents and reported on others; where the two lie in one data set, `shared` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.tasks.task import Task

__all__ = ["Documents", "shared"]


@dataclass(frozen=True)
class Documents:
    """Some documents of one split of one data set."""

    data: str
    """The data set's name on the hub, or a file."""
    part: str | None = None
    """The part of the data set, where it has several (a subject, a language)."""
    split: str | None = None
    """As the data set calls it; None where it may be any."""
    start: int = 0
    stop: int | None = None
    """One past the last; None for the end."""

    def __str__(self) -> str:
        part = f" ({self.part})" if self.part else ""
        whole = self.start == 0 and self.stop is None
        places = "" if whole else f"[{self.start or ''}:{'' if self.stop is None else self.stop}]"
        return f"{self.data}{part}" + (f", {self.split}{places}" if self.split else "")

    def meets(self, other: Documents) -> bool:
        """Whether a document may be in both."""
        if self.data != other.data or self.part != other.part:
            return False
        if self.split is None or other.split is None:
            return True
        ends = [one.stop if one.stop is not None else float("inf") for one in (self, other)]
        return self.split == other.split and self.start < ends[1] and other.start < ends[0]


def shared(first: Sequence[tuple[Task, str]], second: Iterable[tuple[Task, str]]) -> list[str]:
    """What tasks at their splits have in common with others at theirs, one sentence for each pair."""
    known = [(task, split, list(task.documents(split))) for task, split in first]
    found = []
    for other, split_of_other in second:
        theirs = list(other.documents(split_of_other))
        for task, split, own in known:
            common = next((one for one in own for two in theirs if one.meets(two)), None)
            if common is not None:
                both = f"`{split}` of {task.name} and `{split_of_other}` of {other.name}"
                found.append(f"{both} have documents in common ({common})")
    return found
