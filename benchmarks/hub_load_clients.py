"""Clients of several services on one hub: each asks, waits a little, asks again, and goes elsewhere when one is away.

Every answer is counted as what it is. `ok`: what was hoped for. `unavailable`: a 503 with a reason and Retry-After.
`refused`: nobody listens there. `cut`: the connection broke before the answer was whole, as it does when a service is
killed. After the last three the same request goes to the next service. Anything else is an error, and kept with its
text. A submission that was cut and then answered with 409 had been stored before: it counts as accepted.
"""

from __future__ import annotations

import http.client
import json
import random
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Client", "Tally", "run_clients", "variant"]

KINDS = {"models": 25, "model": 15, "graph": 10, "jobs": 10, "job": 10, "select": 22, "predict": 5, "submit": 3}
"""How often each kind of request is chosen."""
_ELSEWHERE = 0.2
"""Of its requests a client sends to any service, whether it was there last time or not."""
_TRIES = 60
_WAIT = 0.25
"""Seconds before another service is asked."""
_TIMEOUT = 60.0


@dataclass
class Tally:
    """What all clients have seen."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    errors: list[str] = field(default_factory=list)
    accepted: dict[str, float] = field(default_factory=dict)
    """Models whose submission was answered, and when."""
    unanswered: set[str] = field(default_factory=set)
    """Models whose submission was given up without an answer."""
    jobs: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, outcome: str, seconds: float | None = None) -> None:
        with self.lock:
            self.counts[kind][outcome] += 1
            if seconds is not None:
                self.seconds[kind].append(seconds)

    def table(self) -> dict[str, dict[str, float]]:
        """Milliseconds by kind, of what was answered as hoped for."""
        found = {}
        for kind, times in sorted(self.seconds.items()):
            ordered = sorted(times)
            at = {f"p{p}": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 90, 99)}
            found[kind] = {"n": len(ordered), **{name: round(1000 * s, 1) for name, s in at.items()}}
            found[kind]["max"] = round(1000 * ordered[-1], 1)
        return found


def variant(weights: bytes, number: int) -> bytes:
    """The same weights but for the last bits of a few numbers: another model by its hash."""
    header = struct.unpack("<Q", weights[:8])[0]
    changed, draw = bytearray(weights), random.Random(number)
    for _ in range(8):
        place = 8 + header + 4 * draw.randrange((len(weights) - 8 - header) // 4)
        changed[place] ^= draw.randrange(1, 16)
    return bytes(changed)


class Client:
    """One client: its connections, and what it does."""

    def __init__(
        self,
        number: int,
        ports: list[int],
        tally: Tally,
        files: dict[str, bytes],
        token: str,
        picture: bytes,
        pause: float,
    ):
        self.number, self.ports, self.tally = number, ports, tally
        self.files, self.token, self.picture, self.pause = files, token, picture, pause
        self.draw = random.Random(number)
        self.at = number % len(ports)
        self.connections: dict[int, http.client.HTTPConnection] = {}
        self.sent = 0

    def run(self, until: float) -> None:
        try:
            while time.monotonic() < until:
                kind = self.draw.choices(list(KINDS), list(KINDS.values()))[0]
                self.ask(kind, until)
                time.sleep(min(self.draw.expovariate(1 / self.pause), 4 * self.pause))
        except Exception as error:  # a fault of this program is no silence
            with self.tally.lock:
                self.tally.errors.append(f"client {self.number}: {type(error).__name__}: {error}")
        finally:
            for connection in self.connections.values():
                connection.close()

    def ask(self, kind: str, until: float) -> None:
        """One request, at one service after another until it is answered."""
        request, took = self.request(kind), self.took(kind)
        cut = False
        if self.draw.random() < _ELSEWHERE:
            self.at = self.draw.randrange(len(self.ports))
        for _ in range(_TRIES):
            began = time.monotonic()
            try:
                status, headers, body = self.once(*request)
            except ConnectionRefusedError:
                self.tally.add(kind, "refused")
            except (OSError, http.client.HTTPException) as error:
                outcome = "timeout" if isinstance(error, TimeoutError) else "cut"
                self.tally.add(kind, outcome)
                cut = True
            else:
                if status == 503 and "retry-after" in headers and json.loads(body)["error"]["message"]:
                    self.tally.add(kind, "unavailable")
                elif took(status, body, cut):
                    self.tally.add(kind, "ok", time.monotonic() - began)
                    return
                else:
                    self.tally.add(kind, "error")
                    with self.tally.lock:
                        self.tally.errors.append(f"{kind} {status}: {body[:200].decode(errors='replace')}")
                    return
            self.at = (self.at + 1) % len(self.ports)
            if time.monotonic() > until + _TIMEOUT:
                break
            time.sleep(_WAIT)
        self.tally.add(kind, "given up")
        if kind == "submit":
            with self.tally.lock:
                self.tally.unanswered.add(f"sent-{self.number}-{self.sent}")

    def once(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        port = self.ports[self.at]
        connection = self.connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT))
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def request(self, kind: str) -> tuple[str, str, bytes, dict[str, str]]:
        json_kind = {"Content-Type": "application/json"}
        if kind == "select":
            some = self.draw.sample(["red", "green", "blue", "colour"], self.draw.randint(1, 4))
            body = {"classes": some, "k": self.draw.randint(1, 3), "alpha": self.draw.randint(0, 10) / 10}
            return "POST", "/api/v1/select", json.dumps(body).encode(), json_kind
        if kind == "submit":
            self.sent += 1
            name = f"sent-{self.number}-{self.sent}"
            weights = variant(self.files["model.safetensors"], hash((self.number, self.sent)))
            files = {**self.files, "model.safetensors": weights}
            return "POST", "/api/v1/submit", *_form({"token": self.token, "name": name}, "files", files)
        if kind == "predict":
            words = {"classes": "red\ngreen\nblue"}
            return "POST", "/api/v1/predict", *_form(words, "pictures", {"one.png": self.picture})
        path = {
            "models": f"/api/v1/models?search={self.draw.choice(['knows', 'guesses'])}",
            "model": f"/api/v1/models/{self.draw.choice(['knows', 'guesses1'])}",
            "graph": "/api/v1/graph?search=red",
            "jobs": "/api/v1/jobs?model=knows",
            "job": f"/api/v1/jobs/{self.draw.choice(sorted(self.tally.jobs) or [1])}",
        }[kind]
        return "GET", path, b"", {}

    def took(self, kind: str) -> Callable[[int, bytes, bool], bool]:
        """Whether an answer is what was hoped for; notes a submission that was accepted."""
        name = f"sent-{self.number}-{self.sent}"

        def submitted(status: int, body: bytes, cut: bool) -> bool:
            if status != 202 and not (status == 409 and cut):
                return False
            with self.tally.lock:
                self.tally.accepted[name] = time.time()
                if status == 202:
                    self.tally.jobs.add(json.loads(body)["job"])
            return True

        return submitted if kind == "submit" else lambda status, _body, _cut: status == 200


def _form(words: dict[str, str], name: str, files: dict[str, bytes]) -> tuple[bytes, dict[str, str]]:
    parts = [
        f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode() for key, value in words.items()
    ]
    parts += [
        f'Content-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'.encode() + data + b"\r\n"
        for file, data in files.items()
    ]
    body = b"".join(b"--edge-of-a-part\r\n" + part for part in parts) + b"--edge-of-a-part--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=edge-of-a-part"}


def run_clients(clients: list[Client], seconds: float, meanwhile: Callable[[], None]) -> None:
    """All clients for so many seconds, while something else happens."""
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client.run, args=(until,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        for thread in threads:
            thread.join()
