"""The printed tables that a suite names (`published: [NAME]`): files `published/NAME.yaml` in its kind's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from smelt.errors import RecipeError, unknown
from smelt.files.schema import Strict, faults_of
from smelt.recipe.read import load_yaml
from smelt.reporting.published import PublishedTable

if TYPE_CHECKING:
    from smelt.suites.kind import SuiteKind
    from smelt.suites.suite import BaseSuite

__all__ = ["PUBLISHED", "published_tables", "read_printed", "read_table"]

PUBLISHED = "published"
T = TypeVar("T", bound=Strict)


def published_tables(suite: BaseSuite, kind: SuiteKind) -> dict[str, Any] | None:
    """What the report reads of them; None for a suite that names none. A name may also be a path."""
    if not suite.published:
        return None
    folder = kind.folder / PUBLISHED if kind.folder else Path()
    tables = [read_table(folder, name) for name in suite.published]
    means = suite.column_means()
    for table in tables:
        table.means.update({column: tasks for column, tasks in means.items() if column in table.columns})
    return {"tables": [table.model_dump(mode="json") for table in tables]}


def read_table(folder: Path, name: str) -> PublishedTable:
    """One table by its name in a folder, or by its path."""
    return read_printed(folder, name, PublishedTable)


def read_printed(folder: Path, name: str, schema: type[T]) -> T:
    """What was printed, as data of some form, by its name in a folder or by its path."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        raise RecipeError(unknown("published table", name, sorted(one.stem for one in folder.glob("*.yaml"))))
    try:
        return schema.model_validate(load_yaml(path, "published table"))
    except ValidationError as error:
        raise RecipeError(f"{path}: " + "; ".join(faults_of(error))) from None
