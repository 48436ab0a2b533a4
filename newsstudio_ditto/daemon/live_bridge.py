"""Between the thread of a live session and the event loop of the server."""

import asyncio
import logging
from concurrent.futures import CancelledError
from typing import Any

from newsstudio_ditto.daemon.live.encoder import codecs_of
from newsstudio_ditto.errors import UsageError

log = logging.getLogger(__name__)

Message = bytes | dict[str, Any]

_OUTBOX = 32
_LOOK_UP_S = 0.5


class Bridge:
    """Hands what the session's thread makes to the event loop, no faster than the client reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing has been sent yet."""
        self._loop = loop
        self.outbox: asyncio.Queue[Message | None] = asyncio.Queue(_OUTBOX)
        self._start: bytearray | None = bytearray()
        self._is_closed = False
        self.greeting: dict[str, Any] = {}

    def close(self) -> None:
        """Nobody reads any more."""
        self._is_closed = True

    def send(self, message: Message | None) -> None:
        """Queue a message from another thread; waits while the client is slow."""
        if self._is_closed:
            raise UsageError("the client has left")
        future = asyncio.run_coroutine_threadsafe(self.outbox.put(message), self._loop)
        while True:
            try:
                future.result(timeout=_LOOK_UP_S)
            except TimeoutError:
                if self._is_closed:
                    future.cancel()
                    raise UsageError("the client has left") from None
                continue
            except CancelledError:
                raise UsageError("the client has left") from None
            return

    def finish(self, closing: Message) -> None:
        """Send the last message, if somebody still reads."""
        try:
            self.send(closing)
            self.send(None)
        except UsageError as error:
            log.info("nobody reads the end of a live session", extra={"reason": error.what})

    def on_bytes(self, piece: bytes) -> None:
        """Take a piece of the file; the greeting, which names its codecs, goes before the first."""
        if self._start is None:
            self.send(piece)
            return
        self._start += piece
        codecs = codecs_of(bytes(self._start))
        if codecs is not None:
            self.send({**self.greeting, "type": "ready", "mime": f'video/mp4; codecs="{codecs}"'})
            start, self._start = bytes(self._start), None
            self.send(start)
