"""Writing one packet file from a stream of chunks, in memory that does not grow with the number of frames."""

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from torch import Tensor

from newsstudio_ditto.config import validate_slug
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.packet.files import atomic_file, require_space
from newsstudio_ditto.packet.part_file import PartFile
from newsstudio_ditto.packet.plain_pickle import TensorRef
from newsstudio_ditto.packet.spec import (
    DTYPES,
    FORMAT_NAME,
    FRAME_AXIS,
    PACKET_VERSION,
    PART_NAMES,
    Shape,
    part_spec,
)

log = logging.getLogger(__name__)

# Header, directory and end records of one file; a few kilobytes in practice.
_OVERHEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class PartStream:
    """One packet file to be: what it will hold, and the chunks that fill it.

    Args:
        part: name of the part, a key of ``PARTS``.
        shapes: final shape of every tensor of the part.
        chunks: dicts with every tensor of the part, the same number of rows (source frames) in each. Together they give
            exactly the N rows announced. A generator is closed when writing ends, also when it fails.
        stage_version: version of the stage that makes the content.
        extra: plain values to keep in the header.
    """

    part: str
    shapes: Mapping[str, Shape]
    chunks: Iterable[Mapping[str, Tensor]]
    stage_version: str
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class PartRecord:
    """What a written packet file is.

    Args:
        path: the file.
        bytes: its size.
        shapes: shape by tensor name.
        dtypes: dtype name by tensor name.
        checksums: sha256 of the bytes of each tensor, hex.
        generation: fingerprint of source, options and model.
        stage_version: version of the stage that made it.
        seconds: time that making and writing took; 0 for a record read back.
    """

    path: Path
    bytes: int
    shapes: dict[str, Shape]
    dtypes: dict[str, str]
    checksums: dict[str, str]
    generation: str
    stage_version: str
    seconds: float = 0.0

    @property
    def sha256(self) -> str:
        """One digest of the content: the sha256 over the lines ``name dtype shape sha256`` of its tensors."""
        lines = (f"{name} {self.dtypes[name]} {shape} {self.checksums[name]}\n" for name, shape in self.shapes.items())
        return sha256("".join(lines).encode()).hexdigest()


def write_part(folder: Path, stream: PartStream, *, generation: str, avatar_id: str) -> PartRecord:
    """Write ``{folder}/{part}.pt`` from chunks: beside, flushed, then renamed over an older one.

    Memory: one chunk, whatever N is. On any failure, also one raised by the chunks, nothing is left behind and an older
    file stays as it was.

    Args:
        folder: where the file goes; made if need be.
        stream: shapes and chunks.
        generation: fingerprint of source, options and model.
        avatar_id: who the packet is of.

    Raises:
        PacketFormatError: chunks that are not what the spec and the stream announce: another dtype, shape or number of
            rows, or values that are not finite.
        PacketError: the disk has too little room, which is found before the first chunk is asked for.
        UsageError: ``avatar_id`` is not a slug, or ``generation`` is empty.
    """
    started = time.perf_counter()
    validate_slug(avatar_id)
    if not generation:
        raise UsageError(
            "the generation of a packet file is empty", "pass the fingerprint of source, options and model"
        )
    try:
        spec = part_spec(stream.part)
        path = folder / spec.file_name
        shapes = {name: tuple(map(int, shape)) for name, shape in stream.shapes.items()}
        lengths = spec.bind(shapes, str(path))
        folder.mkdir(parents=True, exist_ok=True)
        require_space(folder, part_bytes(spec.name, shapes), str(path))
        with atomic_file(path) as descriptor:
            writer = PartFile(descriptor, spec, shapes, str(path))
            writer.fill(stream.chunks)
            header = {
                "format": FORMAT_NAME,
                "version": PACKET_VERSION,
                "part": spec.name,
                "avatar_id": avatar_id,
                "generation": generation,
                "stage_version": stream.stage_version,
                "num_frames": lengths[FRAME_AXIS],
                "checksums": writer.checksums(),
                "extra": dict(stream.extra),
            }
            num_bytes = writer.finish(header)
    finally:
        _close(stream.chunks)
    dtypes = {tensor.name: tensor.dtype for tensor in spec}
    seconds = time.perf_counter() - started
    log.info("wrote a packet file", extra={"path": str(path), "num_bytes": num_bytes, "seconds": round(seconds, 3)})
    return PartRecord(
        path, num_bytes, shapes, dtypes, writer.checksums(), generation, stream.stage_version, seconds=seconds
    )


def part_bytes(part: str, shapes: Mapping[str, Shape]) -> int:
    """Room that one packet file takes on the disk, worked out from its shapes; at most 1 MiB too much."""
    refs = (TensorRef("", DTYPES[tensor.dtype], tuple(shapes[tensor.name])) for tensor in part_spec(part))
    return sum(ref.num_bytes for ref in refs) + _OVERHEAD_BYTES


def packet_bytes(lengths: Mapping[str, int]) -> int:
    """Room that all six files take on the disk.

    Args:
        lengths: the axes of the spec: N frames, volume C D Hf Wf, paste window h w, frame H W.
    """
    return sum(part_bytes(name, part_spec(name).shapes(lengths)) for name in PART_NAMES)


def _close(chunks: Iterable[Mapping[str, Tensor]]) -> None:
    close = getattr(chunks, "close", None)
    if close is not None:
        close()
