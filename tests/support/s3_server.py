"""An S3 server on this machine (moto's), and what can go wrong with one: faults that are put in front of it.

    with s3_server() as server:
        server.make_bucket("models")
        with server.environment():           # AWS_ENDPOINT_URL and credentials, for clients that are made in here
            ...
        server.faults.append(slow_down(3))   # the next three requests are answered 503 SlowDown

It lives in this process and ends with the block. As a script it serves until its standard input is closed, for
benchmarks, which want its work in another process: `python s3_server.py`, whose first line is its address.
"""

from __future__ import annotations

import io
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

__all__ = ["Fault", "S3Server", "change_part", "cut_part", "is_part", "refuse", "s3_server", "slow_down"]

Environ = dict[str, Any]
Fault = Callable[[Environ, Callable[..., Any]], Iterable[bytes] | None]
"""Looks at a request before the server does: answers it, changes it (and gives None), or gives None."""

_KEYS = {"AWS_ACCESS_KEY_ID": "smelt", "AWS_SECRET_ACCESS_KEY": "smelt-secret", "AWS_DEFAULT_REGION": "us-east-1"}
_NO_FILES = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)


@dataclass
class S3Server:
    """A server that runs."""

    endpoint: str
    faults: list[Fault] = field(default_factory=list)
    """Asked in their order; one that answers is the last."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and query of every request, in the order in which they came."""
    _client: Any = None

    @property
    def variables(self) -> dict[str, str]:
        """What a client's process needs in its environment."""
        return {**_KEYS, **_NO_FILES, "AWS_ENDPOINT_URL": self.endpoint, "AWS_EC2_METADATA_DISABLED": "true"}

    @contextmanager
    def environment(self) -> Iterator[None]:
        """The same in the environment of this process, while the block runs."""
        before = dict(os.environ)
        os.environ.update(self.variables)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def make_bucket(self, name: str) -> None:
        self.client().create_bucket(Bucket=name)

    def client(self) -> Any:
        """boto3's own client, which looks at the store without anything of Smelt's."""
        import boto3

        if self._client is None:
            self._client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name="us-east-1",
                aws_access_key_id=_KEYS["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=_KEYS["AWS_SECRET_ACCESS_KEY"],
            )
        return self._client

    def objects(self, bucket: str, prefix: str = "") -> dict[str, bytes]:
        """All that can be seen in a bucket, by key."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def uploads(self, bucket: str) -> list[str]:
        """Keys of the uploads that are neither complete nor aborted."""
        return [one["Key"] for one in self.client().list_multipart_uploads(Bucket=bucket).get("Uploads", ())]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """An empty server on a free port of 127.0.0.1, for the time of the block."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    inner = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    inner.start()
    host, port = inner.get_host_and_port()
    server = S3Server(f"http://{host}:{port}")
    web = inner._server
    application = web.app

    def answer(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        server.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"]))
        answers = (fault(environ, start) for fault in list(server.faults))
        first = next((one for one in answers if one is not None), None)
        return application(environ, start) if first is None else first

    web.app = answer
    try:
        yield server
    finally:
        server.faults.clear()
        urlopen(Request(f"{server.endpoint}/moto-api/reset", method="POST"), timeout=30).close()
        inner.stop()


def is_part(environ: Environ) -> bool:
    """Whether a request brings a part of an upload."""
    return environ["REQUEST_METHOD"] == "PUT" and "partNumber=" in environ["QUERY_STRING"]


def _any(environ: Environ) -> bool:
    return not environ["PATH_INFO"].startswith("/moto-api")


def _times(count: int, which: Callable[[Environ], bool], act: Fault) -> Fault:
    lock, left = threading.Lock(), [count]

    def fault(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes] | None:
        with lock:
            if not left[0] or not which(environ):
                return None
            left[0] -= 1
        return act(environ, start)

    return fault


def refuse(code: str, status: str, count: int = 10**9, which: Callable[[Environ], bool] = _any) -> Fault:
    """Answer so many requests with an error of S3's."""

    def act(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>".encode()
        start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return _times(count, which, act)


def slow_down(count: int = 10**9, which: Callable[[Environ], bool] = _any) -> Fault:
    """503, as S3 says that it is asked too often."""
    return refuse("SlowDown", "503 Slow Down", count, which)


def cut_part(count: int = 1, which: Callable[[Environ], bool] = is_part) -> Fault:
    """Close the connection when half of the body has come."""

    def act(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) // 2)
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        raise ConnectionResetError("cut, as asked")

    return _times(count, which, act)


def change_part(count: int = 1, which: Callable[[Environ], bool] = is_part, *, checked: bool = True) -> Fault:
    """Change a byte on the way. With `checked`, the server looks at Content-MD5, as stores do, and answers BadDigest;
    without, it takes what came, and only what it says of the part tells.
    """

    def act(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes] | None:
        body = bytearray(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        if checked:
            return refuse("BadDigest", "400 Bad Request")({**environ, "wsgi.input": io.BytesIO(body)}, start)
        body[len(body) // 2] ^= 1
        environ["wsgi.input"] = io.BytesIO(body)
        environ.pop("HTTP_CONTENT_MD5", None)
        return None

    return _times(count, which, act)


def _serve() -> None:
    with s3_server() as server:
        sys.stdout.write(f"{server.endpoint}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
