"""Finished videos over HTTP, so that a browser can play what the asset graph links to. It reads, and nothing else.

``newsstudio-ditto dev`` starts it beside the UI; ``python -m newsstudio_ditto.video_server`` runs it alone.
"""

import os
import threading
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import click
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi import Path as PathPart
from fastapi.responses import FileResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from newsstudio_ditto.cli_shared import storage_option
from newsstudio_ditto.config import SLUG
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.video_link import VIDEO_PORT, VIDEO_URL_VARIABLE

_HEADERS = {
    "Cache-Control": "no-cache",  # a video that was rendered again is another one under the same address
    "Cross-Origin-Resource-Policy": "same-site",
    "X-Content-Type-Options": "nosniff",
}
_WATCH_S = 0.5

Slug = Annotated[str, PathPart(pattern=SLUG.pattern)]


def build_app(layout: StorageLayout, hosts: list[str]) -> FastAPI:
    """The server: ``GET`` and ``HEAD`` of ``/videos/{avatar_id}/{speech_id}.mp4``, with ranges.

    Args:
        layout: whose videos.
        hosts: names that a request may give this machine, which keeps pages of other sites from reading along.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)

    @app.api_route("/videos/{avatar_id}/{speech_id}.mp4", methods=["GET", "HEAD"], response_class=FileResponse)
    def video(avatar_id: Slug, speech_id: Slug) -> FileResponse:
        path = layout.video(avatar_id, speech_id)
        if not path.is_file():
            raise HTTPException(404, "there is no such video; it may have been pruned")
        return FileResponse(path, media_type="video/mp4", headers=_HEADERS)

    return app


def known_hosts(host: str) -> list[str]:
    """Names under which the server answers: this machine's own, the address it listens on, and the published one."""
    published = urlsplit(os.environ.get(VIDEO_URL_VARIABLE, "")).hostname
    return sorted({"127.0.0.1", "localhost", host, *([published] if published else [])})


@click.command()
@storage_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=VIDEO_PORT, show_default=True, help="Port to listen on.")
@click.option("--parent", type=int, default=None, help="End when this process does.")
def main(storage: Path, host: str, port: int, parent: int | None) -> None:
    """Serve the finished videos of a storage folder, read-only."""
    app = build_app(StorageLayout.at(storage), known_hosts(host))
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, server), daemon=True).start()
    server.run()


def _end_with(parent: int, server: uvicorn.Server) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    server.should_exit = True


if __name__ == "__main__":
    main()
