from dataclasses import replace

import pytest

from newsstudio_ditto.faces.quality import FaceQuality
from newsstudio_ditto.packet.meta import Scalar
from newsstudio_ditto.preparation import PacketBuild
from newsstudio_ditto.remarks import face_facts, face_quality, packet_remarks


def remarks(build: PacketBuild, **facts: Scalar) -> tuple[str, ...]:
    """Remarks on a packet in which some facts are others."""
    packet = build.packet
    meta = replace(packet.meta, options={**packet.meta.options, **facts})
    return packet_remarks(replace(packet, meta=meta))


def test_a_packet_keeps_what_was_measured(build: PacketBuild) -> None:
    quality = face_quality(build.packet.meta.options)
    assert quality is not None
    assert quality.width_px > 96
    assert abs(quality.yaw_deg) < 15


def test_a_gap_is_remarked_and_a_fit_face_is_not(build: PacketBuild) -> None:
    assert build.warnings == ("no face in 1 of 3 source frames: those stay as they are",)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"face_width_px": 50.0}, "only 50 px wide"),
        ({"face_yaw_deg": -40.0}, "turned by 40 degrees"),
        ({"face_sharpness": 0.01}, "blurred"),
        ({"num_faces": 3}, "up to 3 faces"),
    ],
)
def test_each_flaw_has_its_words(build: PacketBuild, facts: dict[str, Scalar], words: str) -> None:
    assert any(words in remark for remark in remarks(build, **facts))
    assert len(remarks(build, **facts)) == 2


def test_what_nobody_measured_is_not_judged(build: PacketBuild) -> None:
    assert remarks(build, face_width_px=None, num_faces=None) == build.warnings
    assert face_quality({}) is None


def test_facts_and_quality_are_each_others_inverse() -> None:
    class Track:
        quality = FaceQuality(120.0, -3.0, 0.2)
        num_faces = 2

    facts = face_facts(Track())  # type: ignore[arg-type]
    assert face_quality(facts) == Track.quality
    assert facts["num_faces"] == 2
