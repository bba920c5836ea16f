"""Migrations: a database of an older Smelt is brought up to date when it is opened, one of a newer Smelt is refused.

Alembic's revisions, shipped as `migrations/versions/`, are done one after the other in one write transaction.
"""

from __future__ import annotations

from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from smelt.errors import RecipeError
from smelt.hub.store.database import Database

__all__ = ["MIGRATIONS", "has_tables", "newest_revision", "upgrade"]

MIGRATIONS = Path(__file__).parent / "migrations"


def has_tables(database: Database) -> bool:
    """Whether a hub was ever made here."""
    with database.connection() as connection:
        return _current(connection) is not None


def newest_revision() -> str:
    """The revision of the tables that this Smelt works with."""
    return str(ScriptDirectory(str(MIGRATIONS)).get_current_head())


def upgrade(database: Database, folder: Path = MIGRATIONS) -> list[str]:
    """Do the revisions that are missing; the whole lot or nothing. Gives those that were done."""
    directory = ScriptDirectory(str(folder))
    scripts = list(reversed(list(directory.walk_revisions())))
    known = [one.revision for one in scripts]
    with database.connection() as connection:
        if _current(connection) == known[-1]:
            return []
    with database.connection(writes=True) as connection:
        before = _current(connection)  # another process may have been quicker
        if before is not None and before not in known:
            raise RecipeError(
                f"{database.place.shown}: the hub's database is of a newer Smelt (revision {before}; this one knows "
                f"{known[-1]}). Upgrade Smelt"
            )
        due = scripts[known.index(before) + 1 if before else 0 :]
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            for one in due:
                one.module.upgrade()
                context.stamp(directory, one.revision)
    return [one.revision for one in due]


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
