"""Connections that cannot be held open for nothing: their number is bounded, and one that stalls is cut.

uvicorn waits for ever for headers, for the rest of a body and for a client that does not read its answer. Here a clock
runs whenever it is the client's turn:

    headers     they have to be whole in time, counted from the connection or from the last answer
    body        something has to arrive
    answer      something of what was written has to be read

It does not run while the application works.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from smelt.hub.service.settings import Settings

__all__ = ["connection_class"]

_LOOKS = 5
"""How often a connection is looked at within the time that it may stall."""


def connection_class(settings: Settings) -> type[asyncio.Protocol]:
    """The HTTP protocol of uvicorn with the bounds of these settings."""

    class Connection(_Bounded):
        most, patience = settings.connections, settings.stall_seconds

    return Connection


class _Bounded(H11Protocol):
    most: int
    patience: float

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arrived, self._answered, self._since = 0, 0, self.loop.time()
        self._seen: tuple[Any, ...] | None = None
        self._clock: asyncio.TimerHandle | None = None
        if len(self.connections) > self.most:
            self._end("503 Service Unavailable", "there are too many connections; come back in a moment")
        self._look()

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._answered += 1
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        super().connection_lost(exc)

    def _look(self) -> None:
        """Cut the connection if nothing has changed for too long, else look again soon."""
        seen, now = self._turn(), self.loop.time()
        if seen is None or seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since >= self.patience:
            self._cut()
            return
        self._clock = self.loop.call_later(self.patience / _LOOKS, self._look)

    def _turn(self) -> tuple[Any, ...] | None:
        """What the client is waited for, and how far it is; None while it is the application's turn."""
        if unread := self.transport.get_write_buffer_size():
            return "answer", unread
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return "headers", self._answered
        if cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue:
            return "body", self._arrived
        return None

    def _cut(self) -> None:
        if self._seen is not None and self._seen[0] == "answer":
            self.transport.abort()  # to close would be to wait until it is read
        elif self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            words = f"nothing came from you for {self.patience:g} seconds; send the request again"
            self._end("408 Request Timeout", words)
            self._clock = self.loop.call_later(self.patience, self.transport.abort)

    def _end(self, status: str, words: str) -> None:
        """Say why, outside of any request, and close."""
        body = f"{words}\n".encode()
        head = (f"HTTP/1.1 {status}", "Content-Type: text/plain", f"Content-Length: {len(body)}", "Connection: close")
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)
        self.transport.close()
