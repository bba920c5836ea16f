"""Rates over all services of a hub: one token bucket per client and kind of request, as a row of the database.

A service takes a lot of tokens at a time, so that not every request writes, and gives back what it has not used. What
all services together let through in t seconds is at most the burst and what flows in meanwhile, and one second's more:
a lot is only good for a second.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from smelt.hub.store.database import clock
from smelt.hub.store.schema import LimitRow
from smelt.hub.store.store import HubStore

__all__ = ["Grant", "Limits"]

_LONGEST = 120
"""Letters of a key."""
_PATIENCE = 0.5
"""Seconds that a request waits here while somebody writes; after that it is let through by its service's own count."""


class Grant(NamedTuple):
    """Tokens that may be used, or the seconds until there is one."""

    tokens: int
    wait: float


class Limits:
    """The buckets of one hub. Beyond `most` clients those that were quiet longest are forgotten."""

    def __init__(self, store: HubStore, *, most: int = 20_000):
        self._store, self._most = store, most

    def take(self, key: str, lot: int, burst: float, second: float, *, unused: int = 0) -> Grant:
        """Up to `lot` tokens from a bucket of `burst` into which `second` flow in a second; `unused` ones go back."""
        key = key[:_LONGEST]
        with self._store.write_rows(patience=_PATIENCE) as session:
            row = self._row(session, key, burst)
            at = clock(session).timestamp()
            flown = max(0.0, at - row.at) * second  # a clock that was set back gives nothing
            left = min(burst, row.tokens + flown + unused)
            granted = min(lot, int(left))
            row.tokens, row.at = left - granted, at
        return Grant(granted, 0.0 if granted else (1.0 - left) / second)

    def forget(self) -> None:
        """Keep the table bounded; to be called now and then."""
        with self._store.write_rows() as session:
            count = session.scalar(select(func.count()).select_from(LimitRow)) or 0
            if count > self._most:
                oldest = select(LimitRow.key).order_by(LimitRow.at).limit(count - self._most)
                session.execute(delete(LimitRow).where(LimitRow.key.in_(oldest)))

    def clear(self) -> None:
        """Every bucket is full again."""
        with self._store.write_rows() as session:
            session.execute(delete(LimitRow))

    @staticmethod
    def _row(session: Session, key: str, burst: float) -> LimitRow:
        """The client's row, which nobody else changes meanwhile."""
        row = session.get(LimitRow, key, with_for_update=True)
        if row is None:
            insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
            new = {"key": key, "tokens": burst, "at": clock(session).timestamp()}
            session.execute(insert(LimitRow).values(new).on_conflict_do_nothing())
            row = session.get_one(LimitRow, key, with_for_update=True)
        return row
