"""The page, and what machines ask to know how the daemon is doing."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import FileResponse, JSONResponse

from newsstudio_ditto.daemon.avatar_routes import refusals
from newsstudio_ditto.daemon.daemon import COOKIE, DaemonOf
from newsstudio_ditto.daemon.models import Health

PAGE = Path(__file__).parent / "page"

router = APIRouter()


@router.get("/", include_in_schema=False)
def page() -> FileResponse:
    """The page that people use."""
    return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/docs", include_in_schema=False)
def docs() -> FileResponse:
    """The API, made readable from its own schema, without anything from elsewhere."""
    return FileResponse(PAGE / "docs.html", headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico", include_in_schema=False)
def icon() -> FileResponse:
    """The mark in the browser's tab."""
    return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")


@router.get("/healthz", tags=["health"], responses=refusals())
def healthz() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz", tags=["health"], responses={**refusals(), 503: {"model": Health}}, response_model=Health)
def readyz(daemon: DaemonOf) -> Health | JSONResponse:
    """Every device is warm, and every worker lives."""
    if daemon.runner.is_alive:
        return Health(status="ready")
    return JSONResponse({"status": "not ready"}, 503)


@router.get(
    "/metrics",
    tags=["health"],
    response_class=Response,
    responses={**refusals(), 200: {"content": {"text/plain": {}}, "description": "for Prometheus"}},
)
def metrics(daemon: DaemonOf) -> Response:
    """Counters for Prometheus."""
    return Response(daemon.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.post("/api/session", tags=["health"], status_code=204, responses=refusals())
def open_session(
    daemon: DaemonOf, response: Response, x_forwarded_proto: Annotated[str, Header(max_length=16)] = ""
) -> None:
    """Give a browser that sent the token a cookie, so that videos, events and the live stream work without it."""
    if daemon.settings.token is not None:
        secure = x_forwarded_proto == "https"
        response.set_cookie(COOKIE, daemon.cookie(), httponly=True, samesite="strict", secure=secure)
