"""One picture and one speech through every stage at full width, against the reference's numbers."""

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from newsstudio_ditto.config import SamplingOptions
from newsstudio_ditto.controls import ControlOptions
from newsstudio_ditto.maths import paste as plane
from newsstudio_ditto.maths.audio_windows import cut_windows, merge_rows
from newsstudio_ditto.maths.clips import generate_motion
from newsstudio_ditto.maths.conditions import Conditioning, condition_rows, emotion_rows
from newsstudio_ditto.maths.crop import anchors_203, crop_transform, halve_image
from newsstudio_ditto.maths.diffusion import ddim_schedule
from newsstudio_ditto.maths.eyes import eye_ball_direction, eye_openness
from newsstudio_ditto.maths.feather import feather_mask
from newsstudio_ditto.maths.motion_stitch import StitchedMotion
from newsstudio_ditto.maths.motion_vector import EXPRESSION_START, MotionSequence, pack_motion
from newsstudio_ditto.networks.appearance import AppearanceExtractor
from newsstudio_ditto.networks.config import OFFICIAL
from newsstudio_ditto.networks.decoder import SpadeDecoder
from newsstudio_ditto.networks.layers import FixedBuffers
from newsstudio_ditto.networks.motion_diffusion import MotionDenoiser
from newsstudio_ditto.networks.motion_extractor import MotionExtractor
from newsstudio_ditto.networks.release_defaults import DefaultTables, ReleaseDefaults
from newsstudio_ditto.networks.stitching import StitchingNetwork
from newsstudio_ditto.networks.warp import WarpingNetwork
from newsstudio_ditto.render.control_plan import plan_controls
from newsstudio_ditto.render.motion import clip_options
from newsstudio_ditto.render.paste import paste_back
from newsstudio_ditto.render.prestitch import prestitch, stitch_options
from newsstudio_ditto.render.window_sampler import GuidedStep, WindowSampler
from newsstudio_ditto.units import CROP_SIZE_PX
from tests import tolerances
from tests.golden_comparison import assert_golden
from tests.golden_rules import Arrays, N, f32, load_golden
from tests.networks.golden_checks import load_rule_weights

pytestmark = pytest.mark.slow

NUM_SAMPLES, NUM_FRAMES, NUM_STEPS = 48123, 76, 10
RENDERED = (0, 12, 75)
FADE_IN_S = 0.08
SETTINGS = OFFICIAL.networks


def ruled(network: type[nn.Module], settings: object, manifest: str, name: str) -> nn.Module:
    with torch.device("meta"):
        module = network(settings)
    load_rule_weights(module, manifest, name)
    for part in module.modules():
        if isinstance(part, FixedBuffers):
            part.restore_fixed_buffers(torch.device("cpu"))
    return module


def tensor(name: str, shape: tuple[int, ...], scale: float = 1.0) -> Tensor:
    return torch.from_numpy(f32(scale * N(name, shape)))


def bounds() -> Tensor:
    spans = ((1, -0.05, 0.3), (198, -3.0, 3.0), (3, -0.05, 0.05), (63, -0.08, 0.08))
    low = torch.cat([torch.full((width,), at) for width, at, _ in spans])
    return torch.stack([low, torch.cat([torch.full((width,), at) for width, _, at in spans])])


CONFIG = replace(
    OFFICIAL,
    defaults=ReleaseDefaults(
        reset_every=1,
        carried_dims=(0, EXPRESSION_START),
        fade_to="first",
        pitch_deg=2.0,
        blink_spacing_frames=(30,),
        tables=DefaultTables(motion_limits=bounds(), blink_offsets=tensor("ms/delta_eye", (15, 63), 0.02)),
    ),
)
"""The settings of the golden run, as a converted bundle keeps them."""


@dataclass
class RuleNoise:
    steps: Tensor = field(
        default_factory=lambda: torch.cat([tensor(f"e2e/noise/{i}", (1, 80, 265)) for i in range(NUM_STEPS - 1)])
    )
    num_started: int = 0

    def start(self) -> Tensor:
        self.num_started += 1
        return tensor(f"e2e/x_T/{self.num_started - 1}", (80, 265))


