"""One folder on a server, through obstore: ranges of its files with all that the server says of them, and lists.

What an answer claims is held against what was asked for: obstore refuses a range that is another one and an answer
without ranges, and lengths are counted here. Each call is one request; asking again is faults.py's business.
Credentials are those that obstore finds in the environment ($AWS_..., $GOOGLE_..., $AZURE_...), and a query in the
address goes along.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, cast

from smelt.errors import InputChanged, MissingExtra
from smelt.files.remote.address import OBJECT_STORES, shown
from smelt.files.remote.faults import NotThere, Passing, Refused, Unreachable

__all__ = ["FolderStore", "Found"]

_STATUS = re.compile(r"status code: (\d{3})")
_AGAIN = ("408", "425", "429")
_CONNECT, _STALL = 5.0, 20.0
"""Seconds until a server must have answered, and within which something more must come of an answer."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class Found(NamedTuple):
    """A file as the server describes it."""

    size: int
    etag: str | None
    modified: int
    """Seconds since 1970."""
    version: str | None

    @property
    def pin(self) -> str:
        """What is another text when the file is another one."""
        said = [self.etag or f"modified {self.modified}", self.version, str(self.size)]
        return " ".join(filter(None, said))


class FolderStore:
    """Requests below one address. For any number of threads."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None):
        """`headers` go with every request."""
        self._url, self._shown, self._headers = url, shown(url), headers or {}
        try:
            import obstore
            from obstore import store as stores
        except ImportError:
            raise MissingExtra(
                f"{self._shown}: reading models from afar needs obstore; pip install 'smelt[remote]'"
            ) from None
        self._get, self._list, self._errors = obstore.get, obstore.list, obstore.exceptions
        scheme = url.partition("://")[0]
        plain = scheme == "http" or any(os.environ.get(one, "").startswith("http://") for one in _ENDPOINTS)
        client: dict[str, Any] = {
            "allow_http": plain,
            "connect_timeout": timedelta(seconds=_CONNECT),
            "read_timeout": timedelta(seconds=_STALL),
            "timeout": timedelta(hours=1),  # as long as something comes, it may take its time
            "user_agent": "smelt",
        }
        if headers:
            client["default_headers"] = dict(headers)
        words: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": 0}}
        endpoint = next((os.environ[one] for one in _ENDPOINTS if os.environ.get(one)), None)
        if scheme == "s3" and endpoint:
            words["endpoint"] = endpoint
        try:
            self._store = stores.from_url(url, **words)
        except (ValueError, self._errors.BaseError) as error:
            raise Refused(f"cannot be asked for: {_first_line(error)}") from None
        self.lists = scheme in OBJECT_STORES

    def read(self, name: str, start: int, end: int, pinned: str | None = None) -> tuple[memoryview, Found]:
        """Bytes of a file, fewer at its end, and what the server says of it; InputChanged where it is another."""
        options: dict[str, Any] = {"range": (start, end)}
        etag = pinned.split(" ")[0] if pinned is not None and pinned[:1] == '"' else None
        if etag:
            options["if_match"] = etag
        try:
            answer = self._get(self._store, name, options=cast("Any", options))
            found = self._found(answer.meta)
            if pinned is not None and found.pin != pinned:
                raise self.changed(name)
            content = memoryview(answer.bytes())
        except Exception as error:
            if start == 0 and "status code: 416" in str(error):  # the file is empty
                return memoryview(b""), self._empty(name)
            raise self._told(error, name) from None
        if len(content) != min(end, found.size) - start:
            raise Passing(f"gave {len(content):,} bytes where {min(end, found.size) - start:,} were asked for")
        return content, found

    def look(self, name: str) -> Found:
        """What the server says of a file now."""
        return self.read(name, 0, 1)[1]

    def _empty(self, name: str) -> Found:
        try:
            found = self._found(self._get(self._store, name, options={"head": True}).meta)
        except Exception as error:
            raise self._told(error, name) from None
        if found.size:
            raise Passing("the server does not give the beginning of the file")
        return found

    def listed(self) -> list[str]:
        """The names of all files in the folder and below."""
        try:
            return [str(one["path"]) for page in self._list(self._store) for one in page]
        except Exception as error:
            raise self._told(error, "") from None

    def changed(self, name: str) -> InputChanged:
        """The error that says so."""
        return InputChanged(
            f"an input changed while it was being used: {self._shown}/{name}. What was made may mix old and new bytes "
            "and is thrown away; run again when nothing writes there"
        )

    @staticmethod
    def _found(meta: Any) -> Found:
        modified = int(meta["last_modified"].timestamp())
        return Found(int(meta["size"]), meta.get("e_tag"), modified, meta.get("version"))

    def _told(self, error: Exception, name: str) -> Exception:
        """What an exception of the library means."""
        if isinstance(error, InputChanged | Passing | Refused):
            return error
        text, kinds = str(error), self._errors
        status = found[1] if (found := _STATUS.search(text)) else None
        if isinstance(error, FileNotFoundError) or status == "404":
            return NotThere("there is no such file on the server")
        if isinstance(error, kinds.PreconditionError):
            return self.changed(name)
        if isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError) or status in ("401", "403"):
            return Refused("the server does not give it to you (a login, a permission or a signature is missing)")
        if isinstance(error, kinds.NotSupportedError):
            return Passing("the server gives whole files only (it ignores ranges), so it cannot be streamed")
        if status is not None:
            if status in _AGAIN or status.startswith("5"):
                web = status in ("429", "503") and self._url.startswith("http")
                wait = None
                if web:
                    from smelt.files.remote.retry_after import asked_to_wait

                    wait = asked_to_wait(self._url, name, self._headers)
                return Passing(f"the server is busy or broken (it answers {status})", wait)
            return Refused(f"the server answers {status}")
        if "UnexpectedRange" in text:
            return Passing("the server gave another range than was asked for")
        if "Timeout" in text or "TimedOut" in text:
            return Unreachable("the connection stalled")
        if "Connect" in text or "error sending request" in text:
            return Unreachable("the server cannot be reached; check the name and the network")
        if "error" in text and ("Body" in text or "Decode" in text or "body" in text):
            return Passing("the connection was cut")
        return Refused(f"cannot be read: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return shown(str(error).strip().partition("\n")[0])
