"""What every request passes before anything reads it: host, origin, token, size and patience."""

import asyncio
import hmac
import logging
import time
from collections.abc import Iterator, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from newsstudio_ditto.daemon.daemon import COOKIE, Daemon
from newsstudio_ditto.daemon.problems import RequestError
from newsstudio_ditto.daemon.settings import LOOPBACK, UploadLimits

log = logging.getLogger(__name__)

PUBLIC = ("/", "/docs", "/healthz", "/readyz", "/favicon.ico")
PUBLIC_FOLDERS = ("/static/",)

_UNAUTHORIZED = RequestError(401, "the token is missing or wrong", "send 'Authorization: Bearer TOKEN'")
_POLICY = (
    "default-src 'self'; media-src 'self' blob:; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_WS_POLICY_VIOLATION = 1008


class Gate:
    """Pure ASGI middleware, so that nothing of a refused body is read.

    Args:
        app: what is behind it.
        daemon: whose settings decide.
    """

    def __init__(self, app: ASGIApp, daemon: Daemon) -> None:
        """Work out the hosts that this daemon goes by."""
        self._app, self._daemon = app, daemon
        settings = daemon.settings
        self._hosts = {*LOOPBACK, settings.host, *settings.hosts} if settings.is_local or settings.hosts else None
        self._origins = frozenset(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with a body that cannot be too large, too slow or endless."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection)
        if scope["type"] == "websocket":
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": _WS_POLICY_VIOLATION, "reason": refusal.what})
            return
        answer = _Answer(send, self._daemon, scope["method"])
        if refusal is not None:
            await problem_response(refusal)(scope, receive, answer)
            return
        await self._app(scope, _Patience(receive, self._daemon.settings.limits), answer)

    def _refusal(self, connection: HTTPConnection) -> RequestError | None:
        return next((found for found in self._refusals(connection) if found is not None), None)

    def _refusals(self, connection: HTTPConnection) -> Iterator[RequestError | None]:
        headers = connection.headers
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            yield RequestError(421, "this daemon does not go by that host name", "start it with --allow-host NAME")
        is_safe = connection.scope["type"] == "http" and connection.scope["method"] in _SAFE_METHODS
        if not is_safe and not self._is_same_origin(headers):
            yield RequestError(403, "calls from other web sites are not taken", "start it with --allow-origin ORIGIN")
        if not self._is_known(connection):
            yield _UNAUTHORIZED
        yield _oversize(headers, self._daemon.settings.limits)

    def _is_same_origin(self, headers: Headers) -> bool:
        """Whether a browser sends this from our own page; other programs send no origin."""
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return True
        return origin != "null" and urlsplit(origin).netloc == headers.get("host")

    def _is_known(self, connection: HTTPConnection) -> bool:
        token = self._daemon.settings.token
        path = connection.scope["path"]
        if token is None or path in PUBLIC or path.startswith(PUBLIC_FOLDERS):
            return True
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
            return True
        return hmac.compare_digest(connection.cookies.get(COOKIE, "").encode(), self._daemon.cookie().encode())


def problem_response(error: RequestError) -> JSONResponse:
    """The answer to a refused request."""
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    if error.status == _UNAUTHORIZED.status:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"what": error.what, "hint": error.hint}, error.status, headers)


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _oversize(headers: Headers, limits: UploadLimits) -> RequestError | None:
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) <= limits.body_bytes:
        return None
    return RequestError(413, f"the body has {length[:20]} bytes", f"send {limits.body_bytes} at most")


class _Patience:
    """A ``receive`` that counts bytes and watches the clock while a body arrives."""

    def __init__(self, receive: Receive, limits: UploadLimits) -> None:
        self._receive, self._limits = receive, limits
        self._num_bytes, self._is_complete = 0, False
        self._deadline = time.monotonic() + limits.total_s

    async def __call__(self) -> Message:
        if self._is_complete:  # what comes now is the news that the client has left, whenever that is
            return await self._receive()
        patience = min(self._limits.idle_s, max(self._deadline - time.monotonic(), 0.0))
        try:
            message = await asyncio.wait_for(self._receive(), patience)
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly") from None
        self._num_bytes += len(message.get("body", b""))
        self._is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        if self._num_bytes > self._limits.body_bytes:
            raise HTTPException(413, f"the body has more than {self._limits.body_bytes} bytes")
        return message


class _Answer:
    """A ``send`` that adds what every answer carries, and counts it."""

    def __init__(self, send: Send, daemon: Daemon, method: str) -> None:
        self._send, self._daemon, self._method = send, daemon, method

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._daemon.metrics.requests.labels(_known(self._method), str(message["status"])).inc()
            _add_headers(message)
        await self._send(message)


def _known(method: str) -> str:
    return method if method in {*_SAFE_METHODS, "POST", "PUT", "PATCH", "DELETE"} else "other"


def _add_headers(message: MutableMapping[str, Any]) -> None:
    present = {name.lower() for name, _ in message["headers"]}
    ours = {
        b"content-security-policy": _POLICY.encode(),
        b"x-content-type-options": b"nosniff",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-resource-policy": b"same-origin",
        b"cache-control": b"no-store",
    }
    message["headers"] = [*message["headers"], *((name, text) for name, text in ours.items() if name not in present)]
