"""A server on this machine that answers as it is told, so that requests to a model behind a URL can be tested."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Server:
    """Where it is and what it was asked."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Path, JSON content and Authorization header of every request."""


@contextmanager
def serving(answer: Callable[[str, dict[str, Any], int], tuple[int, Any, float]]) -> Iterator[Server]:
    """`answer(path, content, how many came before)` gives a status, JSON (or text) and seconds to wait."""
    server = Server("")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(server.asked)
                server.asked.append({"path": self.path, "content": content, "key": self.headers.get("Authorization")})
            status, said, wait = answer(self.path, content, number)
            time.sleep(wait)
            body = (said if isinstance(said, str) else json.dumps(said)).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # nobody waits for it any more
                pass

        def log_message(self, *words: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
