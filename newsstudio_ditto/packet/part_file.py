"""Filling one packet file in place, chunk by chunk, and closing it off."""

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import torch
from torch import Tensor

from newsstudio_ditto.errors import PacketFormatError
from newsstudio_ditto.packet.plain_pickle import TensorRef, encode
from newsstudio_ditto.packet.spec import (
    DTYPES,
    PartSpec,
    Shape,
    TensorSpec,
)
from newsstudio_ditto.packet.zip_write import Slot, end_records, place_entries, place_entry


class _Column:
    """One tensor being filled: its place in the file and the running digests of its bytes."""

    def __init__(self, spec: TensorSpec, shape: Shape, slot: Slot) -> None:
        self.spec = spec
        self.shape = shape
        self.slot = slot
        self.num_rows = 0
        self.crc = 0
        self.digest = sha256()
        self._written = 0

    def append(self, descriptor: int, rows: Tensor, pool: ThreadPoolExecutor) -> None:
        content = rows.reshape(-1).view(torch.uint8).numpy().data
        # The digest takes as long as the write; both let other threads run.
        hashing = pool.submit(self.digest.update, content)
        _write_at(descriptor, content, self.slot.offset + self._written)
        self.crc = zlib.crc32(content, self.crc)
        hashing.result()
        self._written += len(content)
        self.num_rows += len(rows)


class PartFile:
    """Fills a preallocated file and closes it off.

    Args:
        descriptor: an empty file, open for writing.
        spec: what it will hold.
        shapes: final shapes, which fit the spec.
        where: the path it will have, for messages.
    """

    def __init__(self, descriptor: int, spec: PartSpec, shapes: dict[str, Shape], where: str) -> None:
        """Place every tensor, and give the file its length."""
        self._descriptor = descriptor
        self._spec = spec
        self._where = where
        keys = {tensor.name: f"data/{index}" for index, tensor in enumerate(spec)}
        self._refs = {
            tensor.name: TensorRef(str(index), DTYPES[tensor.dtype], shapes[tensor.name])
            for index, tensor in enumerate(spec)
        }
        slots = place_entries(spec.name, {keys[name]: ref.num_bytes for name, ref in self._refs.items()})
        self._columns = {tensor.name: _Column(tensor, shapes[tensor.name], slots[keys[tensor.name]]) for tensor in spec}
        self._end = max(slot.end for slot in slots.values())
        os.ftruncate(descriptor, self._end)

    def fill(self, chunks: Iterable[Mapping[str, Tensor]]) -> None:
        """Write all chunks.

        Raises:
            PacketFormatError: they are not what spec and shapes announce.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="packet-digest") as pool:
            for chunk in chunks:
                self._append(chunk, pool)
        for column in self._columns.values():
            if column.num_rows != column.shape[0]:
                raise self._refusal(column, f"{column.shape[0]} rows", f"only {column.num_rows}")

    def checksums(self) -> dict[str, str]:
        """The sha256 of what was written so far, by tensor name."""
        return {name: column.digest.hexdigest() for name, column in self._columns.items()}

    def finish(self, header: dict[str, object]) -> int:
        """Write headers, pickle and directory; return the size of the file."""
        entries = []
        for column in self._columns.values():
            _write_at(self._descriptor, memoryview(column.slot.local_header(column.crc)), column.slot.header_offset)
            entries.append((column.slot, column.crc))
        small = {
            "data.pkl": encode({"header": header, "tensors": dict(self._refs)}),
            "byteorder": b"little",
            "version": b"3\n",
        }
        offset = self._end
        for name, content in small.items():
            slot = place_entry(f"{self._spec.name}/{name}", len(content), offset)
            crc = zlib.crc32(content)
            _write_at(self._descriptor, memoryview(slot.local_header(crc) + content), offset)
            entries.append((slot, crc))
            offset = slot.end
        records = end_records(entries, offset)
        _write_at(self._descriptor, memoryview(records), offset)
        return offset + len(records)

    def _append(self, chunk: Mapping[str, Tensor], pool: ThreadPoolExecutor) -> None:
        if set(chunk) != set(self._columns):
            raise PacketFormatError(
                f"{self._where}: expected chunks of {', '.join(self._columns)}, got {', '.join(map(str, chunk))}",
                "the stage that makes this file has to be mended",
            )
        rows = {name: self._check(column, chunk[name]) for name, column in self._columns.items()}
        if len({len(values) for name, values in rows.items() if self._columns[name].spec.is_per_frame}) > 1:
            counts = ", ".join(f"{name} {len(values)}" for name, values in rows.items())
            raise PacketFormatError(
                f"{self._where}: a chunk has the same number of rows in every tensor, got {counts}",
                "the stage that makes this file has to be mended",
            )
        for name, column in self._columns.items():
            column.append(self._descriptor, rows[name], pool)

    def _check(self, column: _Column, rows: Tensor) -> Tensor:
        """Contiguous CPU rows, if they are what was announced."""
        column.spec.expect_dtype(rows.dtype, self._where)
        if tuple(rows.shape[1:]) != column.shape[1:] or rows.ndim != len(column.shape):
            raise self._refusal(column, f"rows of {column.shape[1:]}", f"a chunk of {tuple(rows.shape)}")
        if column.num_rows + len(rows) > column.shape[0]:
            raise self._refusal(column, f"{column.shape[0]} rows", f"at least {column.num_rows + len(rows)}")
        rows = rows.detach().to("cpu").contiguous()
        if not is_finite(rows):
            raise self._refusal(
                column,
                "finite values",
                f"NaN or infinity in rows {column.num_rows} to {column.num_rows + len(rows) - 1}",
            )
        return rows

    def _refusal(self, column: _Column, expected: str, got: str) -> PacketFormatError:
        return PacketFormatError(
            f"{self._where}: tensor {column.spec.name}: expected {expected}, got {got}",
            "the stage that makes this file has to be mended",
        )


def is_finite(values: Tensor) -> bool:
    """Whether every value is finite. Makes no temporary of the size of ``values``, unlike ``torch.isfinite``."""
    if not values.is_floating_point() or values.numel() == 0:
        return True
    low, high = torch.aminmax(values)
    return bool(torch.isfinite(low) and torch.isfinite(high))


def _write_at(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(descriptor, content, offset)
        content, offset = content[count:], offset + count
