"""S3 and what speaks its language, through boto3. Google's store does, with keys of its HMAC kind.

Credentials, region and endpoint come from where boto3 looks for them (AWS_ENDPOINT_URL for another server). botocore
tries again by itself, with longer and longer waits, as often as AWS_MAX_ATTEMPTS says, or else eight times.

A part goes with its MD5 (Content-MD5), by which the store refuses what arrives changed; and its ETag, which is that MD5
wherever the store does not encrypt with keys of its own, is compared as well.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from smelt.errors import MissingExtra, OutputError, shortened
from smelt.files.object_store.place import ObjectPlace
from smelt.files.object_store.store import (
    NEW,
    NotAsExpected,
    NotThere,
    ObjectInfo,
    Part,
    UploadGone,
    object_stores,
)

__all__ = ["S3Store"]

T = TypeVar("T")
_ATTEMPTS = 8
_AGAIN = 3
"""How often a part is sent that arrives changed."""
_CONNECTIONS = 32
_GOOGLE = "https://storage.googleapis.com"
_PLAIN = re.compile("[0-9a-f]{32}")
_SAID = {
    "404": "there is no such bucket or object",
    "NoSuchBucket": "there is no such bucket",
    "403": "access is denied",
    "AccessDenied": "access is denied",
    "InvalidAccessKeyId": "the access key is not known to it",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "SlowDown": "it asks for fewer requests (SlowDown), and went on doing so",
}
"""What the codes of errors mean, where their own words do not say it well."""
_GONE = {"404", "NoSuchKey", "NotFound"}
_CONDITION = {"412", "PreconditionFailed", "409", "ConditionalRequestConflict"}
_NO_CONDITIONS = {"501", "NotImplemented"}


class S3Store:
    """A bucket of S3's, or of what speaks as it does."""

    def __init__(self, place: ObjectPlace, endpoint: str | None = None):
        self._place, self._endpoint = place, endpoint
        self._lock = threading.Lock()
        self._client: Any = None

    def put(self, key: str, content: bytes, *, only_if: str | None = None) -> str:
        words: dict[str, Any] = {"Key": key, "Body": content, "ContentMD5": _base64(hashlib.md5(content).digest())}
        condition = {} if only_if is None else {"IfNoneMatch": "*"} if only_if == NEW else {"IfMatch": f'"{only_if}"'}
        try:
            return _etag(self._ask("put_object", **words, **condition))
        except _Refused as error:
            if condition and error.code in _CONDITION | (_GONE if only_if else set()):
                raise NotAsExpected(str(error)) from None
            if condition and error.code in _NO_CONDITIONS:
                return _etag(self._ask("put_object", **words))
            raise

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        part = {} if size is None and not start else {"Range": f"bytes={start}-{start + size - 1 if size else ''}"}
        try:
            return self._told(lambda: bytes(self._ask("get_object", Key=key, **part)["Body"].read()))
        except _Refused as error:
            raise NotThere(str(error)) if error.code in _GONE else error from None

    def head(self, key: str) -> ObjectInfo | None:
        try:
            found = self._ask("head_object", Key=key)
        except _Refused as error:
            if error.code in _GONE:
                return None
            raise
        return ObjectInfo(key, found["ContentLength"], _etag(found), _age(found))

    def list_objects(self, prefix: str) -> Iterator[ObjectInfo]:
        words: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._ask("list_objects_v2", **words)
            for one in page.get("Contents", ()):
                yield ObjectInfo(one["Key"], one["Size"], _etag(one))
            if not page.get("IsTruncated"):
                return
            words["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, key: str) -> None:
        self._ask("delete_object", Key=key)

    def create_upload(self, key: str) -> str:
        return str(self._ask("create_multipart_upload", Key=key)["UploadId"])

    def list_uploads(self, prefix: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        words: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._ask("list_multipart_uploads", **words)
            for one in page.get("Uploads", ()):
                if one["Key"].startswith(prefix):
                    found.setdefault(one["Key"], []).append(one["UploadId"])
            if not page.get("IsTruncated"):
                return found
            words |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def put_part(self, key: str, upload: str, number: int, content: memoryview) -> Part:
        digest = hashlib.md5(content)
        words = {"Key": key, "UploadId": upload, "PartNumber": number, "ContentMD5": _base64(digest.digest())}
        for _ in range(_AGAIN):
            try:
                done = self._ask("upload_part", Body=_readable(content), **words)
            except _Refused as error:
                if error.code not in {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch"}:
                    raise
                continue
            if _is_own(done, digest.hexdigest()):
                return Part(number, len(content), _etag(done))
        raise OutputError(
            f"{self._place}: part {number} of {key} arrived changed {_AGAIN} times; the network is at fault"
        )

    def list_parts(self, key: str, upload: str) -> dict[int, Part]:
        found: dict[int, Part] = {}
        words: dict[str, Any] = {"Key": key, "UploadId": upload}
        while True:
            page = self._ask("list_parts", **words)
            for one in page.get("Parts", ()):
                found[one["PartNumber"]] = Part(one["PartNumber"], one["Size"], _etag(one))
            if not page.get("IsTruncated"):
                return found
            words["PartNumberMarker"] = page["NextPartNumberMarker"]

    def complete(self, key: str, upload: str, parts: Sequence[Part]) -> None:
        """An answer that got lost is no failure: then the object is there, of these parts."""
        listed = {"Parts": [{"PartNumber": one.number, "ETag": f'"{one.etag}"'} for one in parts]}
        try:
            made = _etag(self._ask("complete_multipart_upload", Key=key, UploadId=upload, MultipartUpload=listed))
        except UploadGone:
            there = self.head(key)
            if there is None or there.size != sum(one.size for one in parts) or not _is_of(there.etag, parts):
                raise
            made = there.etag
        if not _is_of(made, parts):
            raise OutputError(f"{self._place}: the store made {key} of other parts than were sent")

    def abort(self, key: str, upload: str) -> None:
        with suppress(UploadGone):
            self._ask("abort_multipart_upload", Key=key, UploadId=upload)

    def _ask(self, method: str, **words: Any) -> Any:
        return self._told(lambda: getattr(self._opened(), method)(Bucket=self._place.bucket, **words))

    def _told(self, ask: Callable[[], T]) -> T:
        """The answer; what the store or the network says against it, in one line."""
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        try:
            return ask()
        except ClientError as error:
            said = error.response.get("Error", {})
            code = str(said.get("Code"))
            why = _SAID.get(code) or f"{code}: {said.get('Message', '')}".rstrip(": ")
            told = f"{self._bucket}: the store refused: {shortened(why)}"
            raise (UploadGone(told) if code == "NoSuchUpload" else _Refused(told, code)) from None
        except (BotoCoreError, HTTPError) as error:
            raise OutputError(f"{self._bucket}: {_why(error)}") from None

    @property
    def _bucket(self) -> str:
        return f"{self._place.scheme}://{self._place.bucket}"

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> Any:
        import boto3
        from botocore.config import Config

        attempts = {} if "AWS_MAX_ATTEMPTS" in os.environ else {"total_max_attempts": _ATTEMPTS}
        settings = Config(
            retries={"mode": "standard", **attempts},
            max_pool_connections=_CONNECTIONS,
            connect_timeout=20,
            read_timeout=60,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.session.Session().client("s3", endpoint_url=self._endpoint, config=settings)


class _Refused(OutputError):
    def __init__(self, told: str, code: str):
        super().__init__(told)
        self.code = code


class _S3:
    """`s3://`, and `gs://` at Google's address (or at SMELT_GS_ENDPOINT)."""

    def __init__(self, scheme: str):
        self._scheme = scheme

    def open(self, place: ObjectPlace) -> S3Store:
        try:
            import boto3  # noqa: F401
        except ImportError:
            raise MissingExtra(f"{self._scheme}:// needs boto3: pip install 'smelt[s3]'") from None
        return S3Store(place, os.environ.get("SMELT_GS_ENDPOINT", _GOOGLE) if self._scheme == "gs" else None)


object_stores["s3"], object_stores["gs"] = _S3("s3"), _S3("gs")


def _readable(content: memoryview) -> Any:
    """What botocore sends: a buffer of its kinds, or a copy of another."""
    whole = isinstance(content.obj, bytes | bytearray) and content.nbytes == len(content.obj)
    return content.obj if whole else _View(content)


class _View:
    """A memoryview as a file that can be read again, without a copy of all of it."""

    def __init__(self, content: memoryview):
        self._content, self._at = content, 0

    def __len__(self) -> int:
        return len(self._content)

    def read(self, size: int | None = -1) -> bytes:
        end = len(self._content) if size is None or size < 0 else self._at + size
        some = bytes(self._content[self._at : end])
        self._at += len(some)
        return some

    def seek(self, place: int, whence: int = 0) -> int:
        self._at = place + (0, self._at, len(self._content))[whence]
        return self._at

    def tell(self) -> int:
        return self._at


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _etag(answer: Any) -> str:
    return str(answer.get("ETag", "")).strip('"')


def _is_own(done: Any, md5: str) -> bool:
    """Whether the ETag of what arrived is what was sent; where the store encrypts, its check of the MD5 has to do."""
    encrypted = done.get("ServerSideEncryption", "AES256") != "AES256" or "SSECustomerAlgorithm" in done
    return encrypted or not _PLAIN.fullmatch(_etag(done)) or _etag(done) == md5


def _is_of(etag: str, parts: Sequence[Part]) -> bool:
    """Whether an object's ETag is that of its parts, where both are of the usual kind: MD5s, and the MD5 of these."""
    if not re.fullmatch(r"[0-9a-f]{32}-\d+", etag) or not all(_PLAIN.fullmatch(one.etag) for one in parts):
        return True
    joined = hashlib.md5(b"".join(bytes.fromhex(one.etag) for one in parts)).hexdigest()
    return etag == f"{joined}-{len(parts)}"


def _age(found: Any) -> float:
    from email.utils import parsedate_to_datetime

    said = found["ResponseMetadata"]["HTTPHeaders"].get("date")
    return (parsedate_to_datetime(said) - found["LastModified"]).total_seconds() if said else 0.0


def _why(error: Exception) -> str:
    """What went wrong before the store could say anything."""
    kind = type(error).__name__
    if kind in {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}:
        return (
            "there are no credentials for this store; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    return f"the store cannot be reached ({shortened(str(error).splitlines()[0], 300)})"
