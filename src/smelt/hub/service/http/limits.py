"""How much one client may ask for: a token bucket per client and kind of request, and bodies counted as they arrive.

Both are plain ASGI layers: requests in, the same requests or a refusal out; nothing is kept but numbers in memory.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request

from smelt.hub.service.settings import Rate

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BodyLimit", "Buckets", "RateLimit", "TooLarge", "client_of", "kind_of"]

Refuse = Callable[[Request, int, str, Mapping[str, str]], "Response"]


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
    if post and path in ("/submit", "/api/v1/submit"):
        return "submit"
    if post and path in ("/predict", "/api/v1/predict", "/api/v1/select"):
        return "think"
    if path == "/task" and scope["query_string"]:
        return "think"
    return "read"


class RateLimit:
    """429 with Retry-After for a client whose bucket is empty."""

    def __init__(self, app: ASGIApp, *, rates: Mapping[str, Rate], refuse: Refuse):
        self._app, self._refuse = app, refuse
        self._buckets = {kind: Buckets(rate) for kind, rate in rates.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        wait = self._buckets[kind_of(scope)].take(client_of(scope))
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
