"""Look-up tables of 256 bytes, one per lane: any function of a byte."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.result_sums import FRACTION_BITS, WORDS

__all__ = ["Tables"]


class Tables(wiring.Component):
    """Tables of 256 bytes that serve one look-up per lane and cycle.

    Rows are written to all tables at once, or with `each` to one table after another. A row has
    `config.table_row_bytes` entries: 16 if the array has at least 16 columns, so that the memory is
    16 deep, like one made of lookup tables. Contents survive a reset; row indices wrap.

    With `config.tables` = 1 the tables are in lookup tables, and a row takes one cycle to write.
    With 2 they are in block RAM shared by two lanes each, and a row takes one cycle per byte,
    during which look-ups are undefined.

    With `config.has_result_sums`, an entry can instead be the sum of two bytes, as
    `arch.result_sums` defines it.

    Latency: one cycle from `index` to `value`, two to `total`. A row is visible to look-ups in the
    cycle after it is written, or after `ready` has returned. Stalls: only `ready`. Reset aborts a
    row in progress.

    Members
    -------
    start: in
        The next row is row 0, of the first lane.
    fill, row: in
        Write a row, lowest entry first, and advance to the next; taken with `ready`.
    ready: out
        No row is being written.
    each: in
        A row is written to the table of one lane; after its last row, the next lane's table
        follows. Constant from `start` on. Only with `config.has_channel_tables`.
    index, value: in, out
        A byte of each lane, and its entry.
    adds: in
        Compute `total`; `value` is then undefined. Constant from the first byte to the last sum.
        Only with `config.has_result_sums`, like `other` and `total`.
    other, total: in, out
        A second byte of each lane, in the same cycle as `index`, and the sum of both bytes;
        undefined unless `adds`.
    """

    #: Cycles from a byte to its entry, and to a sum.
    LATENCY, SUM_LATENCY = 1, 2

    def __init__(self, config: Config):
        self._row_bytes, self._lanes = config.table_row_bytes, config.lanes
        self._in_blocks, self._by_lane = config.tables > 1, bool(config.has_channel_tables)
        self._has_sums = config.has_result_sums
        bytes_of_lanes = data.ArrayLayout(8, config.lanes)
        super().__init__(
            {
                "start": In(1),
                "fill": In(1),
                "row": In(8 * config.table_row_bytes),
                "ready": Out(1),
                **({"each": In(1)} if config.has_channel_tables else {}),
                "index": In(bytes_of_lanes),
                "value": Out(bytes_of_lanes),
                **(
                    {"adds": In(1), "other": In(bytes_of_lanes), "total": Out(bytes_of_lanes)}
                    if config.has_result_sums
                    else {}
                ),
            }
        )

    def elaborate(self, platform):
        """Return the module: tables in rows or in blocks of RAM, as the configuration has them."""
        m = Module()
        if self._in_blocks:
            self._store_in_blocks(m)
        else:
            self._store_in_rows(m)
        return m

    def _store_in_rows(self, m: Module):
        """Build tables as memories of rows, each filled with one row per cycle."""
        rows = 256 // self._row_bytes
        place_bits = (self._row_bytes - 1).bit_length()
        at = Signal(range(rows))
        m.d.comb += self.ready.eq(1)
        with m.If(self.start):
            m.d.sync += at.eq(0)
        with m.Elif(self.fill):
            m.d.sync += at.eq(at + 1)
        written = self._written_lanes(m, at == rows - 1) if self._by_lane else None
        for lane in range(self._lanes):
            fill = self.fill if written is None else self.fill & written[lane]
            place = self.index[lane][:place_bits]
            row = self._row_of(m, lane, fill, at)
            m.d.sync += self.value[lane].eq(row.word_select(place, 8))

    def _row_of(self, m: Module, lane: int, fill, at):
        """Return the row of a lane's table that contains its entry; write rows at `at`.

        The row is read combinationally. Registering the entry selected from it takes fewer
        flip-flops than registering the row.
        """
        high = self.index[lane][(self._row_bytes - 1).bit_length() :]
        if not self._has_sums:
            return self._read_rows(m, f"table_{lane}", fill, at, self.row, high)
        index, other = self.index[lane], self.other[lane]
        rows = (index[:4], high, other[:4], other[4:])
        words = [
            self._read_rows(
                m,
                f"table_{lane}_{number}",
                fill,
                at,
                self.row.word_select(number, 32),
                high if number == 1 else Mux(self.adds, row, high),
            )
            for number, row in enumerate(rows)
        ]
        self._add(m, lane, words)
        return Cat(words)

    def _read_rows(self, m: Module, name: str, fill, at, row, address):
        """Add a memory of rows; return the row at `address`, and write `row` at `at` if `fill`."""
        memory = Memory(shape=len(row), depth=256 // self._row_bytes, init=[])
        m.submodules[name] = memory
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(fill),
            write.addr.eq(at),
            write.data.eq(row),
            read.addr.eq(address),
        ]
        return read.data

    def _add(self, m: Module, lane: int, words):
        """Add the words of a sum in two stages; limit the bits above the fraction to int8."""
        halves = []
        for first in range(0, WORDS, 2):
            half = Signal(32, name=f"half_{lane}_{first}", reset_less=True)
            m.d.sync += half.eq(words[first] + words[first + 1])
            halves.append(half)
        total = (halves[0] + halves[1])[FRACTION_BITS:32]
        sign, rest = total[-1], total[7:]
        fits = rest.all() | ~rest.any()
        limit = Cat((~sign).replicate(7), sign)
        m.d.sync += self.total[lane].eq(Mux(fits, total[:8], limit))

    def _written_lanes(self, m: Module, last_row):
        """Return a bit for each lane, set if the next row is written to its table."""
        lane = Signal(self._lanes, init=1)
        with m.If(self.start):
            m.d.sync += lane.eq(1)
        with m.Elif(self.fill & last_row):
            m.d.sync += lane.eq(lane.rotate_left(1))
        return lane | (~self.each).replicate(self._lanes)

    def _store_in_blocks(self, m: Module):
        """Build tables in block RAMs of bytes, one for two lanes, filled byte by byte."""
        at = Signal(8)
        left = Signal(range(self._row_bytes + 1))
        row = Signal(8 * self._row_bytes, reset_less=True)
        writing = Signal()
        m.d.comb += [self.ready.eq(~writing), writing.eq(left != 0)]
        with m.If(writing):
            m.d.sync += [at.eq(at + 1), left.eq(left - 1), row.eq(row >> 8)]
        with m.Elif(self.fill):
            m.d.sync += [row.eq(self.row), left.eq(self._row_bytes)]
        with m.If(self.start):
            m.d.sync += at.eq(0)
        for first in range(0, self._lanes, 2):
            # No look-ups happen during writes.
            memory = Memory(shape=8, depth=256, init=[], attrs={"no_rw_check": 1})
            m.submodules[f"table_{first}"] = memory
            write = memory.write_port()
            place = Signal(8, name=f"place_{first}")
            # The first lane's port also writes: a block RAM has two ports with one address each.
            m.d.comb += [
                place.eq(Mux(writing, at, self.index[first])),
                write.en.eq(writing),
                write.addr.eq(place),
                write.data.eq(row[:8]),
            ]
            for lane in range(first, min(first + 2, self._lanes)):
                read = memory.read_port()
                m.d.comb += [
                    read.en.eq(~writing if lane == first else 1),
                    read.addr.eq(place if lane == first else self.index[lane]),
                    self.value[lane].eq(read.data),
                ]
