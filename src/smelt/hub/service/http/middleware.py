"""The outermost layers, plain ASGI: security headers, one line of log per request, no traceback; and HEAD requests.

The log has the method, the path, the status and the time; no query, no header, no body, so no token can be in it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "HeadRequests", "SecurityHeaders"]

LOG = logging.getLogger("smelt.hub.service")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, *, refuse: Callable[[Request, int, str, Mapping[str, str]], Response]):
        self._app, self._refuse = app, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start, status = time.perf_counter(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            status = status or 499  # nobody is there to be answered
        except Exception:
            mark = secrets.token_hex(4)
            LOG.exception("fault %s at %s %r", mark, scope["method"], scope["path"])
            if not status:
                words = f"something went wrong inside the service (fault {mark})"
                await self._refuse(Request(scope), 500, words, {})(scope, receive, guarded)
        finally:
            spent = 1000 * (time.perf_counter() - start)
            LOG.info("%s %r %d %.0f ms", scope["method"], scope["path"], status, spent)
        return None


class HeadRequests:
    """HEAD: whatever GET would answer, without its body, for pages, API and files alike."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self._app(scope, receive, send)

        async def bare(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        return await self._app({**scope, "method": "GET"}, receive, bare)
