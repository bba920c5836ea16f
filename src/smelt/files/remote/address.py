"""Addresses of files on servers, and how they are shown: without passwords, signatures and tokens."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from smelt.errors import RecipeError

__all__ = ["OBJECT_STORES", "SCHEMES", "Address", "is_remote", "shown"]

OBJECT_STORES = ("s3", "gs", "az")
"""Those that list what they hold."""
SCHEMES = ("https", "http", *OBJECT_STORES)
_URL = re.compile(rf"\b({'|'.join(SCHEMES)})://[^\s'\"<>|,;]+")


class Address(NamedTuple):
    """A folder on a server, and a file in it if one is meant."""

    folder: str
    """With the query that opens it, where it has one."""
    file: str | None

    @classmethod
    def read(cls, url: str) -> Address:
        """Of a URL that names a file with an ending, or else a folder."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if not parts.hostname or port == -1:
            raise RecipeError(f"{shown(url)}: is no address; write https://host/folder, s3://bucket/folder or the like")
        path = parts.path.rstrip("/")
        above, _, last = path.rpartition("/")
        if last.endswith((".safetensors", ".json")):
            return cls(urlunsplit((*parts[:2], above, parts.query, "")), unquote(last))
        return cls(urlunsplit((*parts[:2], path, parts.query, "")), None)

    @property
    def shown(self) -> str:
        """For people."""
        return shown(self.url_of(self.file)) if self.file else shown(self.folder)

    @property
    def scheme(self) -> str:
        return urlsplit(self.folder).scheme

    def url_of(self, name: str) -> str:
        """The address of a file in the folder, for people: without what opens it."""
        parts = urlsplit(self.folder)
        return shown(urlunsplit((*parts[:2], f"{parts.path}/{quote(name)}", "", "")))


def is_remote(ref: str) -> bool:
    """Whether a reference is the address of a file or folder on a server."""
    return ref.partition("://")[0] in SCHEMES and "://" in ref


def shown(text: str) -> str:
    """A text whose addresses have no user, password, query or fragment any more."""
    return _URL.sub(lambda found: _bare(found[0]), text)


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
