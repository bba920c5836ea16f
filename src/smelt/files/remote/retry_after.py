"""How long a busy server asks to be left alone (`Retry-After`).

obstore does not show the headers of an answer that it refuses, so that one is asked for once more, without its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

__all__ = ["asked_to_wait", "seconds_of"]

_PATIENCE = 5.0


def asked_to_wait(folder: str, name: str, headers: Mapping[str, str]) -> float | None:
    """Seconds that a web server wants to pass before the next request for a file; None where it does not say."""
    parts = urlsplit(folder)
    url = urlunsplit((*parts[:2], f"{parts.path.rstrip('/')}/{quote(name)}", parts.query, ""))
    request = Request(url, headers={**headers, "User-Agent": "smelt"}, method="HEAD")
    try:
        urlopen(request, timeout=_PATIENCE).close()
    except HTTPError as answer:
        with answer:
            return seconds_of(answer.headers.get("Retry-After")) if answer.code in (429, 503) else None
    except (OSError, ValueError):
        return None
    return 0.0


def seconds_of(said: str | None) -> float | None:
    """A number of seconds, or the time until a date."""
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said).astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except ValueError:
        return None
