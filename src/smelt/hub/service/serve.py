"""Run the service: one process, threads for the work, a log without queries and headers."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from smelt.caller import Blank, option
from smelt.errors import SmeltError
from smelt.hub.service.app import create_app
from smelt.hub.service.http.connections import connection_class
from smelt.hub.service.settings import Settings

if TYPE_CHECKING:
    from smelt.hub.hub import Hub
    from smelt.hub.service.backend import HubBackend

__all__ = ["serve"]


def serve(
    hub: Hub,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: Settings | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a hub until Ctrl-C. `port=0` takes a free one; `ready` is told the address as soon as it listens."""
    listener = _listen(host, port)
    number = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log = logging.getLogger("smelt.hub.service")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    settings = settings or Settings()
    app = create_app(hub, settings=settings)
    config = uvicorn.Config(
        app,
        http=connection_class(settings),
        ws="none",  # there are none, and one would leave the bounded connection
        access_log=False,  # uvicorn's has the query in it; the middleware writes one without
        log_level="warning",
        server_header=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=5,
    )
    threading.Thread(target=_warm, args=(app.state.backend,), name="smelt-hub-warm", daemon=True).start()
    if ready:
        ready(f"http://{shown}:{number}/")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        log.removeHandler(handler)
        listener.close()


def _warm(backend: HubBackend) -> None:
    with contextlib.suppress(Exception):  # whoever asks will see the fault; the service may also have ended by now
        backend.warm()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise SmeltError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another port "
            f"({option('port', Blank('NUMBER'))})"
        ) from None
    return listener
