"""Alignment of the bytes of a write with a line of the scratchpad."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.memory.rotate import rotate_left

__all__ = ["Scatter"]


class Scatter(wiring.Component):
    """Rotate data and mask of a write into the byte lanes of a line.

    The data is rotated within a span of `width` bytes, rounded up to a power of two, and repeated
    along the line. The mask is rotated within the whole line, and so selects which bytes of the
    repetitions are written.

    Latency: two cycles from `offset` and `mask`, one from `data`. Throughput: one write per
    cycle. Works in every cycle, also without a granted write, so that no enable has to reach
    every byte.

    Parameters
    ----------
    width, word_bytes:
        Size in bytes of a write, and of a word; a line is two words.

    Members
    -------
    offset, data, mask: in
        Position of the first byte in the line, the bytes, and the mask of those to write. `data`
        comes one cycle after `offset` and `mask`.
    o_data, o_mask: out
        Bytes and mask of the even word, then of the odd word.
    """

    def __init__(self, *, width: int, word_bytes: int):
        self._span = 1 << (width - 1).bit_length()
        self._line_bytes = 2 * word_bytes
        super().__init__(
            {
                "offset": In(range(2 * word_bytes)),
                "data": In(8 * width),
                "mask": In(width),
                "o_data": Out(16 * word_bytes),
                "o_mask": Out(2 * word_bytes),
            }
        )

    def elaborate(self, platform):
        """Return the module: registered inputs, then rotations of data and mask."""
        m = Module()
        offset = Signal.like(self.offset, reset_less=True)
        values = Signal(8 * self._span)
        mask = Signal(self._line_bytes, reset_less=True)
        m.d.sync += [offset.eq(self.offset), mask.eq(self.mask)]
        m.d.comb += values.eq(self.data)

        turned = Signal(len(values), reset_less=True)
        turned_mask = Signal.like(mask, reset_less=True)
        turn = offset[: (self._span - 1).bit_length()]
        m.d.sync += [
            turned.eq(rotate_left(m, values, turn, 8)),
            turned_mask.eq(rotate_left(m, mask, offset)),
        ]
        m.d.comb += [
            self.o_data.eq(turned.replicate(self._line_bytes // self._span)),
            self.o_mask.eq(turned_mask),
        ]
        return m
