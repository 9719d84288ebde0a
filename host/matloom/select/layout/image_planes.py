"""Layout in which LOADs interleave the planes of an image as channels.

Files of PyTorch and ONNX keep the planes of an image one after another, and a TRANSPOSE would move
one byte at a time. A LOAD can write the bytes of a row with an element stride, so one LOAD of all
planes makes the tensor that layers read.
"""

from dataclasses import dataclass

from matloom.select.layout.row_folding import RowFolding


@dataclass(frozen=True, kw_only=True)
class ImagePlanes(RowFolding):
    """A dense tensor, made by LOADs, whose channels are the planes of an image.

    Channel c of position x of row y is byte x of row y of plane c of the tensor `source`. The rows
    of `source` are those of its planes, one plane after another. Channels beyond the last plane are
    never written.
    """

    @property
    def planes(self) -> int:
        """Number of planes of the image."""
        return self.source_rows // self.rows

    @property
    def channel_step(self) -> int:
        """Distance in rows of `source` from one plane, or channel, to the next."""
        return self.rows

    @property
    def text(self) -> str:
        """Name of the layout, for people."""
        return f"{self.planes} planes as channels"

    def inside(self, row: int) -> tuple[int, int]:
        """Return the range of channels (half open) in a row that come from planes of the image."""
        return 0, self.planes

    def is_filled(self, row: int) -> bool:
        """Return False, because no channels of a row hold `fill_value`."""
        return False