@dataclass
class Chain:
    """Everything that the stages hand on."""

    frame: np.ndarray
    original_to_crop: np.ndarray
    crop_to_original: np.ndarray
    picture: Tensor
    volume: Tensor
    source: MotionSequence
    conditions: Tensor
    windows: list[tuple[Tensor, Tensor]]
    motion: Tensor
    posed: StitchedMotion


def stand_in_encoder(windows: Tensor) -> Tensor:
    k, c = np.arange(1, 401)[:, None], np.arange(1, 1025)[None]
    basis = np.sin(0.001 * k * c)
    rows = windows.numpy().astype(np.float64)
    taps = np.stack([rows[:, 320 * r : 320 * r + 400] for r in range(20)], axis=1)
    return torch.from_numpy(f32(taps @ basis / 20))


def sample(conditions: Tensor, source: MotionSequence) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    denoiser = ruled(MotionDenoiser, SETTINGS.motion_diffusion, "lmdm", "lmdm")
    assert isinstance(denoiser, MotionDenoiser)
    guided = GuidedStep(denoiser, is_graphed=False)
    sampler = WindowSampler(guided, ddim_schedule(NUM_STEPS), 2.0, RuleNoise())
    windows = []

    def recording(first_frame: Tensor, rows: Tensor) -> Tensor:
        predicted = sampler(first_frame, rows)
        windows.append((first_frame, predicted))
        return predicted

    options = clip_options(SamplingOptions(), CONFIG)
    return generate_motion(conditions, pack_motion(source)[0], recording, options), windows


def pose(source: MotionSequence, motion: Tensor) -> StitchedMotion:
    stitching = ruled(StitchingNetwork, SETTINGS.stitching, "stitching_network", "stitch")
    assert isinstance(stitching, StitchingNetwork)
    plan = plan_controls(ControlOptions(fade_in_s=FADE_IN_S), stitch_options(CONFIG), CONFIG, source, len(motion))
    return prestitch(source, motion, plan.options, stitching, plan.frames)


@pytest.fixture(scope="module")
def golden() -> Arrays:
    return load_golden("e2e/e2e")[0]


@pytest.fixture(scope="module")
def chain() -> Chain:
    prepost, _ = load_golden("prepost/prepost")
    frame = prepost["frame/a"]
    transform = crop_transform(*anchors_203(prepost["crop/203_17/pts"]), size_px=CROP_SIZE_PX, crop=OFFICIAL.crop)
    crop = cv2.warpAffine(frame, transform.original_to_crop[:2], (CROP_SIZE_PX, CROP_SIZE_PX), flags=cv2.INTER_LINEAR)
    picture = torch.from_numpy(halve_image(crop)).permute(2, 0, 1)[None].float() / 255
    with torch.no_grad():
        volume = ruled(AppearanceExtractor, SETTINGS.appearance, "appearance_feature_extractor", "appearance")(picture)
        heads = ruled(MotionExtractor, SETTINGS.motion_extractor, "motion_extractor", "motion")(picture)
    source = MotionSequence(
        heads.scale, heads.pitch, heads.yaw, heads.roll, heads.translation, heads.expression, heads.canonical
    )
    speech = tensor(f"audio/{NUM_SAMPLES}", (NUM_SAMPLES,), 0.1)
    features = merge_rows(stand_in_encoder(cut_windows(speech)), NUM_FRAMES)
    landmarks = prepost["eye/lmk478"][:1]
    conditioning = Conditioning(
        emotion=emotion_rows(4),
        eye_open=torch.from_numpy(eye_openness(landmarks)),
        eye_ball=torch.from_numpy(eye_ball_direction(landmarks)),
        identity=heads.canonical[0],
    )
    conditions = condition_rows(features, conditioning)
    motion, windows = sample(conditions, source)
    posed = pose(source, motion)
    return Chain(
        frame=frame,
        original_to_crop=transform.original_to_crop,
        crop_to_original=transform.crop_to_original,
        picture=picture,
        volume=volume,
        source=source,
        conditions=conditions,
        windows=windows,
        motion=motion,
        posed=posed,
    )


