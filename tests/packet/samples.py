"""Small seeded packets for the tests of this folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from newsstudio_ditto.config import CropConfig
from newsstudio_ditto.maths.paste import PasteWindow
from newsstudio_ditto.packet.meta import MetaFields
from newsstudio_ditto.packet.reader import Packet
from newsstudio_ditto.packet.spec import DTYPES, META, PARTS, TENSOR_PARTS, FrameSize
from newsstudio_ditto.packet.store import AvatarStore
from newsstudio_ditto.packet.writer import PartStream, write_part

AVATAR = "anna"
GENERATION = "a1" * 32
MODEL = "c3" * 32
WINDOW = PasteWindow(top=4, left=2, height=8, width=6)
FRAME = FrameSize(height=16, width=12)
LENGTHS = {"N": 3, "C": 2, "D": 2, "Hf": 4, "Wf": 4, "h": WINDOW.height, "w": WINDOW.width, "H": 16, "W": 12}


def random_tensor(dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Values over the dtype's usual range; never all zero."""
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    high = 2 if dtype is torch.bool else 256
    return torch.randint(1 if dtype is torch.bool else 0, high, shape, generator=generator).to(dtype)


def random_part(part: str, lengths: Mapping[str, int] = LENGTHS, seed: int = 0) -> dict[str, Tensor]:
    """Every tensor of a part."""
    generator = torch.Generator().manual_seed(seed)
    shapes = PARTS[part].shapes(lengths)
    return {tensor.name: random_tensor(DTYPES[tensor.dtype], shapes[tensor.name], generator) for tensor in PARTS[part]}


def cut(tensors: Mapping[str, Tensor], rows: int) -> Iterator[dict[str, Tensor]]:
    """Chunks of ``rows`` rows."""
    num_rows = len(next(iter(tensors.values())))
    for start in range(0, num_rows, rows):
        yield {name: tensor[start : start + rows] for name, tensor in tensors.items()}


def stream_of(part: str, tensors: Mapping[str, Tensor], rows: int = 2) -> PartStream:
    """A part as a stream of chunks."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return PartStream(part, shapes, cut(tensors, rows), stage_version=f"{part}.1", extra={"made_by": "a test"})


def meta_fields(
    lengths: Mapping[str, int] = LENGTHS, *, generation: str = GENERATION, window: PasteWindow = WINDOW, seed: int = 0
) -> MetaFields:
    """What the meta stage would say of :func:`fill_bench`'s parts."""
    tensors = random_part(META.name, lengths, seed)
    matrix = torch.tensor([[0.5, 0.1, 3.0], [-0.1, 0.5, 2.0], [0.0, 0.0, 1.0]])
    tensors["crop_to_original"] = matrix.expand(lengths["N"], 3, 3).contiguous()
    return MetaFields(
        **tensors,  # type: ignore[arg-type]
        generation=generation,
        stage_version="meta.1",
        paste_window=window,
        frame_size=FrameSize(lengths["H"], lengths["W"]),
        window="tight",
        fps_rule="resampled to 25 frames a second",
        colour="sRGB, from bt709",
        crop=CropConfig(),
        source_hash="b2" * 32,
        model_fingerprint=MODEL,
        options={"max_side_px": 1920, "max_frames": None, "feather": 0.9},
    )


def fill_bench(
    store: AvatarStore,
    avatar: str = AVATAR,
    lengths: Mapping[str, int] = LENGTHS,
    *,
    generation: str = GENERATION,
    seed: int = 0,
) -> None:
    """Write the five tensor parts."""
    for part in TENSOR_PARTS:
        stream = stream_of(part, random_part(part, lengths, seed))
        write_part(store.bench(avatar), stream, generation=generation, avatar_id=avatar)


def make_packet(root: Path, avatar: str = AVATAR, lengths: Mapping[str, int] = LENGTHS, seed: int = 0) -> Packet:
    """A published packet."""
    store = AvatarStore(root)
    fill_bench(store, avatar, lengths, seed=seed)
    return store.seal(avatar, meta_fields(lengths, seed=seed))
