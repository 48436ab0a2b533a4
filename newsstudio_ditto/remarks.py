"""What somebody should know of a packet before rendering from it: how fit the face is, and what was missing."""

from collections.abc import Mapping

from newsstudio_ditto.faces.quality import FaceQuality, judge_quality
from newsstudio_ditto.packet.meta import Scalar
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.stages.face_track import FaceTrack
from newsstudio_ditto.stages.keypoints import FIT_LIMIT_PERCENT

_QUALITY = ("face_width_px", "face_yaw_deg", "face_sharpness")


def face_facts(track: FaceTrack) -> dict[str, Scalar]:
    """Scalars about the face, as ``meta.pt`` keeps them."""
    measured = track.quality
    values = (None, None, None) if measured is None else (measured.width_px, measured.yaw_deg, measured.sharpness)
    return {**dict(zip(_QUALITY, values, strict=True)), "num_faces": track.num_faces}


def fit_facts(extra: Mapping[str, object]) -> dict[str, Scalar]:
    """What the header of ``keypoints.pt`` says of how well the model fits the face, as ``meta.pt`` keeps it."""
    fit = extra.get("fit_percent")
    return {"fit_percent": fit} if isinstance(fit, float) else {}


def fit_remark(packet: Packet) -> str | None:
    """A sentence if the model's keypoints miss the face, else None."""
    fit = packet.meta.options.get("fit_percent")
    if not isinstance(fit, float) or fit <= FIT_LIMIT_PERCENT:
        return None
    return (
        f"the model's keypoints miss the face by {fit:.1f} % of the distance between the eyes "
        f"(up to {FIT_LIMIT_PERCENT} % is usual): this face is unlike those it was trained on, and may be distorted"
    )


def face_quality(options: Mapping[str, Scalar]) -> FaceQuality | None:
    """The measurements that :func:`face_facts` left in a packet's options; None where nobody measured."""
    values = [options.get(name) for name in _QUALITY]
    if not all(isinstance(value, int | float) for value in values):
        return None
    return FaceQuality(*(float(value) for value in values if value is not None))


def packet_remarks(packet: Packet) -> tuple[str, ...]:
    """Sentences about what may look wrong; empty for a packet that is fit."""
    quality = face_quality(packet.meta.options)
    remarks = [] if quality is None else judge_quality(quality)
    unfit = fit_remark(packet)
    if unfit is not None:
        remarks.append(unfit)
    num_faces = packet.meta.options.get("num_faces")
    if isinstance(num_faces, int) and num_faces > 1:
        remarks.append(f"up to {num_faces} faces in a frame; one person is followed, the others stay as they are")
    num_lost = packet.num_frames - int(packet.meta.face_valid.sum())
    if num_lost:
        remarks.append(f"no face in {num_lost} of {packet.num_frames} source frames: those stay as they are")
    return tuple(remarks)