def coarse_grid(crop_to_original: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Grid of a whole frame with coordinates rounded to 1/32 pixel, as OpenCV 4 warped for the reference."""
    x, y = np.arange(size[1])[None], np.arange(size[0])[:, None]
    rows = [
        (np.rint((row[1] * y + row[2]) * 1024).astype(int) + 16 + np.rint(row[0] * x * 1024).astype(int)) >> 5
        for row in np.linalg.inv(crop_to_original.astype(np.float64))[:2]
    ]
    return f32((2 * np.stack(rows, axis=-1) / 32 + 1) / CROP_SIZE_PX - 1)


def assert_near(golden: Arrays, name: str, actual: Tensor | np.ndarray, tolerance: float) -> None:
    assert_golden("end to end", name, actual, golden[name], tolerance)


def test_source_crop_volume_and_keypoints(chain: Chain, golden: Arrays) -> None:
    assert_near(golden, "M_c2o", chain.crop_to_original, tolerances.CROP)
    assert_near(golden, "img256_sub", chain.picture[:, :, ::4, ::4], tolerances.END_TO_END_PICTURE)
    assert_near(golden, "f_s_sub", chain.volume[:, ::2, ::2, ::4, ::4], tolerances.END_TO_END_SOURCE)
    names = {"scale": "scale", "t": "translation", "exp": "expression", "kp": "canonical", "pitch": "pitch"}
    names |= {"yaw": "yaw", "roll": "roll"}
    for stored, own in names.items():
        assert_near(golden, f"x_s_info/{stored}", getattr(chain.source, own), tolerances.END_TO_END_SOURCE)


def test_condition_rows(chain: Chain, golden: Arrays) -> None:
    assert_near(golden, "cond_sub", chain.conditions[:, ::8], tolerances.END_TO_END_CONDITIONS)
    assert_near(golden, "cond_tail", chain.conditions[:, -79:], tolerances.END_TO_END_CONDITIONS)


def test_windows_and_motion(chain: Chain, golden: Arrays) -> None:
    assert len(chain.windows) == 2
    for i, (first_frame, predicted) in enumerate(chain.windows):
        assert_near(golden, f"clip{i}/kp_cond", first_frame[None], tolerances.END_TO_END_KEYPOINTS)
        assert_near(golden, f"clip{i}/pred", predicted[None, ::2, ::2], tolerances.END_TO_END_KEYPOINTS)
    assert_near(golden, "res_kp_seq", chain.motion, tolerances.END_TO_END_KEYPOINTS)


def test_keypoints_of_every_frame(chain: Chain, golden: Arrays) -> None:
    assert_near(golden, "x_s", chain.posed.source_keypoints[0], tolerances.END_TO_END_KEYPOINTS)
    assert_near(golden, "x_d", chain.posed.driving_keypoints, tolerances.END_TO_END_KEYPOINTS)


def test_rendered_and_pasted_frames(chain: Chain, golden: Arrays) -> None:
    warp = ruled(WarpingNetwork, SETTINGS.warp, "warping_network", "warp")
    decoder = ruled(SpadeDecoder, SETTINGS.decoder, "spade_decoder", "decoder")
    window = plane.full_window(chain.frame.shape[:2])
    grid = coarse_grid(golden["M_c2o"], chain.frame.shape[:2])
    alpha = plane.warped_alpha(grid, feather_mask(CROP_SIZE_PX, CROP_SIZE_PX))
    background = torch.from_numpy(chain.frame).permute(2, 0, 1)[None]
    for i in RENDERED:
        with torch.no_grad():
            keypoints = chain.posed.source_keypoints[i : i + 1], chain.posed.driving_keypoints[i : i + 1]
            feature = warp(chain.volume, *keypoints)
            image = decoder(feature)
        assert_near(golden, f"frame{i}/warp_sub", feature[:, ::4, ::4, ::4], tolerances.END_TO_END_IMAGE)
        assert_near(golden, f"frame{i}/image_sub", image[:, :, ::4, ::4], tolerances.END_TO_END_IMAGE)
        pasted = paste_back(
            background,
            image,
            torch.from_numpy(grid)[None],
            torch.from_numpy(alpha)[None],
            torch.tensor([True]),
            window,
        )
        name = f"frame{i}/result_u8_sub"
        found, expected = pasted[0, :, ::2, ::2].permute(1, 2, 0).numpy().astype(int), golden[name].astype(int)
        assert_golden("end to end, uint8", name, found, expected, tolerances.END_TO_END_UINT8)
        assert np.abs(found - expected).mean() < 0.2
