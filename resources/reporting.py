"""Metadata that assets show in the UI."""

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg
from torch import Tensor

from newsstudio_ditto.stages.preview import Picture, encode_picture


@contextmanager
def timed(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Add the wall time of the block to the metadata of the asset."""
    started = time.perf_counter()
    yield
    context.add_output_metadata({"seconds": round(time.perf_counter() - started, 3)})


def show_picture(picture: Picture) -> dg.MarkdownMetadataValue:
    """A small picture inside the event; the UI draws it."""
    encoded = base64.b64encode(encode_picture(picture)).decode()
    return dg.MetadataValue.md(f"![preview](data:image/jpeg;base64,{encoded})")


def show_tensors(tensors: Mapping[str, Tensor]) -> dg.TableMetadataValue:
    """A table of tensors with shape and dtype."""
    rows = ((name, tensor) for name, tensor in tensors.items())
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "tensor": name,
                    "shape": " x ".join(map(str, tensor.shape)),
                    "dtype": str(tensor.dtype).removeprefix("torch."),
                    "bytes": tensor.numel() * tensor.element_size(),
                }
            )
            for name, tensor in rows
        ],
        schema=dg.TableSchema(
            columns=[
                dg.TableColumn("tensor", "string"),
                dg.TableColumn("shape", "string"),
                dg.TableColumn("dtype", "string"),
                dg.TableColumn("bytes", "int"),
            ]
        ),
    )
