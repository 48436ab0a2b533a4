"""The live door: sound in, fragmented MP4 out, over one WebSocket."""

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from newsstudio_ditto.config import validate_slug
from newsstudio_ditto.daemon.daemon import Daemon, DaemonOf
from newsstudio_ditto.daemon.devices import Device
from newsstudio_ditto.daemon.live.encoder import FragmentEncoder
from newsstudio_ditto.daemon.live.motion import LiveOptions
from newsstudio_ditto.daemon.live.session import LiveReport, LiveSession
from newsstudio_ditto.daemon.live_bridge import Bridge, Message
from newsstudio_ditto.daemon.problems import UNEXPECTED, UNEXPECTED_HINT, RequestError
from newsstudio_ditto.errors import DittoError, UsageError
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.units import SAMPLE_RATE_HZ

log = logging.getLogger(__name__)
router = APIRouter()

MOST_MESSAGE_BYTES = 1 << 16
"""Two seconds of sound."""

_CLAIM_EVERY_S = 0.05

_NORMAL, _UNSUPPORTED, _TOO_BIG, _LATER = 1000, 1003, 1009, 1013


@router.websocket("/api/presenter/stream")
async def stream(socket: WebSocket, daemon: DaemonOf) -> None:
    """Sound in as binary messages of 16-bit PCM, 16 kHz, mono; fragmented MP4 out as binary messages.

    Text messages in: ``{"type": "end"}`` ends an utterance, ``{"type": "stop"}`` the session. Text messages out:
    ``ready`` with the MIME type, ``problem`` with what and hint, and ``report`` at the end.
    """
    try:
        await socket.accept()
        await _open_and_serve(socket, daemon)
    except WebSocketDisconnect as error:
        log.info("the client left before its live session began", extra={"code": error.code})


async def _open_and_serve(socket: WebSocket, daemon: Daemon) -> None:
    try:
        packet, options = await asyncio.to_thread(_open, daemon, socket)
        device = await _claim(daemon)
    except DittoError as error:
        await _refuse(socket, daemon, error)
        return
    daemon.metrics.streams.inc()
    try:
        await _serve(socket, daemon, device, packet, options)
    finally:
        daemon.metrics.streams.dec()
        device.release()


def _open(daemon: Daemon, socket: WebSocket) -> tuple[Packet, LiveOptions]:
    query = socket.query_params
    packet = AvatarStore(daemon.settings.storage.root).open(validate_slug(query.get("avatarId", "")))
    packet.expect_model(daemon.pool.devices[0].engine.bundle.fingerprint)
    names = {"overlapFrames": "overlap_frames", "numSteps": "num_steps", "seed": "seed"}
    try:
        numbers = {name: int(query[alias]) for alias, name in names.items() if alias in query}
    except ValueError as error:
        raise UsageError("overlapFrames, numSteps and seed are whole numbers", "leave them out") from error
    return packet, LiveOptions(**numbers)  # type: ignore[arg-type]


async def _claim(daemon: Daemon) -> Device:
    """An idle device; until there is one, jobs that wait stand back, for they can, and people who talk cannot."""
    deadline = time.monotonic() + daemon.settings.live_wait_s
    with daemon.pool.wanted_live():
        while True:
            try:
                return daemon.pool.claim_idle()
            except RequestError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(_CLAIM_EVERY_S)


async def _refuse(socket: WebSocket, daemon: Daemon, error: DittoError) -> None:
    problem = {"type": "problem", "what": daemon.public(error.what), "hint": daemon.public(error.hint)}
    is_busy = isinstance(error, RequestError) and error.retry_after_s is not None
    if isinstance(error, RequestError) and error.retry_after_s is not None:
        problem["retryAfterS"] = str(error.retry_after_s)
    await socket.send_text(json.dumps(problem))
    await socket.close(_LATER if is_busy else _UNSUPPORTED, error.what[:60])


