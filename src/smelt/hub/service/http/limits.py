"""How much one client may ask for: a token bucket per client and kind of request, and bodies counted as they arrive.

Both are plain ASGI layers: requests in, the same requests or a refusal out. The buckets belong to the hub, not to the
process: several services draw from the same ones, in lots. Only while the database is away has each its own.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request

from smelt.errors import SmeltError
from smelt.hub.service.settings import Rate

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyLimit", "Buckets", "RateLimit", "SharedBuckets", "TooLarge", "client_of", "kind_of"]

Refuse = Callable[[Request, int, str, Mapping[str, str]], "Response"]
_LOT = 20
"""A lot is this part of a burst, or one token."""
_LOT_SECONDS = 1.0
_FORGET = 1000
"""Lots between two looks at how many clients are remembered."""
_THREADS = 8
"""That wait for the database to give tokens."""


class SharedLimits(Protocol):
    """Where the hub keeps the buckets (`smelt.hub.store.limits.Limits`)."""

    def take(self, key: str, lot: int, burst: float, second: float, *, unused: int = 0) -> tuple[int, float]:
        """How many tokens were granted, and the seconds to wait if none was."""

    def forget(self) -> None:
        """Keep the number of buckets bounded."""


class TooLarge(HTTPException):
    """A body that is longer than allowed; raised where it is read, so that the rest is never stored."""

    def __init__(self, limit: int):
        super().__init__(413, f"the request is larger than {limit / 1e6:,.0f} MB, which is the limit here; send less")


class Buckets:
    """Token buckets by key. The oldest keys are forgotten beyond `most`, so memory stays bounded."""

    def __init__(self, rate: Rate, *, most: int = 20_000, clock: Callable[[], float] = time.monotonic):
        self.rate, self._most, self._clock = rate, most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Take one token: 0.0, or the seconds until there is one."""
        second = self.rate.per_minute / 60.0
        with self._lock:
            now = self._clock()
            left, at = self._left.pop(key, (float(self.rate.burst), now))
            left = min(float(self.rate.burst), left + (now - at) * second)
            wait = 0.0 if left >= 1.0 else (1.0 - left) / second
            self._left[key] = (left if wait else left - 1.0, now)
            while len(self._left) > self._most:
                self._left.popitem(last=False)
        return wait


class SharedBuckets:
    """Buckets of one kind of request that all services of a hub draw from; this one's share of them is in memory."""

    def __init__(self, shared: SharedLimits, kind: str, rate: Rate, *, most: int = 20_000):
        self._shared, self._kind, self._rate, self._most = shared, kind, rate, most
        self._lot = max(1, rate.burst // _LOT)
        self._held: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Tokens of a lot, and until when they are good."""
        self._own = Buckets(rate, most=most)
        self._lock, self._taken = threading.Lock(), 0

    def held(self, key: str) -> bool:
        """Use a token of this client's lot, if there is one."""
        with self._lock:
            left, until = self._held.get(key, (0, 0.0))
            if left < 1 or time.monotonic() >= until:
                return False
            self._held[key] = left - 1, until
            return True

    def take(self, key: str) -> float:
        """Take one token: 0.0, or the seconds until there is one."""
        if self.held(key):
            return 0.0
        with self._lock:
            unused, _ = self._held.pop(key, (0, 0.0))
        second = self._rate.per_minute / 60.0
        try:
            name = f"{self._kind} {key}"
            granted, wait = self._shared.take(name, self._lot, float(self._rate.burst), second, unused=unused)
        except SmeltError:
            return self._own.take(key)
        with self._lock:
            if granted > 1:
                left, _ = self._held.pop(key, (0, 0.0))  # of a lot that came at the same time
                self._held[key] = left + granted - 1, time.monotonic() + _LOT_SECONDS
                while len(self._held) > self._most:
                    self._held.popitem(last=False)
            self._taken += 1
            look = self._taken % _FORGET == 0
        if look:
            with contextlib.suppress(SmeltError):
                self._shared.forget()
        return wait


def client_of(scope: Scope) -> str:
    """The client's address; of IPv6 the first 64 bits, because one client owns all that follow."""
    host = (scope.get("client") or ("unknown", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 6:
        return str(ipaddress.ip_network(f"{address}/64", strict=False))
    return str(address)


def kind_of(scope: Scope) -> str:
    """`submit`, `think` or `read`."""
    path, post = str(scope["path"]).rstrip("/"), scope["method"] == "POST"
    if post and (path in ("/submit", "/api/v1/submit") or path.endswith("/cancel")):
        return "submit"
    if post and path in ("/predict", "/api/v1/predict", "/api/v1/select"):
        return "think"
    if path == "/task" and scope["query_string"]:
        return "think"
    return "read"


class RateLimit:
    """429 with Retry-After for a client whose bucket is empty."""

    def __init__(self, app: ASGIApp, *, rates: Mapping[str, Rate], refuse: Refuse, shared: SharedLimits):
        self._app, self._refuse = app, refuse
        self._buckets = {kind: SharedBuckets(shared, kind, rate) for kind, rate in rates.items()}
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        bucket, client = self._buckets[kind_of(scope)], client_of(scope)
        if bucket.held(client):
            return await self._app(scope, receive, send)
        if self._threads is None:  # made here, since it belongs to the event loop
            self._threads = anyio.CapacityLimiter(_THREADS)
        wait = await anyio.to_thread.run_sync(bucket.take, client, limiter=self._threads)
        if not wait:
            return await self._app(scope, receive, send)
        seconds = max(1, math.ceil(wait))
        words = f"too many requests from your address; ask again in {seconds} second{'s' * (seconds > 1)}"
        response = self._refuse(Request(scope), 429, words, {"Retry-After": str(seconds)})
        return await response(scope, receive, send)


class BodyLimit:
    """Counts a body as it arrives; stops at the limit, whatever Content-Length said."""

    def __init__(self, app: ASGIApp, *, limits: Mapping[str, int], refuse: Refuse):
        """`limits` by kind of request; `read` is for all others."""
        self._app, self._limits, self._refuse = app, limits, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        limit = self._limits.get(kind_of(scope), self._limits["read"])
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > limit:
            error = TooLarge(limit)
            response = self._refuse(Request(scope), error.status_code, error.detail, {"Connection": "close"})
            return await response(scope, receive, send)
        arrived = 0

        async def counted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived > limit:
                raise TooLarge(limit)
            return message

        return await self._app(scope, counted, send)
