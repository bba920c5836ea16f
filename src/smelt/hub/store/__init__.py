"""Where a hub lives: a database (SQLite, or Postgres by URL), and beside it a folder with files, labels and graphs.

The database is the truth. A file that no row speaks of is left over from a process that was killed, and is swept away
by whoever opens the hub next; a row is written last, when all that it speaks of is on disk. Only this room knows
SQLAlchemy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.hub.store.store import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.store"), name)
