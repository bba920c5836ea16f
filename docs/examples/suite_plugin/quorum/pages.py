"""The pages of the report: those of any suite with one table, and a sentence of one's own."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.pages import ReportView, Tile
from smelt.reporting.plain import PlainPages
from smelt.reporting.tables.sheet import Sheet


class QuorumPages(PlainPages):
    """What voting together adds."""

    def first_words(self, view: ReportView, sheets: Sequence[Sheet]) -> tuple[list[str], list[Tile]]:
        alone = max(row.accuracy for row in view.rows if row.variant == "reference")
        together = max((row.accuracy for row in view.rows if row.entry == "quorum"), default=alone)
        said = f"The best voter alone is right in {100 * alone:.0f} % of the questions"
        return [f"{said}, the quorum in {100 * together:.0f} %."], []
