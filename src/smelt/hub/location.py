"""Where a hub is: a folder (SQLite inside), or a database by its URL with a folder for the files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from smelt.caller import Blank, option
from smelt.errors import RecipeError

__all__ = ["DATABASE", "HubLocation", "default_location", "find_location", "graph_location"]

DATABASE = "hub.db"
"""The SQLite file in a hub's folder."""
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


@dataclass(frozen=True)
class HubLocation:
    """A hub's database and its folder."""

    url: str
    """For SQLAlchemy; it may hold a password, so it is never shown."""
    folder: Path
    shown: str
    """For messages."""

    @property
    def database(self) -> Path | None:
        """The SQLite file; None for a server."""
        return Path(self.url.removeprefix("sqlite:///")) if self.url.startswith("sqlite") else None


def default_location() -> Path:
    """$SMELT_HUB, else smelt/hub in the user's data folder."""
    if given := os.environ.get("SMELT_HUB"):
        return Path(given).expanduser()
    return _data_folder() / "smelt" / "hub"


def graph_location(name: str) -> Path:
    """Where a graph that is known by its name lies: in $SMELT_GRAPHS, else smelt/graphs in the user's data folder."""
    if given := os.environ.get("SMELT_GRAPHS"):
        return Path(given).expanduser() / name
    return _data_folder() / "smelt" / "graphs" / name


def _data_folder() -> Path:
    usual = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(os.environ.get("XDG_DATA_HOME") or Path(usual).expanduser())


def find_location(where: str | Path | None = None, files: str | Path | None = None) -> HubLocation:
    """The place that a folder or a database URL means; nothing given: `default_location`, or the URL in $SMELT_HUB."""
    given = str(where or os.environ.get("SMELT_HUB") or default_location())
    files = files or os.environ.get("SMELT_HUB_FILES")
    kind, separator, rest = given.partition("://")
    if not separator:
        if where and files and Path(files).resolve() != Path(given).resolve():
            raise RecipeError(f"{given} is a folder, which holds the files too; leave out files={files}")
        folder = Path(given).expanduser().resolve()
        return HubLocation(f"sqlite:///{folder / DATABASE}", folder, str(folder))
    if kind not in _POSTGRES:
        raise RecipeError(f"a hub lives in a folder or in a Postgres (postgresql://...); got {kind}://...")
    shown = f"postgresql://{rest.rpartition('@')[2].partition('?')[0]}"
    if not files:
        raise RecipeError(
            f"{shown}: say where the files go too: {option('files', Blank('FOLDER'))}, or SMELT_HUB_FILES"
        )
    return HubLocation(f"postgresql+psycopg://{rest}", Path(files).expanduser().resolve(), shown)
