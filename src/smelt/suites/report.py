"""`smelt.report`: the report of a suite's folder, with the pages of the suite's kind."""

from __future__ import annotations

from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.json_reader import read_json
from smelt.suites.kind import Kind, kinds

__all__ = ["kind_of_folder", "report"]


def report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a suite's folder: one HTML page, and its tables as Markdown, CSV and LaTeX beside it.

    Reads `rows.jsonl` and `analyses/*.json` only. `out` is the page's file, `report.html` in the folder unless given;
    an older report is replaced. Returns the page's path.
    """
    from smelt.reporting.write import report as write

    return write(folder, out)


def kind_of_folder(folder: Path) -> Kind | None:
    """The kind of the suite that a folder's rows are of; None where that is not known."""
    try:
        begun = read_json(folder / "run.json")
    except CorruptFile:
        return None
    if not isinstance(begun, dict):
        return None
    suite = str(begun.get("suite", "")).rpartition("@")[0]
    named = begun.get("kind") or next((k.name for k in kinds.values() if suite in k.suites()), None)
    return kinds.get(str(named))
