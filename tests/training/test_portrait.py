"""``mini`` on a photograph of a person, which nothing in its training resembles: soft is allowed, broken is not.

The portrait is NASA's of Eileen Collins, in the public domain; it serves as a test and nothing else.
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from newsstudio_ditto.config import PacketOptions
from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.networks.bundle import ModelBundle, load_bundle
from newsstudio_ditto.stages.crops import crop_face, to_network_input
from newsstudio_ditto.stages.face_track import track_face
from newsstudio_ditto.stages.keypoints import FIT_LIMIT_PERCENT, stream_keypoints
from training.head_model import expression_offsets, head_pack

PORTRAIT = Path(__file__).parents[1] / "media_files" / "astronaut.jpg"
UPPER_LIDS, LOWER_LIDS = [9, 11], [10, 12]


@dataclass(frozen=True)
class Face:
    """Landmarks (478, 2) in pixels of the crop."""

    points: np.ndarray

    def distance(self, first: int, second: int) -> float:
        """Over the distance between the outer corners of the eyes."""
        eyes = np.linalg.norm(self.points[33] - self.points[263])
        return float(np.linalg.norm(self.points[first] - self.points[second]) / eyes)

    @property
    def mouth(self) -> float:
        return self.distance(13, 14)

    @property
    def eyes(self) -> float:
        return (self.distance(159, 145) + self.distance(386, 374)) / 2


class Portrait:
    """The photograph, read once, and drawn anew with keypoints moved."""

    def __init__(self, bundle: ModelBundle, *, stretched: float = 1.0) -> None:
        self.bundle, self.finder = bundle, FaceFinder(num_threads=1)
        picture = cv2.cvtColor(cv2.imread(str(PORTRAIT)), cv2.COLOR_BGR2RGB)
        picture = cv2.resize(picture, (round(picture.shape[1] * stretched / 2) * 2, picture.shape[0]))
        frames = torch.from_numpy(picture).permute(2, 0, 1)[None].contiguous()
        options = PacketOptions()
        track = track_face(frames, options, bundle.config.crop, "generation", finder=self.finder)
        size = (512, 512)
        self.crop = cv2.warpAffine(picture, track.original_to_crop[0, :2].astype(np.float64), size)
        part = stream_keypoints(frames, track, bundle, options)
        self.keypoints: Tensor = torch.cat([chunk["x_s"] for chunk in part.chunks])
        self.fit_percent = part.extra["fit_percent"]
        small = torch.from_numpy(
            crop_face(frames[0].numpy(), track.original_to_crop[0], bundle.config.networks.appearance.input_px)
        )[None]
        with torch.no_grad():
            self.volume = bundle.appearance(to_network_input(small, bundle.appearance))

    @torch.no_grad()
    def draw(self, offsets: Tensor | float = 0.0) -> np.ndarray:
        """The face with its keypoints moved by offsets (21, 3): (512, 512, 3) uint8."""
        feature = self.bundle.warp(self.volume, self.keypoints, self.keypoints + offsets)
        return np.ascontiguousarray((self.bundle.decoder(feature)[0] * 255).byte().permute(1, 2, 0).numpy())

    def see(self, picture: np.ndarray) -> Face:
        """The one face in a picture."""
        (face,) = self.finder.observe(picture)
        return Face(face.landmarks[:, :2])


@pytest.fixture(scope="module")
def portrait() -> Portrait:
    return Portrait(load_bundle("mini"))


def jaw_open(weight: float) -> Tensor:
    pack = head_pack()
    return torch.from_numpy(expression_offsets(pack.unit_weights({"jawOpen": weight})[None], pack))[0]


def test_the_person_stays_recognisable(portrait: Portrait) -> None:
    drawn = portrait.draw()
    mine, wanted = portrait.see(drawn), portrait.see(portrait.crop)
    eyes = np.linalg.norm(wanted.points[33] - wanted.points[263])
    assert np.linalg.norm(mine.points - wanted.points, axis=1).mean() / eyes < 0.01
    small = [cv2.resize(x, (64, 64), interpolation=cv2.INTER_AREA).astype(float) for x in (drawn, portrait.crop)]
    assert np.corrcoef(small[0].ravel(), small[1].ravel())[0, 1] > 0.99


def test_the_jaw_follows(portrait: Portrait) -> None:
    gaps = [portrait.see(portrait.draw(jaw_open(weight))).mouth for weight in (0.0, 0.25, 0.5)]
    assert gaps[0] + 0.03 < gaps[1] < gaps[2] - 0.03


def test_the_eyes_close(portrait: Portrait) -> None:
    lids = torch.zeros(21, 3)
    lids[UPPER_LIDS] = (portrait.keypoints[0, LOWER_LIDS] - portrait.keypoints[0, UPPER_LIDS]) * 0.95
    assert portrait.see(portrait.draw(lids)).eyes < 0.6 * portrait.see(portrait.draw()).eyes


def test_the_model_fits_the_photograph_and_not_the_same_face_pulled_wide(
    portrait: Portrait, caplog: pytest.LogCaptureFixture
) -> None:
    assert portrait.fit_percent < FIT_LIMIT_PERCENT * 0.7
    assert "miss the face" not in caplog.text
    assert Portrait(portrait.bundle, stretched=1.8).fit_percent > FIT_LIMIT_PERCENT
    assert "miss the face" in caplog.text
