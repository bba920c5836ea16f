"""A model behind a URL that speaks OpenAI's protocol: one request, tried again where that may help.

The key is read from an environment variable when a request is made. It is in the request's header and nowhere else: not
in the object, its repr, a message or a log; what a server answers is cleared of it before it is shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from smelt.errors import MissingExtra, RecipeError, SmeltError

__all__ = ["Endpoint", "EndpointError"]

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""
_SHOWN = 300
"""Letters of a server's answer in a message."""


class EndpointError(SmeltError):
    """A model behind a URL did not answer, or not with what was asked for."""


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
    """Seconds before the second try; they double with every further one."""

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

    def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """The JSON that the server answers; the model's name is added to what is sent."""
        try:
            import httpx
        except ImportError:
            raise MissingExtra("asking a model behind a URL needs httpx: pip install 'smelt[hub]'") from None
        address, key, fault = f"{self.url.rstrip('/')}/{path}", self._key(), ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        for number in range(self.tries):
            if number:
                time.sleep(self.wait * 2 ** (number - 1))
            try:
                answer = httpx.post(
                    address, json={"model": self.model, **content}, headers=headers, timeout=self.timeout
                )
            except httpx.TimeoutException:
                fault = f"gave no answer in {self.timeout:g} seconds"
                continue
            except httpx.TransportError as error:
                fault = f"cannot be reached ({type(error).__name__})"
                continue
            if answer.is_success:
                return self._content(answer, address)
            fault = f"answered {answer.status_code}: {_without(key, answer.text)}"
            if answer.status_code not in _AGAIN:
                raise EndpointError(f"{address} {fault}")
        raise EndpointError(f"{address} {fault}; tried {self.tries} times")

    def _content(self, answer: Any, address: str) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise EndpointError(f"{address} answered with something that is not JSON; is the url right?") from None

    def _key(self) -> str | None:
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise RecipeError(f"the environment variable {self.key_env} is not set; put the key of {self.url} there")
        if not (key.isascii() and key.isprintable()):
            raise RecipeError(f"the environment variable {self.key_env} does not hold a key: it has strange characters")
        return key


def _without(key: str | None, text: str) -> str:
    text = " ".join(text.split())
    return (text.replace(key, "***") if key else text)[:_SHOWN]


def _plain(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.scheme and parts.hostname else url.split("?")[0]
