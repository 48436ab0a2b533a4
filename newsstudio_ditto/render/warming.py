"""Making engines ready for a render, with the time that each part of it takes."""

from newsstudio_ditto.config import RenderOptions
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.render.clock import StageClock
from newsstudio_ditto.render.devices import choose_devices
from newsstudio_ditto.render.engine import Engine, warm_bundle, warm_engine
from newsstudio_ditto.render.speech_plan import warm_up_motion


def open_engines(model: str, packet: Packet, options: RenderOptions, clock: StageClock) -> list[Engine]:
    """The process's own engines of a model, one for each device that the options name, loaded and captured.

    Args:
        model: name or folder of the bundle.
        packet: that has to be made for it.
        options: device and whether to capture.
        clock: counts ``load`` and ``warm_up``.

    Raises:
        BundleError: there is no such bundle, or it is damaged.
        PacketModelError: the packet was made for another one.
        DeviceError: a device is not there.
    """
    engines = []
    for device in choose_devices(options.device):
        with clock.stage("load"):
            bundle = warm_bundle(model, device)
            packet.expect_model(bundle.fingerprint)  # before anything is loaded or captured
            _ = bundle.warp, bundle.decoder
        with clock.stage("warm_up"):
            engines.append(warm_engine(bundle, device, eager=options.eager))
    return engines


def warm_up(engines: list[Engine], options: RenderOptions, *, has_motion: bool, clock: StageClock) -> None:
    """Load and capture what is not yet; an engine that is warm loses no time here.

    Args:
        engines: that will render; the caller holds ``busy`` of each.
        options: batch size, steps and guidance.
        has_motion: the motion is made already, so that its networks are not needed.
        clock: counts ``load`` and ``warm_up``.
    """
    first = engines[0]
    with clock.stage("load"):
        _ = first.bundle.stitching
        if not has_motion:
            _ = first.bundle.motion_diffusion, first.bundle.audio_encoder
    with clock.stage("warm_up"):
        for engine in engines:
            if options.batch_size is not None:
                engine.include_batch_size(options.batch_size)
            engine.warm_up()
        if not has_motion:
            warm_up_motion(first, options.sampling)
