"""Looking at packet files without making anything: what Dagster's asset checks ask."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.media.decode import decode_frames
from newsstudio_ditto.packet.part_file import is_finite
from newsstudio_ditto.packet.reader import Part
from newsstudio_ditto.packet.spec import FRAME_AXIS, PARTS
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.verify import DEFAULT_TOLERANCE, check_bytes
from newsstudio_ditto.preparation import open_bench_part, open_track, require_sealed
from newsstudio_ditto.storage import StorageLayout

OPENING_BUDGET_S = 0.25
LEAST_COVERAGE = 0.5
PARITY_FRAMES = 50
MOST_RING_ALPHA = 64
"""A quarter: the first step of the feathering can lie on the outermost row, full weight there is a hard edge."""

_CHUNK_BYTES = 32 * 2**20
_RANGES = {
    "kp": (-10.0, 10.0),
    "x_s": (-20.0, 20.0),
    "t": (-10.0, 10.0),
    "exp": (-10.0, 10.0),
    "scale": (-10.0, 10.0),
    "eye_open": (0.0, 3.0),
    "grids": (-1e4, 1e4),
}
"""Wide: what lies outside is damage, or a network that was fed something else than a face."""


@dataclass(frozen=True)
class Finding:
    """What a look at one step's result found.

    Args:
        generation: that the file carries; empty if it cannot be read.
        faults: sentences; empty if all is well.
        measured: numbers worth showing.
    """

    generation: str
    faults: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)


Look = Callable[[StorageLayout, str], Finding]


@dataclass(frozen=True)
class StepCheck:
    """One check of one step's result.

    Args:
        step: step of the preparation.
        name: of the check.
        description: what it asks.
        look: called with layout and avatar id; a :class:`DittoError` counts as a fault.
        is_warning: whether a fault only warns.
    """

    step: str
    name: str
    description: str
    look: Look
    is_warning: bool = False

    def run(self, layout: StorageLayout, avatar_id: str) -> Finding:
        """Look, and turn errors into faults."""
        try:
            return self.look(layout, avatar_id)
        except DittoError as error:
            return Finding("", [str(error)])


def _open(layout: StorageLayout, avatar_id: str, part: str) -> Part:
    """A part on the bench; the sixth file exists only in the published packet."""
    store = AvatarStore(layout.root)
    return store.open(avatar_id).parts[part] if part == "meta" else open_bench_part(store, avatar_id, part)


def _matches_spec(part: str) -> Look:
    def look(layout: StorageLayout, avatar_id: str) -> Finding:
        store = AvatarStore(layout.root)
        found = _open(layout, avatar_id, part)
        if part == "meta":
            packet = store.open(avatar_id)
            require_sealed(store, avatar_id, packet)
            return Finding(packet.generation)
        return Finding(found.header.generation, compare_with_frames(store, avatar_id, found))

    return look


def compare_with_frames(store: AvatarStore, avatar_id: str, found: Part) -> list[str]:
    """Compare a part with the frames and the track: generation, number of frames, paste window.

    Raises:
        PacketFormatError: a shape contradicts them.
    """
    frames = open_bench_part(store, avatar_id, "frames")
    faults = []
    if found.header.generation != frames.header.generation:
        faults.append(
            f"{found.path.name} is of generation {found.header.generation[:12]}, "
            f"frames.pt of {frames.header.generation[:12]}"
        )
    known = {FRAME_AXIS: frames.header.num_frames}
    name = found.header.part
    if name in ("grids", "masks"):
        window = open_track(store, avatar_id).window
        known |= {"h": window.height, "w": window.width}
    PARTS[name].bind(found.shapes, str(found.path), known)
    return faults


def _intact(part: str) -> Look:
    def look(layout: StorageLayout, avatar_id: str) -> Finding:
        found = _open(layout, avatar_id, part)
        return Finding(found.header.generation, [str(fault) for fault in check_bytes(found)])

    return look


def _in_range(part: str) -> Look:
    def look(layout: StorageLayout, avatar_id: str) -> Finding:
        found = _open(layout, avatar_id, part)
        faults = [fault for name, tensor in found.tensors.items() for fault in _range_faults(name, tensor)]
        return Finding(found.header.generation, faults)

    return look


def _range_faults(name: str, tensor: Tensor) -> list[str]:
    low, high = _RANGES.get(name, (None, None))
    length = max(1, _CHUNK_BYTES // max(1, tensor[0].nbytes))
    for start in range(0, len(tensor), length):
        rows = tensor[start : start + length]
        if not is_finite(rows):
            return [f"{name}: expected finite values, got NaN or infinity from row {start} on"]
        if low is not None and high is not None:
            least, most = (float(value) for value in torch.aminmax(rows))
            if least < low or most > high:
                return [f"{name}: expected {low:g} to {high:g}, got {least:g} to {most:g} from row {start} on"]
    if name == "f_s" and not bool((tensor[0] != tensor[0].reshape(-1)[0]).any()):
        return [f"{name}: row 0 holds a single value throughout"]
    return []


def _shows_the_source(layout: StorageLayout, avatar_id: str) -> Finding:
    stored, options = _open(layout, avatar_id, "frames"), layout.recipe(avatar_id).options
    fresh = decode_frames(layout.anchor(avatar_id), max_side_px=options.max_side_px, max_frames=options.max_frames)
    frames, worst = stored.tensors["frames"], 0
    count = 0
    for image in islice(fresh.frames, min(PARITY_FRAMES, len(frames))):
        kept = frames[count].numpy()
        if kept.shape != (3, *image.shape[:2]):
            return Finding(stored.header.generation, [f"frame {count}: {kept.shape} against {image.shape}"])
        worst = max(worst, int(np.abs(kept.astype(np.int16) - np.moveaxis(image, -1, 0)).max()))
        count += 1
    faults = [] if count else ["the clip has no frame"]
    if worst > DEFAULT_TOLERANCE:
        faults.append(f"the first {count} frames differ from the clip by up to {worst} of 255")
    return Finding(stored.header.generation, faults, {"frames_compared": count, "largest_difference": worst})


def _sees_the_face(layout: StorageLayout, avatar_id: str) -> Finding:
    track = open_track(AvatarStore(layout.root), avatar_id)
    coverage = float(track.valid.mean())
    faults = [] if coverage >= LEAST_COVERAGE else [f"a face in {coverage:.0%} of the frames, at least half are needed"]
    return Finding(track.generation, faults, {"coverage": round(coverage, 4)})


def _fades_out(layout: StorageLayout, avatar_id: str) -> Finding:
    """The ring around the paste window, except where it is the edge of the picture."""
    found, window = _open(layout, avatar_id, "masks"), open_track(AvatarStore(layout.root), avatar_id).window
    height, width = _open(layout, avatar_id, "frames").tensors["frames"].shape[-2:]
    masks = found.tensors["masks"][:, 0]
    edges = {
        "top": (window.top > 0, masks[:, 0]),
        "bottom": (window.top + window.height < height, masks[:, -1]),
        "left": (window.left > 0, masks[..., 0]),
        "right": (window.left + window.width < width, masks[..., -1]),
    }
    alphas = {name: int(edge.amax()) for name, (is_inside, edge) in edges.items() if is_inside}
    faults = [
        f"the mask has alpha {alpha} of 255 at the {name} of the paste window, which would show as a seam"
        for name, alpha in alphas.items()
        if alpha > MOST_RING_ALPHA
    ]
    return Finding(found.header.generation, faults, {"largest_alpha_on_the_ring": max(alphas.values(), default=0)})


def _opens_fast(layout: StorageLayout, avatar_id: str) -> Finding:
    started = time.perf_counter()
    packet = AvatarStore(layout.root).open(avatar_id)
    seconds = time.perf_counter() - started
    faults = [] if seconds <= OPENING_BUDGET_S else [f"opening took {seconds:.3f} s, {OPENING_BUDGET_S} s are expected"]
    return Finding(packet.generation, faults, {"seconds": round(seconds, 4)})


def _part_checks(part: str) -> list[StepCheck]:
    described = "; ".join(f"{tensor.name} is {tensor}" for tensor in PARTS[part])
    return [
        StepCheck(
            part,
            "matches_spec",
            f"{described}. As many frames as packet/frames, of the same generation.",
            _matches_spec(part),
        ),
        StepCheck(part, "intact", "The bytes on disk have the checksums that were recorded.", _intact(part)),
        StepCheck(part, "in_range", "Values are finite and in a plausible range.", _in_range(part)),
    ]


STEP_CHECKS = (
    *(check for part in PARTS for check in _part_checks(part)),
    StepCheck("frames", "shows_the_source", "The first frames equal the clip, decoded again.", _shows_the_source),
    StepCheck("face_track", "sees_the_face", "At least half of the frames show the face.", _sees_the_face),
    StepCheck("masks", "fades_out", "No weight is left where the paste window ends: no seam.", _fades_out),
    StepCheck("meta", "opens_fast", f"The packet opens within {OPENING_BUDGET_S} s.", _opens_fast, is_warning=True),
)
