"""The database: read transactions, which never wait, and write transactions, one at a time for the whole hub.

SQLite runs in WAL mode, so that readers see the last commit while somebody writes. That writers come one by one is its
nature; on Postgres a lock of the transaction does the same. What lies beside the database may thus be moved or swept
inside a write transaction as if nobody else were there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.orm import Session

from smelt.errors import RecipeError, SmeltError
from smelt.hub.location import HubLocation

__all__ = ["Database"]

_PATIENCE = 60
"""Seconds that a writer waits for another."""
_LOCK = 0x5E17_0B06
"""The number of the hub's lock on a Postgres server."""
_WRITES = {"smelt_writes": True}


class Database:
    """The connections to one hub's database."""

    def __init__(self, place: HubLocation):
        self.place = place
        try:
            server = {"pool_pre_ping": True, "max_overflow": 20}
            self.engine = _sqlite(place) if place.database else create_engine(place.url, **server)
        except ModuleNotFoundError as error:
            from smelt.errors import MissingExtra

            raise MissingExtra(f"a hub on Postgres needs {error.name}: pip install 'smelt[postgres]'") from None

    @contextmanager
    def connection(self, *, writes: bool = False) -> Iterator[Connection]:
        """One transaction; committed at the end, rolled back if anything goes wrong."""
        try:
            with self.engine.connect() as plain:
                connection = plain.execution_options(**_WRITES) if writes else plain
                with connection.begin():
                    if writes and connection.dialect.name == "postgresql":
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_PATIENCE}s'")
                        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
                    yield connection
        except (IntegrityError, ProgrammingError):
            raise  # a mistake of ours, not a state of the database
        except DatabaseError as error:
            raise _explained(error, self.place) from None

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A look at the last commit."""
        with self.connection() as connection, Session(connection, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A change; all of it or nothing, and nobody else changes anything meanwhile."""
        with self.connection(writes=True) as connection, Session(connection, expire_on_commit=False) as session:
            yield session
            session.flush()

    def close(self) -> None:
        self.engine.dispose()


def _sqlite(place: HubLocation) -> Engine:
    engine = create_engine(place.url, connect_args={"timeout": _PATIENCE}, max_overflow=50)

    def prepare(raw: Any, _record: Any) -> None:
        raw.create_function("lower", 1, _lower, deterministic=True)  # SQLite's own knows the letters of English alone
        raw.isolation_level = None  # or Python's own module opens transactions, later than it should
        cursor = raw.cursor()
        for setting in ("journal_mode=WAL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()

    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("smelt_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _lower(text: object) -> object:
    return text.lower() if isinstance(text, str) else text


def _explained(error: DBAPIError, place: HubLocation) -> SmeltError:
    """What the driver says, without the URL and its password."""
    text = str(error.orig).strip().splitlines()[0] if error.orig else "the connection broke"
    if "locked" in text or "lock timeout" in text:
        return SmeltError(f"{place.shown}: another process has been writing for {_PATIENCE} s; try again")
    return RecipeError(f"{place.shown}: the hub's database cannot be used ({text})")
