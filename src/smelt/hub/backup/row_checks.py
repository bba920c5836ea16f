"""What rows of a backup may say: names that cannot lead out of a folder, and no row without its files."""

from __future__ import annotations

import re
from typing import Any

from smelt.errors import CorruptFile
from smelt.hub.models.intake import allowed
from smelt.hub.store.names import is_name

__all__ = ["RowChecks"]

_HASH = re.compile(r"[0-9a-f]{64}")
_KEYS = {"graphs": "version", "labels": "digest", "models": "hash", "files": "sha256"}


class RowChecks:
    """Looks at all rows once, in the order of the tables, after the files are known."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        """Path -> bytes of the files that came with the rows."""
        self.links: list[tuple[str, str, str]] = []
        """Model, name of a file, and its hash: what lies in the folders of models."""
        self._models: dict[int, str] = {}
        self._hubs = 0

    def checked(self, table: str, row: dict[str, Any], mark: str) -> dict[str, Any]:
        """The row as it goes into the new hub, or what is wrong with it."""
        if table in _KEYS and not _HASH.fullmatch(row[_KEYS[table]]):
            raise self._wrong(table, row[_KEYS[table]], "is no hash")
        if table == "hub":
            self._hubs += 1
            return {**row, "id": 1, "mark": mark}
        if table == "graphs" and f"graphs/{row['version']}/graph.json" not in self.files:
            raise self._wrong(table, row["version"], "has no graph.json")
        if table == "models":
            self._model(row)
        if table == "files":
            self._file(row)
        if table == "labels" and f"labels/{row['digest']}.safetensors" not in self.files:
            raise self._wrong(table, row["digest"], "has no file")
        if table == "jobs" and row["status"] == "running":  # by a process of another hub
            return {**row, "status": "waiting", "owner": "", "beat": None}
        return row

    def finish(self) -> None:
        """What can only be told at the end."""
        if self._hubs != 1:
            raise CorruptFile(f"the backup has {self._hubs} hubs, and should have one")

    def _model(self, row: dict[str, Any]) -> None:
        name, base = row["name"], row["base"]
        if not is_name(name):
            raise self._wrong("models", name, "cannot be a model's name")
        if not row["copied"] and not (row["ref"].startswith("zoo:") and is_name(row["ref"].removeprefix("zoo:"))):
            raise self._wrong("models", name, "lies outside of the hub")
        kind, _, below = base.partition(":")
        if base and not (kind in ("hub", "zoo") and is_name(below)):
            raise self._wrong("models", name, "is a change of a model outside of the hub")
        if row["copied"]:
            self._models[row["id"]] = name

    def _file(self, row: dict[str, Any]) -> None:
        model, name, digest = self._models.get(row["model_id"]), row["name"], row["sha256"]
        if model is None or not allowed(name):
            raise self._wrong("files", name, "is no file of a model in the hub")
        if self.files.get(f"files/{digest[:2]}/{digest}") != row["size"]:
            raise self._wrong("files", f"{model}/{name}", "has no bytes in the backup, or others")
        self.links.append((model, name, digest))

    @staticmethod
    def _wrong(table: str, what: str, why: str) -> CorruptFile:
        return CorruptFile(f"the backup's {table}: {what[:100]!r} {why}; it was not written by `smelt hub backup`")
