"""A server of files with ranges, on this machine, whose answers go wrong as they are told to.

    with range_server(folder) as server:
        server.fault = lambda request: "cut" if request.number == 3 else None
        smelt.merge([f"{server.url}/one", f"{server.url}/two"], out=...)

cut           the connection ends in the middle of the answer
stall         half of the answer comes, and then nothing
busy          429 with Retry-After
unavailable   503 with Retry-After
error         500
short         fewer bytes than were asked for, and the headers say so
lie           Content-Range says what was asked for, and the body is another length
whole         the range is ignored: 200 with all of the file
elsewhere     other bytes, and Content-Range says so
larger        Content-Range says that the file has another size
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

FAULTS = ("cut", "stall", "busy", "unavailable", "error", "short", "lie", "whole", "elsewhere", "larger")
_RANGE = re.compile(r"^bytes=(\d+)-(\d*)$")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Asked:
    """One request for a file that is there."""

    number: int
    """How many came before."""
    method: str
    path: str
    query: str
    start: int
    end: int


@dataclass
class RangeServer:
    """Where it is, what it was asked, and what goes wrong."""

    folder: Path
    url: str = ""
    requests: list[Asked] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each request came, of a clock that only goes forward."""
    fault: Callable[[Asked], str | None] = lambda asked: None
    has_etags: bool = True
    retry_after: str = "0"
    rate: float | None = None
    """Bytes that go out in a second, over all connections."""
    latency: float = 0.0
    """Seconds before an answer begins."""
    free_at: float = 0.0
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bytes_asked(self, name: str = ".safetensors") -> int:
        """Of files whose path ends so."""
        return sum(one.end - one.start for one in self.requests if one.path.endswith(name) and one.method == "GET")


@contextmanager
def range_server(folder: Path) -> Iterator[RangeServer]:
    """Serve the files of a folder until the end of the block."""
    server = RangeServer(folder)

    class Handler(_Handler):
        pass

    Handler.server_of_files = server
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.block_on_close = False
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()  # whoever stalls goes on
        http.shutdown()
        http.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_of_files: RangeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *words: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        try:
            self._file()
        except OSError:  # nobody waits for it any more, or it was cut on purpose
            self.close_connection = True

    def _file(self) -> None:
        server, address = self.server_of_files, urlsplit(self.path)
        path = server.folder / unquote(address.path).lstrip("/")
        if not path.is_file():
            self._say(404, {}, b"nothing is here")
            return
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            etag = f'"{about.st_mtime_ns:x}-{about.st_size:x}-{about.st_ino:x}"'
            wanted, size = _RANGE.match(self.headers.get("Range") or ""), about.st_size
            start = int(wanted[1]) if wanted else 0
            end = min(int(wanted[2] or size - 1) + 1, size) if wanted else size
            with server.lock:
                asked = Asked(len(server.requests), self.command, address.path, address.query, start, end)
                server.requests.append(asked)
                server.headers.append(dict(self.headers))
                server.times.append(time.monotonic())
            fault = server.fault(asked)
            server.over.wait(server.latency)
            headers = {"Last-Modified": formatdate(about.st_mtime, usegmt=True), "Accept-Ranges": "bytes"}
            if server.has_etags:
                headers["ETag"] = etag
            if fault in ("busy", "unavailable", "error"):
                status = {"busy": 429, "unavailable": 503, "error": 500}[fault]
                self._say(status, {"Retry-After": server.retry_after} if status != 500 else {}, b"not now")
                return
            match = self.headers.get("If-Match")
            if match is not None and server.has_etags and match != etag:
                self._say(412, headers, b"another file")
                return
            if start >= size and wanted:
                self._say(416, {"Content-Range": f"bytes */{size}"}, b"")
                return
            if fault == "whole":
                wanted, start, end = None, 0, size
            if fault == "short":
                end = start + (end - start + 1) // 2
            if fault == "elsewhere":
                start, end = (start + 1, end) if start + 1 < end else (max(0, start - 1), max(1, end - 1))
            self._send(file, start, end, size + 8 if fault == "larger" else size, bool(wanted), headers, fault)

    def _send(
        self, file: Any, start: int, end: int, size: int, part: bool, headers: dict[str, str], fault: str | None
    ) -> None:
        count = end - start
        if part:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        if fault == "lie":
            count = (count + 1) // 2
        self.send_response(206 if part else 200)
        for name, value in {**headers, "Content-Length": str(count)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()
        if self.command == "HEAD":
            return
        send = count // 2 if fault in ("cut", "stall") else count
        done = 0
        while done < send:
            piece = min(_PIECE, send - done)
            self._wait_for_turn(piece)
            done += os.sendfile(self.connection.fileno(), file.fileno(), start + done, piece)
        if fault == "stall":
            self.server_of_files.over.wait(60)
        if fault in ("cut", "stall"):
            self.close_connection = True
            self.connection.close()

    def _wait_for_turn(self, count: int) -> None:
        """As long as the line is busy with what others send."""
        server = self.server_of_files
        if server.rate is None:
            return
        with server.lock:
            server.free_at = max(server.free_at, time.monotonic()) + count / server.rate
            wait = server.free_at - time.monotonic()
        server.over.wait(max(0.0, wait))

    def _say(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _serve() -> None:
    """As a script: FOLDER [BYTES A SECOND [LATENCY]]; its first line is its address, and it ends with its input."""
    with range_server(Path(sys.argv[1])) as server:
        server.rate = float(sys.argv[2]) or None if len(sys.argv) > 2 else None
        server.latency = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
