"""The service of a hub: a FastAPI application with pages for people and a JSON API for programs, and its layers.

    request ──► security headers, log ──► rate limit ──► body limit ──► pages │ api ──► backend ──► Hub

It keeps no state of its own but caches, so that several may serve one hub; the hub is opened and closed by whoever
makes the application.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from smelt.errors import SmeltError
from smelt.hub.service import api, pages
from smelt.hub.service.backend import HubBackend
from smelt.hub.service.http.limits import BodyLimit, RateLimit
from smelt.hub.service.http.middleware import HeadRequests, SecurityHeaders
from smelt.hub.service.problems import Refused, problem, without_paths
from smelt.hub.service.render import STATIC
from smelt.hub.service.settings import Settings
from smelt.hub.store.database import HubUnavailable
from smelt.version import __version__

if TYPE_CHECKING:
    from starlette.responses import Response

    from smelt.hub.hub import Hub

__all__ = ["create_app"]

_RETRY = "2"
"""Seconds after which a database that was away is asked for again."""
LOG = logging.getLogger("smelt.hub.service")


def create_app(hub: Hub, *, settings: Settings | None = None) -> FastAPI:
    """The application for one open hub. Jobs that an earlier process left are taken up when it starts."""
    settings = settings or Settings()

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(hub.resume_jobs)
        yield

    app = FastAPI(
        title=settings.title,
        version=__version__,
        summary="Which models to use for a task, and what they say of your pictures.",
        docs_url=None,  # FastAPI's own page loads scripts from the network; /api lists the operations
        redoc_url=None,
        lifespan=life,
    )
    app.state.settings, app.state.backend = settings, HubBackend(hub, settings)
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _answer_faults(app)
    limits = {"submit": settings.upload_bytes, "think": settings.body_bytes, "read": 1_000_000}
    app.add_middleware(HeadRequests)
    app.add_middleware(BodyLimit, limits=limits, refuse=_refuse(app))
    app.add_middleware(RateLimit, rates=settings.rates, refuse=_refuse(app), shared=hub.limits)
    if settings.hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(settings.hosts))
    app.add_middleware(SecurityHeaders, refuse=_refuse(app))
    _describe_token(app)
    return app


def _refuse(app: FastAPI) -> Any:
    """For layers outside the router, whose requests do not know the application yet."""

    def refuse(request: Request, status: int, message: str, headers: dict[str, str]) -> Response:
        request.scope["app"] = app
        return problem(request, status, message, headers)

    return refuse


def _answer_faults(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    def refused(request: Request, error: Refused) -> Response:
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        return problem(request, error.status, error.message, {**headers, **error.headers})

    @app.exception_handler(HubUnavailable)
    def away(request: Request, error: HubUnavailable) -> Response:
        LOG.warning("%s", without_paths(str(error)))
        words = "the hub's database is away or busy; ask again in a moment"
        return problem(request, 503, words, {"Retry-After": _RETRY})

    @app.exception_handler(SmeltError)
    def wrong(request: Request, error: SmeltError) -> Response:
        return problem(request, 422 if error.exit_code == 2 else 500, without_paths(str(error)))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        faults = [
            f"{'.'.join(str(one) for one in fault['loc'][1:] or fault['loc'])}: {fault['msg']}"
            for fault in error.errors()
        ]
        return problem(request, 422, "; ".join(faults[:10]))

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        message = str(error.detail)
        if error.status_code == 404:
            message = f"there is nothing at {request.url.path[:120]!r}"
        return problem(request, error.status_code, message, error.headers)


def _describe_token(app: FastAPI) -> None:
    """The schema says that a submission needs a token."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer", "description": "made by `smelt hub token new`"}
        return schema

    app.openapi = described  # type: ignore[method-assign]
