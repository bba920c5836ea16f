"""The database: read transactions, which never wait, and write transactions, one at a time for the whole hub.

SQLite runs in WAL mode, so that readers see the last commit while somebody writes. That writers come one by one is its
nature; on Postgres a lock of the transaction does the same. What lies beside the database may thus be moved or swept
inside a write transaction as if nobody else were there. Changes of rows that have no file beside them (jobs, tokens,
rates) go without that lock on Postgres: a heartbeat does not wait until somebody's files are in their place.

A database that is away is an error of its own, since the same request may do a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.orm import Session

from smelt.errors import RecipeError, SmeltError
from smelt.hub.location import HubLocation
from smelt.hub.store.schema import now

__all__ = ["Database", "HubUnavailable", "clock"]

_PATIENCE = 60
"""Seconds that a writer waits for another."""
_LOCK = 0x5E17_0B06
"""The number of the hub's lock on a Postgres server."""
_CONNECT = 10
"""Seconds that a Postgres server may take to answer at all, unless the URL says otherwise."""


class HubUnavailable(SmeltError):
    """The hub's database is away or busy; the same request may do in a moment."""


def clock(session: Session) -> datetime:
    """The time by the database's clock, which all processes of a hub share."""
    if session.get_bind().dialect.name == "postgresql":
        found: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return found
    return now()  # an SQLite file is used from one machine


class Database:
    """The connections to one hub's database."""

    def __init__(self, place: HubLocation):
        self.place = place
        try:
            self.engine = _sqlite(place) if place.database else _postgres(place)
        except ModuleNotFoundError as error:
            from smelt.errors import MissingExtra

            raise MissingExtra(f"a hub on Postgres needs {error.name}: pip install 'smelt[postgres]'") from None

    @contextmanager
    def connection(
        self, *, writes: bool = False, alone: bool = True, repeatable: bool = False, patience: float = _PATIENCE
    ) -> Iterator[Connection]:
        """One transaction; committed at the end, rolled back if anything goes wrong.

        One that writes waits so many seconds for others (`patience`), if it wants to be `alone` for all of them.
        `repeatable`: all that is read is of one commit, as it is on SQLite anyhow.
        """
        try:
            with self.engine.connect() as plain:
                options: dict[str, Any] = {"smelt_writes": True, "smelt_patience": patience} if writes else {}
                if repeatable and plain.dialect.name == "postgresql":
                    options["isolation_level"] = "REPEATABLE READ"
                connection = plain.execution_options(**options)
                with connection.begin():
                    if writes and connection.dialect.name == "postgresql":
                        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{patience:g}s'")
                        if alone:
                            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
                    yield connection
        except (IntegrityError, ProgrammingError):
            raise  # a mistake of ours, not a state of the database
        except NoConnection:
            raise HubUnavailable(f"{self.place.shown}: too many are using the hub's database; try again") from None
        except (DatabaseError, InterfaceError) as error:
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

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A longer look at one commit, whatever is committed meanwhile."""
        with self.connection(repeatable=True) as connection, Session(connection, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write_rows(self, patience: float = _PATIENCE) -> Iterator[Session]:
        """A change of rows that no file belongs to. Two of them may be at the same row, unless it is asked for so."""
        connected = self.connection(writes=True, alone=False, patience=patience)
        with connected as connection, Session(connection, expire_on_commit=False) as session:
            yield session
            session.flush()

    def close(self) -> None:
        self.engine.dispose()


def _postgres(place: HubLocation) -> Engine:
    words = {} if "connect_timeout" in place.url else {"connect_timeout": _CONNECT}
    return create_engine(place.url, pool_pre_ping=True, max_overflow=20, connect_args=words)


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
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(1000 * options.get('smelt_patience', _PATIENCE))}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("smelt_writes") else "BEGIN")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _lower(text: object) -> object:
    return text.lower() if isinstance(text, str) else text


def _explained(error: DBAPIError, place: HubLocation) -> SmeltError:
    """What the driver says, without the URL and its password."""
    text = str(error.orig).strip().splitlines()[0] if error.orig else "the connection broke"
    if "locked" in text or "lock timeout" in text:
        return HubUnavailable(f"{place.shown}: another process has been writing for too long; try again in a moment")
    away = HubUnavailable if isinstance(error, OperationalError | InterfaceError) else RecipeError
    found = away(f"{place.shown}: the hub's database cannot be used ({text})")
    found.exit_code = RecipeError.exit_code  # on the command line it is mostly a wrong address or password
    return found
