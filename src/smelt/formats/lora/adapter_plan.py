"""What becomes of every tensor of a base that an adapter changes.

Planners make one from headers: `peft_plan.py` of a PEFT adapter, with its config, `file_plan.py` of a single file.
`source.py` reads by it. Every adapter tensor ends up in the plan or in the list of faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from smelt.formats.lora.changes import Change
from smelt.formats.lora.edits import Added, Directed, Edit

__all__ = ["AdapterPlan"]


@dataclass(slots=True)
class AdapterPlan:
    """What happens to the base's tensors, by their names in the base."""

    replaced: dict[str, list[str]] = field(default_factory=dict)
    """Whole tensors. Two for one base tensor (tied weights) must hold the same numbers."""
    edits: dict[str, list[Edit]] = field(default_factory=dict)
    """In the order in which they are done."""
    stacks: dict[str, int] = field(default_factory=dict)
    """Stacks of experts, by the rows of all their matrices; any other tensor's rows are its first axis."""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is done as the tool that wrote the adapter does it, but may surprise."""

    def add(self, key: str, edit: Edit) -> None:
        self.edits.setdefault(key, []).append(edit)

    def changes(self, key: str) -> bool:
        return key in self.replaced or key in self.edits

    @property
    def sums(self) -> Iterator[tuple[str, Added]]:
        """All that is added, with the tensor that it is added to."""
        for key, edits in self.edits.items():
            for edit in edits:
                if isinstance(edit, Directed):
                    yield key, edit.added
                elif isinstance(edit, Added):
                    yield key, edit

    @property
    def rank(self) -> int:
        """The highest rank of the changes of matrices; 0 if there are none."""
        return max((added.change.rank for _, added in self.sums if _is_matrix(added.change)), default=0)


def _is_matrix(change: Change) -> bool:
    """Not the shift of a bias or of a norm."""
    return len(change.names) > 1
