"""Azure's blobs, through azure-storage-blob: a container is a bucket, and the blocks of a blob are its parts.

The account comes from AZURE_STORAGE_CONNECTION_STRING, or from AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or
AZURE_STORAGE_SAS_TOKEN. Azure knows no ids of uploads: the blocks that are not committed of a blob are its upload. They
go where the blob is made without them, or by themselves within a week.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from smelt.errors import MissingExtra, OutputError, shortened
from smelt.files.object_store.place import ObjectPlace
from smelt.files.object_store.store import NEW, NotAsExpected, NotThere, ObjectInfo, Part, object_stores

__all__ = ["AzureStore"]

T = TypeVar("T")
_ATTEMPTS = 6
_BLOCK = re.compile(r"(\d{5})-([0-9a-f]{32})")
_UPLOAD = "blocks"
"""The id of every upload."""


class AzureStore:
    """A container of an account."""

    def __init__(self, place: ObjectPlace):
        self._place = place
        self._lock = threading.Lock()
        self._client: Any = None

    def put(self, key: str, content: bytes, *, only_if: str | None = None) -> str:
        from azure.core import MatchConditions

        condition: dict[str, Any] = {}
        if only_if == NEW:
            condition = {"match_condition": MatchConditions.IfMissing}
        elif only_if is not None:
            condition = {"etag": f'"{only_if}"', "match_condition": MatchConditions.IfNotModified}
        words = {"overwrite": only_if != NEW, **condition}
        return _etag(self._ask(lambda blobs: blobs.get_blob_client(key).upload_blob(content, **words)))

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        if size == 0:
            return b""
        return self._ask(lambda blobs: bytes(blobs.download_blob(key, offset=start, length=size).readall()))

    def head(self, key: str) -> ObjectInfo | None:
        said: dict[str, str] = {}

        def note(answer: Any) -> None:
            said.update(answer.http_response.headers)

        try:
            found = self._ask(lambda blobs: blobs.get_blob_client(key).get_blob_properties(raw_response_hook=note))
        except NotThere:
            return None
        return ObjectInfo(key, found.size, _etag(found), _age(said, found.last_modified))

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        for one in self._ask(lambda blobs: list(blobs.list_blobs(name_starts_with=prefix))):
            yield ObjectInfo(one.name, one.size, _etag(one))

    def delete(self, key: str) -> None:
        try:
            self._ask(lambda blobs: blobs.delete_blob(key))
        except NotThere:
            return

    def create_upload(self, key: str) -> str:
        return _UPLOAD

    def list_uploads(self, prefix: str) -> dict[str, list[str]]:
        words = {"name_starts_with": prefix, "include": ["uncommittedblobs"]}
        names = self._ask(lambda blobs: [one.name for one in blobs.list_blobs(**words)])
        return {name: [_UPLOAD] for name in names if self.list_parts(name, _UPLOAD)}

    def put_part(self, key: str, upload: str, number: int, content: memoryview) -> Part:
        """Azure gives a block no ETag. Its MD5, by which the store refuses what comes changed, is part of its id."""
        part = Part(number, len(content), hashlib.md5(content).hexdigest())
        words = {"length": len(content), "validate_content": True}
        self._ask(lambda blobs: blobs.get_blob_client(key).stage_block(_block(part), bytes(content), **words))
        return part

    def list_parts(self, key: str, upload: str) -> dict[int, Part]:
        try:
            _, blocks = self._ask(lambda blobs: blobs.get_blob_client(key).get_block_list("all"))
        except NotThere:
            return {}
        ids = [(_BLOCK.fullmatch(str(one.id)), one.size) for one in blocks]
        return {int(found[1]): Part(int(found[1]), size, found[2]) for found, size in ids if found}

    def complete(self, key: str, upload: str, parts: Sequence[Part]) -> None:
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(_block(one)) for one in parts]
        self._ask(lambda blobs: blobs.get_blob_client(key).commit_block_list(blocks))

    def abort(self, key: str, upload: str) -> None:
        """Making a blob of none of its blocks forgets them. Where there is a blob already they are left to time."""
        if self.head(key) is None:
            self.complete(key, upload, ())
            self.delete(key)

    def _ask(self, ask: Callable[[Any], T]) -> T:
        """The answer; what the store or the network says against it, in one line."""
        from azure.core.exceptions import (
            AzureError,
            HttpResponseError,
            ResourceExistsError,
            ResourceModifiedError,
            ResourceNotFoundError,
        )

        where = f"az://{self._place.bucket}"
        try:
            return ask(self._opened())
        except (ResourceExistsError, ResourceModifiedError) as error:
            raise NotAsExpected(f"{where}: {_line(error)}") from None
        except ResourceNotFoundError as error:
            if getattr(error, "error_code", None) == "ContainerNotFound":
                raise OutputError(f"{where}: the store refused: there is no such container") from None
            raise NotThere(f"{where}: {_line(error)}") from None
        except HttpResponseError as error:
            raise OutputError(f"{where}: the store refused: {_line(error)}") from None
        except AzureError as error:
            raise OutputError(f"{where}: the store cannot be reached ({_line(error)})") from None

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _container(self._place.bucket)
            return self._client


def _container(name: str) -> Any:
    from azure.storage.blob import BlobServiceClient, ExponentialRetry

    again = ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=_ATTEMPTS)
    words = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if words:
        return BlobServiceClient.from_connection_string(words, retry_policy=again).get_container_client(name)
    account = os.environ.get("AZURE_STORAGE_ACCOUNT")
    key = os.environ.get("AZURE_STORAGE_KEY") or os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    if not account or not key:
        raise OutputError(
            f"az://{name}: there are no credentials for this store; set AZURE_STORAGE_CONNECTION_STRING, or "
            "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"
        )
    service = BlobServiceClient(f"https://{account}.blob.core.windows.net", credential=key, retry_policy=again)
    return service.get_container_client(name)


class _Azure:
    """`az://`."""

    def open(self, place: ObjectPlace) -> AzureStore:
        try:
            import azure.storage.blob  # noqa: F401
        except ImportError:
            raise MissingExtra("az:// needs azure-storage-blob: pip install 'smelt[az]'") from None
        return AzureStore(place)


object_stores["az"] = _Azure()


def _block(part: Part) -> str:
    """All ids of a blob's blocks are as long."""
    return f"{part.number:05d}-{part.etag}"


def _etag(found: Any) -> str:
    return str(found["etag"] if isinstance(found, dict) else found.etag).strip('"')


def _age(headers: dict[str, str], written: Any) -> float:
    from email.utils import parsedate_to_datetime

    said = next((value for name, value in headers.items() if name.lower() == "date"), None)
    return (parsedate_to_datetime(said) - written).total_seconds() if said and written else 0.0


def _line(error: Exception) -> str:
    return shortened(str(error).splitlines()[0] if str(error) else type(error).__name__, 300)
