"""Tables of 256 bytes, one for each lane and all alike: any function of a byte."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config

__all__ = ["Tables"]


class Tables(wiring.Component):
    """Look up a byte for each lane in every cycle; fill all tables with a row at a time.

    A row is `config.table_row_bytes` entries, 16 where the array has as many columns: the depth
    of the memory in lookup tables is then the 16 that theirs is. Entries keep their bytes through
    a reset; rows wrap.

    Latency: one cycle from `index` to `value`; a row is seen by what is shown in the cycle after
    it. No stalls.

    Members
    -------
    start: in
        The next row is row 0.
    fill, row: in
        Write a row, lowest entry lowest, and go on to the next.
    index, value: in, out
        A byte, and its entry.
    """

    #: Cycles from a byte to its entry.
    LATENCY = 1

    def __init__(self, config: Config):
        self._row_bytes, self._lanes = config.table_row_bytes, config.lanes
        bytes_of_lanes = data.ArrayLayout(8, config.lanes)
        super().__init__(
            {
                "start": In(1),
                "fill": In(1),
                "row": In(8 * config.table_row_bytes),
                "index": In(bytes_of_lanes),
                "value": Out(bytes_of_lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rows = 256 // self._row_bytes
        place_bits = (self._row_bytes - 1).bit_length()
        at = Signal(range(rows))
        with m.If(self.start):
            m.d.sync += at.eq(0)
        with m.Elif(self.fill):
            m.d.sync += at.eq(at + 1)
        for lane in range(self._lanes):
            memory = Memory(shape=8 * self._row_bytes, depth=rows, init=[])
            m.submodules[f"table_{lane}"] = memory
            # Read without a clock: what is picked from a row is what is worth registers.
            write, read = memory.write_port(), memory.read_port(domain="comb")
            place = self.index[lane][:place_bits]
            m.d.comb += [
                write.en.eq(self.fill),
                write.addr.eq(at),
                write.data.eq(self.row),
                read.addr.eq(self.index[lane][place_bits:]),
            ]
            m.d.sync += self.value[lane].eq(read.data.word_select(place, 8))
        return m
