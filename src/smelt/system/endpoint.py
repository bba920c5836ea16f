"""A model behind a URL that speaks OpenAI's protocol: one request, tried again where that may help.

Embeddings and captions of a hub ask here, and so does an evaluation of a model that a server holds. The key is read
from an environment variable when a request is made. It is in the request's header and nowhere else: not in the object,
its repr, a message or a log; what a server answers is cleared of it before it is shown.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from smelt.errors import MissingExtra, RecipeError, SmeltError

__all__ = ["Endpoint", "EndpointError", "EndpointGone"]

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""
_BUSY = frozenset({429, 502, 503, 504})
"""Answers that say nothing against the request."""
_SHOWN = 300
"""Letters of a server's answer in a message."""
_LONGEST_WAIT = 30.0
"""Seconds before a further try, whatever the server asks for."""
_CONNECTIONS = 64


class EndpointError(SmeltError):
    """A model behind a URL did not answer, or not with what was asked for."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status
        """Of the last answer; None where there was none."""


class EndpointGone(EndpointError):
    """Every try ended without an answer that says what is wrong: the server is down, cut off, or has too much to do."""


@dataclass(frozen=True)
class Endpoint:
    """Where the model is, its name there, and how patient we are."""

    url: str
    """Up to and with the version: `https://api.openai.com/v1`, `http://localhost:8000/v1`."""
    model: str
    key_env: str | None = None
    """The NAME of the environment variable with the key; none for a server that asks for no key."""
    timeout: float = 60.0
    """Seconds for one try."""
    tries: int = 4
    wait: float = 1.0
    """Seconds before the second try; they double with every further one, and a server may ask for more."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RecipeError(f"url: an address with http:// or https:// is needed, got {_plain(self.url)!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise RecipeError(
                f"url: {_plain(self.url)} must hold no name, password or query; a key belongs in an environment "
                "variable whose name is given as key_env"
            )
        if not self.model:
            raise RecipeError(f"model: say which model of {self.url} is asked")
        if self.tries < 1 or self.timeout <= 0 or self.wait < 0:
            raise RecipeError("tries is at least 1, timeout above 0 and wait not below 0")

    def address(self, path: str) -> str:
        """Where a path is asked for: below the version, or from the server's root where it begins with `/`."""
        base = self.url.rstrip("/")
        return f"{base.removesuffix('/v1')}{path}" if path.startswith("/") else f"{base}/{path}"

    def post(self, path: str, content: Mapping[str, Any], *, tries: int | None = None) -> Any:
        """The JSON that the server answers; the model's name is added to what is sent."""
        return self._asked("POST", path, {"model": self.model, **content}, tries or self.tries)

    def get(self, path: str, *, tries: int | None = None) -> Any:
        """The JSON that the server answers to a question without content."""
        return self._asked("GET", path, None, tries or self.tries)

    @functools.cached_property
    def _client(self) -> Any:
        """One for all requests: threads share its connections."""
        try:
            import httpx
        except ImportError:
            raise MissingExtra("asking a model behind a URL needs httpx: pip install 'smelt[llm]'") from None
        limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
        return httpx.Client(timeout=self.timeout, limits=limits)

    def _asked(self, method: str, path: str, content: Mapping[str, Any] | None, tries: int) -> Any:
        client = self._client
        import httpx

        address, key, fault, told, status = self.address(path), self._key(), "", 0.0, None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        for number in range(tries):
            if number:
                time.sleep(min(_LONGEST_WAIT, max(told, self.wait * 2 ** (number - 1))))
            try:
                answer = client.request(method, address, json=content, headers=headers)
            except httpx.TimeoutException:
                fault, told, status = f"gave no answer in {self.timeout:g} seconds", 0.0, None
                continue
            except httpx.HTTPError as error:
                fault, told, status = f"cannot be reached ({type(error).__name__})", 0.0, None
                continue
            if answer.is_success:
                return self._content(answer, address)
            status, told = answer.status_code, _seconds(answer.headers.get("Retry-After", ""))
            fault = _refusal(answer, key)
            if status not in _AGAIN:
                raise EndpointError(f"{address} {fault}{_advice(status, self.key_env)}", status)
        times = "" if tries == 1 else f"; tried {tries} times"
        kind = EndpointGone if status is None or status in _BUSY else EndpointError
        raise kind(f"{address} {fault}{times}", status)

    def _content(self, answer: Any, address: str) -> Any:
        try:
            return answer.json()
        except ValueError:
            what = "a web page" if _is_page(answer) else "something"
            raise EndpointError(f"{address} answered with {what} that is not JSON; is the url right?") from None

    def _key(self) -> str | None:
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise RecipeError(f"the environment variable {self.key_env} is not set; put the key of {self.url} there")
        if not (key.isascii() and key.isprintable()):
            raise RecipeError(f"the environment variable {self.key_env} does not hold a key: it has strange characters")
        return key


def _refusal(answer: Any, key: str | None) -> str:
    """What a server answered instead, on one line and without the key."""
    if answer.is_redirect:
        place = _plain(answer.headers.get("Location", ""))
        return f"answered {answer.status_code} and sends on to {_without(key, place)}; give the server's own address"
    if _is_page(answer):
        return f"answered {answer.status_code} with a web page; is the url right?"
    return f"answered {answer.status_code}: {_without(key, answer.text)}"


def _advice(status: int, key_env: str | None) -> str:
    if status not in (401, 403):
        return ""
    return f"; is the key in {key_env} right?" if key_env else "; name the environment variable with the key as key_env"


def _is_page(answer: Any) -> bool:
    return "html" in answer.headers.get("Content-Type", "") or answer.text[:200].lstrip().lower().startswith(
        ("<!doctype html", "<html")
    )


def _seconds(told: str) -> float:
    """What a server says in Retry-After, where it is a number; a date is not read."""
    try:
        return max(0.0, float(told))
    except ValueError:
        return 0.0


def _without(key: str | None, text: str) -> str:
    text = " ".join(text.split())
    return (text.replace(key, "***") if key else text)[:_SHOWN]


def _plain(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.scheme and parts.hostname else url.split("?")[0]
