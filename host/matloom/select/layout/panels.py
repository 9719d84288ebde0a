"""Panels: the layout of a matrix as weight tiles, one output block after another."""

from collections.abc import Iterator
from dataclasses import dataclass

from matloom.select.layout.base import OnChipLayout, OutputLayout, Outputs, Write
from matloom.select.layout.dense import Dense


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Matrices (inner, columns) in panels of `width` columns: the weight tiles of EXEC.

    A panel has `depth` rows of `width` bytes, at least `inner`. Rows and columns beyond the matrix
    are never written; they do not matter, because such rows are multiplied by zeros and POST drops
    such columns.

    Panels that EXEC reads transposed are cut into bands of `width` rows: the first rows of all
    panels come first, so that the tiles of an output block are adjacent. A single panel is not cut,
    because its bands would follow each other anyway.

    Members
    -------
    images:
        Number of matrices.
    inner, columns:
        Number of rows of a matrix, and number of columns of all its panels.
    first_row, first_column:
        The row and the column of the whole matrix with which the panels begin.
    transposed:
        Whether EXEC exchanges rows and columns.
    """

    images: int
    inner: int
    columns: int
    depth: int
    width: int
    first_row: int = 0
    first_column: int = 0
    transposed: bool = False

    @property
    def blocks(self) -> int:
        """Number of panels of a matrix, one for each block of output channels."""
        return -(-self.columns // self.width)

    @property
    def is_in_bands(self) -> bool:
        """Whether panels are stored band by band: there are several, and EXEC transposes them."""
        return self.transposed and self.blocks > 1

    @property
    def band(self) -> int:
        """Number of rows of a panel that are contiguous."""
        return self.width if self.is_in_bands else self.depth

    @property
    def block_bytes(self) -> int:
        """Distance in bytes from a panel to the next."""
        return self.band * self.width

    @property
    def band_bytes(self) -> int:
        """Size in bytes of a band."""
        return self.blocks * self.block_bytes

    @property
    def image_bytes(self) -> int:
        """Size in bytes of all panels of a matrix."""
        return self.blocks * self.depth * self.width

    @property
    def reduction(self) -> int:
        """Number of products in each sum: rows of a matrix, or columns if it is transposed."""
        return self.columns if self.transposed else self.inner

    @property
    def outputs(self) -> int:
        """Number of outputs of a position: columns of a matrix, or rows if it is transposed."""
        return self.inner if self.transposed else self.columns

    @property
    def size(self) -> int:
        """Size in bytes of all panels."""
        return self.images * self.image_bytes


@dataclass(frozen=True, kw_only=True)
class PanelOutputs(OnChipLayout):
    """Outputs of a stage stored as panels of weights: each position is a row of a matrix.

    `heads` matrices lie side by side in a position, each of whole output blocks.
    """

    panels: Panels
    heads: int = 1

    @property
    def size(self) -> int:
        """Size in bytes of all panels."""
        return self.panels.size

    @property
    def strides(self) -> tuple[int, int]:
        """Distance in bytes between positions, and between rows."""
        panels = self.panels
        band = panels.band_bytes if panels.is_in_bands else self.grid.width * panels.width
        return panels.width, band

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return "panels of weights"

    def byte(self, image: int, row: int, x: int, block: int) -> int:
        """Return the byte at which a block of channels of a position begins."""
        grid, panels = self.grid, self.panels
        position = (image * grid.rows + row) * grid.width + x
        group, inner = divmod(position, panels.inner)
        head, block = divmod(block, panels.blocks)
        matrix = group * self.heads + head
        number, inside = divmod(inner, panels.band)
        first = matrix * panels.image_bytes + number * panels.band_bytes
        return first + block * panels.block_bytes + inside * panels.width

    def writes(self, tile: Outputs) -> Iterator[Write]:
        """Yield a write for each block of output channels."""
        for number, block in enumerate(range(tile.first_block, tile.end_block)):
            first = self.byte(tile.image, tile.first_row, tile.first_x, block)
            size = self.grid.tail if block + 1 == self.grid.blocks else self.grid.block_bytes
            yield Write(first, *self.strides, size, block=number)


def panel_layout(layout: OutputLayout, panels: Panels, heads: int = 1) -> PanelOutputs | None:
    """Return a layout for outputs that are stored as weight tiles (panels); None if impossible.

    `heads` matrices lie side by side in a position of the outputs.
    """
    grid = layout.grid
    image_rows = grid.rows * grid.width
    whole = (grid.position_bytes, grid.block_bytes) == (heads * panels.columns, panels.width)
    whole = whole and (heads == 1 or panels.columns % panels.width == 0)
    # All rows of an image are in one matrix.
    aligned = image_rows == panels.inner or panels.images == heads
    fits = whole and aligned and grid.images * image_rows * heads == panels.images * panels.inner
    fits = fits and (not panels.is_in_bands or grid.width == panels.band)
    if not fits or not isinstance(layout, Dense) or layout.limbs > 1:
        return None
    return PanelOutputs(grid=grid, panels=panels, heads=heads)
