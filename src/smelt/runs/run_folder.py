"""The folder of a run (of a suite, a search, a selection): what was asked for, the rows so far, the recipes.

`run.json` holds what numbers depend on, models and tasks among it; a folder that was begun with others is refused, so
that one table never mixes two protocols. One run at a time writes to a folder. `rows.jsonl` only grows: a cell that
stands there is not computed again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.errors import CorruptFile, OutputError, RecipeError
from smelt.evaluation.row import CostRow, Row, append_rows, read_rows
from smelt.files.note import differences
from smelt.files.reading import read_json_table
from smelt.files.writing import OutputMark, check_overwrite, lock_folder, write_json
from smelt.recipe.schema import Recipe

__all__ = ["PAGE", "ROWS", "RunFolder", "row_identity"]

ROWS, PAGE = "rows.jsonl", "report.html"
_RUN = "run.json"
_MARK = OutputMark(_RUN, ("models", "tasks"))
_FILES = (ROWS, _RUN, PAGE, "table.md", "table.csv", "table.tex")
_FOLDERS = ("recipes", "analyses", "models", "tuning")
"""What runs and their reports leave in the folder, these and `_FILES`."""


class RunFolder:
    """Where the results of a run lie."""

    def __init__(
        self, path: Path, words: dict[str, Any], notes: Mapping[str, Any] | None = None, *, force: bool = False
    ):
        """`words` are what numbers follow from; `notes` are written down beside them, and no reason to refuse."""
        self.path, self._notes = path, dict(notes or {})
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: the folder cannot be made ({error.strerror})") from None
        busy = RecipeError(f"{path}: another run is writing there; wait for it or choose another folder")
        self._lock = lock_folder(path, busy)
        try:
            if force:
                check_overwrite(path, _MARK, force=True)
                _clear(path)
            self._check(words)
            rows = read_rows(self.rows_file) if self.rows_file.exists() else []
        except BaseException:
            self.close()
            raise
        self._done = {row_identity(row) for row in rows}
        self.rows = list(rows)

    @property
    def rows_file(self) -> Path:
        return self.path / ROWS

    def close(self) -> None:
        """Let another run have the folder."""
        os.close(self._lock)

    def has(self, row: Row | CostRow) -> bool:
        """Whether this row, or one of the same identity, is there already."""
        return row_identity(row) in self._done

    def add(self, rows: Sequence[Row | CostRow]) -> None:
        append_rows(self.rows_file, rows)
        self.rows += rows
        self._done |= {row_identity(row) for row in rows}

    def write_recipe(self, name: str, recipe: Recipe) -> Path:
        """The recipe as a file, so that any line of the table can be made again by itself."""
        path = self.path / "recipes" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        recipe.save(path)
        return path

    def _check(self, words: dict[str, Any]) -> None:
        path = self.path / _RUN
        if not path.exists():
            if self.rows_file.exists():
                raise RecipeError(f"{self.path} holds rows of something else; choose another folder")
            write_json(path, words | self._notes)
            return
        try:
            before = read_json_table(path)
        except CorruptFile as error:
            raise RecipeError(f"{error}; choose another folder, or remove this one") from None
        compared = {word: value for word, value in before.items() if word not in self._notes}
        if said := differences(compared, words):
            raise RecipeError(
                f"{self.path} was begun with {said}; choose another folder or give {option('force')} to begin anew"
            )


def _clear(path: Path) -> None:
    """Take away what an earlier run left; files of other names stay."""
    for name in _FILES:
        (path / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(path / name, ignore_errors=True)


def row_identity(row: Row | CostRow) -> tuple[Any, ...]:
    """What a row is the number of. Two rows with one identity are one measurement, made twice."""
    same = (row.kind, row.entry, row.variant, row.part, json.dumps(row.setting, sort_keys=True))
    return same if isinstance(row, CostRow) else (*same, row.task, row.corruption, row.level, row.recipe_hash)