async def _serve(socket: WebSocket, daemon: Daemon, device: Device, packet: Packet, options: LiveOptions) -> None:
    bridge = Bridge(asyncio.get_running_loop())
    bridge.greeting = _greeting(device, packet, options)
    session = await asyncio.to_thread(_prepare, packet, device, options, bridge)
    thread = ThreadPoolExecutor(1, f"live-{packet.avatar_id}")
    work = asyncio.get_running_loop().run_in_executor(thread, _run, session, daemon, device, packet, bridge)
    sending = asyncio.create_task(_send_all(socket, bridge))
    hearing = asyncio.create_task(_hear(socket, session[0]))
    try:
        done, _ = await asyncio.wait({sending, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if hearing in done and hearing.exception() is None and hearing.result():
            await asyncio.wait({sending})
    finally:
        bridge.close()
        hearing.cancel()
        sending.cancel()
        session[0].abandon()
        await asyncio.gather(work, sending, hearing, return_exceptions=True)
        thread.shutdown(wait=False)


Session = tuple[LiveSession, FragmentEncoder]


def _prepare(packet: Packet, device: Device, options: LiveOptions, bridge: Bridge) -> Session:
    height, width = packet.frame_size
    encoder = FragmentEncoder(width=width, height=height, on_bytes=bridge.on_bytes)
    with device.engine.busy:
        return LiveSession(packet, device.engine, encoder, options), encoder


def _run(session: Session, daemon: Daemon, device: Device, packet: Packet, bridge: Bridge) -> None:
    """The session's thread: runs until it is stopped, then says what it did."""
    live, encoder = session
    closing: Message = {"type": "problem", "what": UNEXPECTED, "hint": UNEXPECTED_HINT}
    try:
        with device.engine.busy, encoder:
            report = live.run()
        closing = {"type": "report", **_camel(report, device)}
    except DittoError as error:
        log.info("live session ended", extra={"avatar_id": packet.avatar_id, "reason": error.what})
        closing = {"type": "problem", "what": daemon.public(error.what), "hint": daemon.public(error.hint)}
    finally:
        daemon.metrics.stream_frames.labels("speech").inc(live.report.speech_frames)
        daemon.metrics.stream_frames.labels("idle").inc(live.report.idle_frames)
        bridge.finish(closing)


async def _send_all(socket: WebSocket, bridge: Bridge) -> None:
    while (message := await bridge.outbox.get()) is not None:
        if isinstance(message, bytes):
            await socket.send_bytes(message)
        else:
            await socket.send_text(json.dumps(message))
    await socket.close(_NORMAL)


async def _hear(socket: WebSocket, session: LiveSession) -> bool:
    """Take messages until a stop, which is answered with True, or until the client leaves."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return False
        if message.get("bytes") is not None:
            sound = message["bytes"]
            if len(sound) > MOST_MESSAGE_BYTES or len(sound) % 2:
                await socket.close(_TOO_BIG, "send at most 64 KiB of whole 16-bit samples")
                return False
            await asyncio.to_thread(session.push, sound)
            continue
        order = _order(message.get("text") or "")
        if order == "end":
            await asyncio.to_thread(session.end_utterance)
        elif order == "stop":
            await asyncio.to_thread(session.stop)
            return True
        else:
            await socket.close(_UNSUPPORTED, "text messages are end or stop")
            return False


def _order(text: str) -> str:
    try:
        order = json.loads(text[:200])
    except ValueError:
        return ""
    return str(order.get("type", "")) if isinstance(order, dict) else ""


def _greeting(device: Device, packet: Packet, options: LiveOptions) -> dict[str, Any]:
    height, width = packet.frame_size
    slow = device.is_slower_than_real_time
    notice = (
        f"{device.name} renders {device.fps:.1f} frames a second: slower than real time, so the picture will lag"
        if slow
        else ""
    )
    return {
        "width": width,
        "height": height,
        "sampleRateHz": SAMPLE_RATE_HZ,
        "lookAheadMs": options.look_ahead_ms,
        "device": device.name,
        "deviceFps": device.fps,
        "slowerThanRealTime": slow,
        "notice": notice,
    }


def _camel(report: LiveReport, device: Device) -> dict[str, Any]:
    factor = report.real_time_factor
    plain = asdict(report)
    return {
        "utterances": report.utterances,
        "speechFrames": report.speech_frames,
        "idleFrames": report.idle_frames,
        "speechSeconds": report.speech_seconds,
        "busySeconds": report.busy_seconds,
        "firstFrameLatencyMs": plain["first_frame_ms"],
        "lookAheadMs": report.look_ahead_ms,
        "realTimeFactor": factor,
        "slowerThanRealTime": factor is not None and factor < 1.0,
        "device": device.name,
    }
