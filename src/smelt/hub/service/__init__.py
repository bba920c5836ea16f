"""The service and the pages of a hub. `create_app` makes the application, `serve.serve` runs it.

Needs the extra `hub` (FastAPI, uvicorn); nothing here is imported before that is checked.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.hub.service.app import create_app
    from smelt.hub.service.settings import Rate, Settings

__all__ = ["Rate", "Settings", "create_app"]

_LIBRARIES = ("anyio", "fastapi", "python_multipart", "starlette", "uvicorn")
_HOME = {"create_app": "app", "Rate": "settings", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _LIBRARIES:
            from smelt.errors import MissingExtra

            raise MissingExtra(f"the hub's service needs {error.name}: pip install 'smelt[hub]'") from None
        raise
