"""Which tile of outputs one program of a convolution computes."""

from dataclasses import dataclass

BLOCK_K = 64
"""Input channels per step: 128 bytes of float16, the widest row that the tensor memory accelerator swizzles."""


@dataclass(frozen=True)
class Tile:
    """Tile and launch shape.

    Args:
        rows: output pixels.
        columns: output channels.
        tail: further output channels, 0 or 16 or 32, where the number of channels is just above a power of two.
        warps: that multiply, 4 for each group.
        stages: steps that are fetched ahead.
    """

    rows: int
    columns: int
    tail: int
    warps: int
    stages: int

    @property
    def groups(self) -> int:
        """Groups of four warps; each has its own part of the rows."""
        return self.warps // 4

    @property
    def group_rows(self) -> int:
        """Output pixels of a group."""
        return self.rows // self.groups


def box(rows: int, depth: int, height: int, width: int) -> tuple[int, int, int]:
    """Depth, height and width of a box of ``rows`` pixels; it divides a volume whose sides are powers of two.

    A volume of fewer pixels is less deep than the box.
    """
    box_width = min(rows, width)
    box_height = min(rows // box_width, height)
    return rows // (box_width * box_height), box_height, box_width


_BUSY = 120
"""Tiles that keep a card of 132 multiprocessors busy; with fewer, smaller tiles are faster."""


def choose_tile(shape: tuple[int, int, int, int], outputs: int, phases: int, *, has_tail: bool) -> Tile:
    """Tile for outputs on a grid (B, D, H, W) of ``outputs`` channels and ``phases`` phases each.

    The rule follows sweeps over every layer of the full-width networks on an H200: the largest tile that still gives
    every multiprocessor one, since a larger tile reads less per product.
    """
    batch, depth, height, width = shape
    pixels = depth * height * width
    tail = outputs - 128 if has_tail and 128 < outputs <= 160 else 0
    if tail and pixels >= 256:
        return Tile(256, 128, 16 if tail <= 16 else 32, 8, 3)
    columns = 16
    while columns < min(outputs, 128):
        columns *= 2
    choices = [Tile(256, columns, 0, 8, 4), Tile(128, columns, 0, 4, 5), Tile(64, columns, 0, 4, 6)]
    if columns == 128:
        choices.append(Tile(64, 64, 0, 4, 6))
    fitting = [tile for tile in choices if tile.rows <= max(pixels, 64)]
    for tile in fitting:
        if batch * pixels // tile.rows * phases * -(-outputs // tile.columns) >= _BUSY:
            return tile
    return fitting[-1]


def thread_order(columns: int) -> list[int]:
    """Which output channel every column of a matrix product stands for, so that each thread's are neighbours.

    The matrix unit gives a thread two neighbouring columns of every eight.
    """
    return [
        lane * (columns // 4) + 2 * group + pair
        for group in range(columns // 8)
        for lane in range(4)
        for pair in (0, 1)
    ]
