"""Rows that a run is to have, as far as they are known before they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smelt.evaluation.row import CostRow, Row

__all__ = ["ExpectedRow", "known_fields"]


@dataclass(frozen=True)
class ExpectedRow:
    """A row of accuracy, or without a task one of cost. Nothing for `recipe_hash` or `setting` means any."""

    entry: str
    variant: str
    task: str | None = None
    part: str | None = None
    corruption: str | None = None
    level: str | None = None
    recipe_hash: str | None = None
    setting: Mapping[str, Any] | None = None
    """All that the row's setting says."""
    within: Mapping[str, Any] | None = None
    """Some of what it says."""

    @property
    def known(self) -> tuple[Any, ...]:
        """The fields that are always known."""
        return (self.entry, self.variant, self.task, self.part, self.corruption, self.level)

    def fits(self, row: Row | CostRow) -> bool:
        """Whether a row is the one that is meant."""
        if known_fields(row) != self.known or (self.setting is not None and row.setting != self.setting):
            return False
        if self.recipe_hash is not None and isinstance(row, Row) and row.recipe_hash != self.recipe_hash:
            return False
        return all(row.setting.get(word) == value for word, value in (self.within or {}).items())


def known_fields(row: Row | CostRow) -> tuple[Any, ...]:
    """What an expected row always says of its row."""
    if isinstance(row, CostRow):
        return (row.entry, row.variant, None, row.part, None, None)
    return (row.entry, row.variant, row.task, row.part, row.corruption, row.level)
