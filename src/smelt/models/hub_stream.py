"""Models of the Hugging Face hub that are not fetched: their files are read by ranges, of one commit.

The hub's own client says where a file's bytes lie, which is another server for large files, and asks anew when that
address has run out. A commit's files never change; what the hub calls a file's content (its ETag) is its version here.
"""

from __future__ import annotations

import re
import threading
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from smelt.errors import InputChanged, RecipeError
from smelt.files.remote.address import shown
from smelt.files.remote.faults import Fault, NotThere, Passing, Refused
from smelt.files.remote.mounts import mounts_here
from smelt.files.remote.remote_file import RemoteFile
from smelt.files.remote.store import FolderStore, Found
from smelt.models.remote_folder import Mount, fill_folder, useful_names
from smelt.models.verified_download import hub_fault

__all__ = ["stream"]

_SHA256 = re.compile(r"^[0-9a-f]{64}$")


def stream(name: str) -> Path:
    """The folder that stands for `org/name@revision`."""
    return mounts_here().folder(f"hf:{name}", f"hf:{name}", partial(_fill, name))


def _fill(name: str, place: Path, mount: Mount) -> None:
    from huggingface_hub import HfApi

    repo, _, revision = name.partition("@")
    try:
        info: Any = HfApi().model_info(repo, revision=revision or None)
    except Exception as error:  # whatever the client and its HTTP library raise
        raise RecipeError(f"hf:{name} {_reason(error)}") from None
    store = _HubStore(repo, str(info.sha))
    try:
        names = useful_names([one.rfilename for one in info.siblings or ()], f"hf:{name}")
        fill_folder(place, mount, partial(_file, store, f"hf:{name}"), names)
    except Fault as fault:
        raise RecipeError(f"hf:{name} {fault}") from None


def _file(store: _HubStore, ref: str, path: str) -> RemoteFile:
    etag = store.place(path).etag
    return RemoteFile(store, path, f"{ref}/{path}", sha256=etag if _SHA256.match(etag) else None)


class _Place:
    """Where a file's bytes are, as the hub says."""

    def __init__(self, repo: str, commit: str, path: str):
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
        from huggingface_hub.utils._headers import build_hf_headers

        try:
            found = get_hf_file_metadata(hf_hub_url(repo, path, revision=commit))
        except Exception as error:
            raise _fault(error) from None
        parts = urlsplit(found.location)
        above, _, self.name = parts.path.rpartition("/")
        headers = {}
        if found.location.startswith(constants.ENDPOINT) and (key := build_hf_headers().get("authorization")):
            headers["authorization"] = key
        self.store = FolderStore(urlunsplit((*parts[:2], above, parts.query, "")), headers)
        self.etag, self.size = str(found.etag), int(found.size or 0)


class _HubStore:
    """The files of one commit."""

    def __init__(self, repo: str, commit: str):
        self._repo, self._commit = repo, commit
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}

    def place(self, path: str) -> _Place:
        with self._lock:
            found = self._places.get(path)
        if found is None:
            found = _Place(self._repo, self._commit, path)
            with self._lock:
                self._places[path] = found
        return found

    def read(self, name: str, start: int, end: int, pinned: str | None = None) -> tuple[memoryview, Found]:
        """Bytes of a file, and what the hub says of it."""
        place = self.place(name)
        found = Found(place.size, f'"{place.etag}"', 0, self._commit)
        if pinned is not None and found.pin != pinned:
            raise self._changed(name)
        try:
            content, there = place.store.read(place.name, start, end)
        except Refused as fault:  # addresses with a signature hold for some minutes
            with self._lock:
                known = self._places.pop(name, None) is place
            raise Passing(str(fault)) if known and pinned is not None else fault from None
        if there.size != place.size:
            raise self._changed(name)
        return content, found

    def look(self, name: str) -> Found:
        """What the hub says of a file now."""
        with self._lock:
            self._places.pop(name, None)
        place = self.place(name)
        return Found(place.size, f'"{place.etag}"', 0, self._commit)

    def _changed(self, name: str) -> InputChanged:
        return InputChanged(
            f"hf:{self._repo}: {name} is not what the Hub says of it at {self._commit}; what was made of it is thrown "
            "away; run again"
        )


def _fault(error: Exception) -> Fault:
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return NotThere(_reason(error))
    status = getattr(getattr(error, "response", None), "status_code", None)
    if (isinstance(error, HfHubHTTPError) and status is not None and status < 500 and status != 429) or hub_fault(
        error
    ) == "is not in the local cache, and the Hub is not asked ($HF_HUB_OFFLINE)":
        return Refused(_reason(error))
    return Passing(_reason(error))


def _reason(error: Exception) -> str:
    return hub_fault(error) or f"could not be asked for ({shown(type(error).__name__)})"
