"""The source's own motion, as the packet keeps it."""

from newsstudio_ditto.maths.motion_vector import MotionSequence
from newsstudio_ditto.packet.reader import Packet


def source_motion(packet: Packet) -> MotionSequence:
    """Smoothed motion of the N source frames, canonical keypoints included; views of the mapped file."""
    parts = packet.keypoints
    return MotionSequence(
        scale=parts["scale"],
        pitch=parts["pitch"],
        yaw=parts["yaw"],
        roll=parts["roll"],
        translation=parts["t"],
        expression=parts["exp"],
        canonical=parts["kp"].flatten(1),
    )
