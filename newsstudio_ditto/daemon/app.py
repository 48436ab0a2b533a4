"""The application: routes, and the answers to everything that goes wrong."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Match, Route
from starlette.staticfiles import StaticFiles

from newsstudio_ditto import __version__
from newsstudio_ditto.daemon import avatar_routes, job_routes, live_routes, page_routes
from newsstudio_ditto.daemon.daemon import Daemon
from newsstudio_ditto.daemon.gate import Gate, problem_response
from newsstudio_ditto.daemon.problems import UNEXPECTED, UNEXPECTED_HINT, RequestError, status_of
from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.packet.files import storage_error

log = logging.getLogger(__name__)

_GONE = 400
_NOT_ALLOWED = 405
_HINTS = {
    404: "see /docs for what there is",
    405: "see /docs for what there is",
    408: "send it faster, or in smaller parts",
    413: "send less at once",
}


def build_app(daemon: Daemon) -> FastAPI:
    """The ASGI application of a daemon; its workers run from startup to shutdown."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with daemon.started():
            yield

    app = FastAPI(
        title="newsstudio-ditto",
        version=__version__,
        description="A presenter clip and a speech become a talking video.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.daemon = daemon
    for routes in (avatar_routes, job_routes, live_routes, page_routes):
        app.include_router(routes.router)
    app.mount("/static", StaticFiles(directory=page_routes.PAGE))
    app.add_middleware(Gate, daemon=daemon)
    if daemon.settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(daemon.settings.origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_exception_handler(DittoError, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(OSError, _on_system)
    app.add_exception_handler(Exception, _on_unexpected)
    return app


async def _on_refusal(request: Request, error: Exception) -> JSONResponse:
    refusal = cast(DittoError, error)
    daemon = cast(Daemon, request.app.state.daemon)
    retry = refusal.retry_after_s if isinstance(refusal, RequestError) else None
    what, hint = daemon.public(refusal.what), daemon.public(refusal.hint)
    return problem_response(RequestError(status_of(refusal), what, hint, retry_after_s=retry))


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    raised = cast(HTTPException, error)
    answer = problem_response(
        RequestError(raised.status_code, raised.detail.lower(), _HINTS.get(raised.status_code, ""))
    )
    answer.headers.update(raised.headers or {})
    if raised.status_code == _NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
    if raised.status_code in (408, 413):
        answer.headers["Connection"] = "close"  # the rest of the body is not read
    return answer


def _methods(request: Request) -> set[str]:
    """Methods of all routes of a path; the exception names those of the first alone."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or set() for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return set().union(*found)


async def _on_invalid(_request: Request, error: Exception) -> JSONResponse:
    faults = cast(RequestValidationError, error).errors()
    words = [
        f"{'.'.join(str(part) for part in fault['loc'][1:]) or fault['loc'][0]}: {fault['msg']}" for fault in faults
    ]
    return problem_response(RequestError(422, "; ".join(words)[:500], "see /docs for what is expected"))


async def _on_disconnect(_request: Request, _error: Exception) -> JSONResponse:
    return problem_response(RequestError(_GONE, "the client left before the request was complete"))


async def _on_system(request: Request, error: Exception) -> JSONResponse:
    refusal = storage_error(cast(OSError, error))
    if refusal is None:
        return await _on_unexpected(request, error)
    log.warning("a request was refused by the system", extra={"path": request.url.path, "reason": refusal.what})
    return await _on_refusal(request, refusal)


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("a request failed unexpectedly", exc_info=error, extra={"path": request.url.path})
    return problem_response(RequestError(500, UNEXPECTED, UNEXPECTED_HINT))
