"""What went wrong, for the person who asked: a page or JSON, with what to do, and without the machine's paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from smelt.hub.service.render import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Refused", "problem", "without_paths"]

_PATH = re.compile(r"""(?<![\w./\\])(?:[A-Za-z]:)?[/\\](?:[^\s/\\:'"<>|]+[/\\])*([^\s/\\:'"<>|,;()]+)""")
_LOGIN = re.compile(r"(?<=://)[^\s/@]+@")

_HINTS = {
    401: "Send a token of this hub: ask whoever runs it for one (smelt hub token new makes it).",
    404: "Look for it in the lists of models and of the graph.",
    413: "Send a smaller file, or several smaller requests.",
    429: "Wait a moment, then ask again.",
    503: "Models are labelled in the background; the list of models shows how far that is.",
    500: "The fault is ours, not yours. The log of the service names it by the number above.",
}


class Refused(Exception):
    """A request that is turned down: a status and a sentence that says why and what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def without_paths(text: str) -> str:
    """The same sentence with only the last part of every absolute path, and no login in any address."""
    return _PATH.sub(r"\1", _LOGIN.sub("", text))


def problem(request: Request, status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """JSON below /api/v1, a page elsewhere."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    message = message.encode(errors="backslashreplace").decode()  # it may quote what was sent, half characters too
    title = HTTPStatus(status).phrase
    if request.url.path.startswith("/api/v1") or request.url.path == "/openapi.json":
        content = {"error": {"status": status, "title": title, "message": message}}
        return JSONResponse(content, status, headers=headers)
    words = {"status": status, "title": title, "message": message, "hint": _HINTS.get(status, "")}
    return page(request, "problem.html.jinja", words, status=status, headers=headers)
