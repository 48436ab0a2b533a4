"""Starting a daemon: everything warm first, the port last."""

import ctypes
import logging
import socket

import uvicorn

from newsstudio_ditto.daemon.app import build_app
from newsstudio_ditto.daemon.daemon import Daemon
from newsstudio_ditto.daemon.devices import open_devices
from newsstudio_ditto.daemon.live_routes import MOST_MESSAGE_BYTES
from newsstudio_ditto.daemon.settings import DaemonSettings
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.media.ffmpeg import preflight

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 200
_STOP_S = 5
_M_ARENA_MAX = -8  # of malloc.h
_ARENAS = 2


def serve(settings: DaemonSettings) -> None:
    """Run a daemon until it is told to stop (SIGINT, SIGTERM).

    Models are loaded, graphs captured and FFmpeg tried before the port opens.

    Args:
        settings: of the daemon.

    Raises:
        UsageError: the port is taken, or another daemon works on the same storage folder.
        DeviceError: a device is not there.
        BundleError: the model is not there, or damaged.
        FfmpegError: FFmpeg is missing, or cannot encode.
    """
    if not settings.is_local and settings.token is None:
        log.warning("anybody who reaches this port can use it: give a token", extra={"host": settings.host})
    _bound_arenas()
    preflight("libx264")
    pool = open_devices(settings.devices, settings.model, eager=settings.eager)
    pool.warm_up()
    app = build_app(Daemon(settings, pool))
    with _listen(settings) as listener:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=_STOP_S,
            ws_max_size=2 * MOST_MESSAGE_BYTES,
            ws_max_queue=8,
            server_header=False,
            date_header=False,
        )
        log.info("listening", extra={"host": settings.host, "port": settings.port})
        uvicorn.Server(config).run(sockets=[listener])


def _bound_arenas() -> None:
    """Keep the C library from giving every new thread a heap of its own: those heaps grow for hours and stay."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent outside glibc
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def _listen(settings: DaemonSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}", "give another --port"
        ) from error
    listener.listen(128)
    listener.set_inheritable(False)
    return listener
