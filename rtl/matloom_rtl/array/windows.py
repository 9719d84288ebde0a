"""Operands of the rows that sliding windows use, for one broadcast group of columns."""

from itertools import accumulate

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import WINDOW_TAPS, Config
from matloom.arch.isa import FORMATS, Opcode
from matloom_rtl.array.cells import operand_bits

__all__ = ["LINE_BITS", "Windows", "slide_layout"]

#: Bits of a vector's position in its line.
LINE_BITS = next(item.bits for item in FORMATS[Opcode.EXEC].fields if item.name == "line")

#: Index in `Config.window_shapes` of the wide shape that uses all line memories.
_THREE_LINES = 2

#: Bytes per column of a block: (x, y) = (0, 0), (0, 1), (1, 0), (1, 1).
_POSITIONS = 4


def slide_layout(config: Config) -> data.StructLayout:
    """Return the layout of the flags for a vector that enters the windows.

    `window`: the vector slides. The rest applies only then. `shift`: it is not the first of its
    step, so the windows move. `recall`: earlier lines are used. `pad`: value outside the image.
    `paired`, with paired windows: it is a block of 2 x 2 positions. `shapes`, if several are
    built: shape of the window, one-hot (`Config.window_shapes`); none is set for a dense vector.
    """
    paired = {"paired": 1} if config.has_paired_windows else {}
    shapes = {"shapes": len(config.window_shapes)} if config.has_wide_windows else {}
    return data.StructLayout({"window": 1, "shift": 1, "recall": 1, "pad": 8, **paired, **shapes})


class Windows(wiring.Component):
    """Operand registers of the window rows, for one broadcast group of columns.

    A line is a row of the image, of L vectors, and a row of the array multiplies one tap of the
    window. In each step of an EXEC all positions enter, line after line.

    A dense vector loads its byte of each row into every column. A sliding vector loads the byte
    of the *column* into the last row, the output of the line memories into the last row of each
    older line, and every other row takes the operand to its right, so that the registers themselves
    form the windows. A multiplier always reads a register, loaded in the cycle after the vector is
    presented.

    The line memories store the operands including padding, so a value that reaches the oldest
    line through two memories was masked in the first one: `recall` suffices for both. A memory is
    read one cycle before the vector is presented in cycle t, and written in t + 1. The next read
    of the same position in this step is `L` vectors later, in t + L - 1 at the earliest; as L is
    at least 3, that is after the write. Reads that coincide with older writes, or with writes of
    the step before, belong to a first line, which ignores the data.

    Window shapes differ in the rows that end a line: these take the older line from memory, or
    the newest byte; in all other rows the window moves. The memories store the last row of every
    line except the oldest. A window of one line uses no memory. Rows beyond the window are dense.

    A block is four bytes for each column, and slides by two positions. Extra registers hold the
    bytes that are no operands of the current window, but are needed by the next window or by the
    line memory.

    Only write enables are reset. Dense and sliding vectors may alternate, except within a step
    that slides.

    Latency: one cycle. Throughput: one vector per cycle.

    Parameters
    ----------
    first_column: int
        First column of the group; column c takes byte c of the vector.

    Members
    -------
    position: in
        Position of the vector in its line, one cycle before the vector.
    valid, vector, slide: in
        Activations, row 0 lowest, and how they enter (`slide_layout`). Activations of windows are
        bytes. `shift`, `recall` and `paired` must be 0 if `window` is 0.
    block: in
        Bytes of the group's columns, one position of the block after another. Only with paired
        windows.
    operands: out
        One array for each column, with an operand for each row.
    """

    def __init__(self, config: Config, first_column: int):
        self._config = config
        self._first_column = first_column
        self._lines = config.window_lines
        self._paired = bool(config.has_paired_windows)
        self._wide = bool(config.has_wide_windows)
        self._bits = operand_bits(config)
        rows = config.window_rows
        super().__init__(
            {
                "position": In(LINE_BITS),
                "valid": In(1),
                "vector": In(self._bits * config.rows),
                "slide": In(slide_layout(config)),
                **(
                    {"block": In(8 * _POSITIONS * config.broadcast_group)}
                    if config.has_paired_windows
                    else {}
                ),
                "operands": Out(
                    data.ArrayLayout(
                        data.ArrayLayout(signed(self._bits), rows), config.broadcast_group
                    )
                ),
            }
        )

    def elaborate(self, platform):
        """Return the module: a register for each row of the window, and the line memory."""
        m = Module()
        slide, rows = self.slide, self._config.window_rows
        # Padding, or the row's own byte: the same for all columns, so it is selected once.
        bits, pad = self._bits, self._operand(slide.pad)
        bytes_ = [self.vector.word_select(row, bits) for row in range(rows)]
        own = [Mux(self._slides(row), pad, byte) for row, byte in enumerate(bytes_)]
        own[-1] = bytes_[-1]
        cells = [
            [
                Signal(signed(bits), name=f"operand_{column}_{row}", reset_less=True)
                for row in range(rows)
            ]
            for column in range(self._config.broadcast_group)
        ]
        blocks = self._blocks(m) if self._paired else None
        remembered = self._memory(m, cells, blocks) if self._lines > 1 else None
        for column, registers in enumerate(cells):
            m.d.comb += Cat(self.operands[column]).eq(Cat(registers))
            newest = self.vector.word_select(self._first_column + column, bits)
            to_left = registers[1:]
            if self._paired:
                newest = Mux(slide.paired, self._operand(self._byte(column, 0)), newest)
                to_left = self._move_block(m, registers, blocks[column], remembered[column])
            older = remembered[column] if self._lines > 1 else None
            with m.If(self.valid):
                for row, register in enumerate(registers):
                    right = to_left[row] if row < rows - 1 else None
                    following = self._next(row, right, older, newest, own[row])
                    m.d.sync += register.eq(following)
        return m

    def _operand(self, byte):
        """Return a byte of a window, sign-extended to the width of an operand."""
        return byte.as_signed() if self._bits > 8 else byte

    def _slides(self, row: int):
        """Return whether a row belongs to the window that the vector enters."""
        shapes = self._config.window_shapes
        if row < sum(shapes[0]):
            return self.slide.window
        return Cat(self.slide.shapes[1:]).any()

    def _next(self, row: int, right, older, newest, own):
        """Return the next value of a row's register.

        Parameters
        ----------
        right:
            Operand to the right.
        older:
            Outputs of the line memories, oldest line first.
        newest:
            Byte of the column.
        own:
            Value for a first line or a dense vector.
        """
        slide, shapes = self.slide, self._config.window_shapes
        moves, ends = [], [[] for _line in range(self._lines)]
        for number, lines in enumerate(shapes):
            last_rows = self._last_rows(number)
            if row in last_rows:
                ends[len(lines) - 1 - last_rows.index(row)].append(number)
            elif row < sum(lines):
                moves.append(number)
        following = own
        if moves:
            following = Mux(self._any(slide.shift, moves), right, following)
        for ago, numbers in enumerate(ends):
            if numbers and ago:
                kept = self._operand(older[self._lines - 1 - ago])
                following = Mux(self._any(slide.recall, numbers), kept, following)
            elif numbers:
                following = Mux(self._any(slide.window, numbers), newest, following)
        return following

    def _last_rows(self, number: int) -> list[int]:
        """Return the row that ends each line of the shape of index `number`, oldest line first."""
        return [rows - 1 for rows in accumulate(self._config.window_shapes[number])]

    def _any(self, flag, numbers):
        """Return whether a flag is set and the window has one of the shapes of index `numbers`."""
        if len(numbers) == len(self._config.window_shapes):
            return flag
        return flag & Cat(self.slide.shapes[number] for number in numbers).any()

    def _byte(self, column: int, index: int):
        """Return the block byte of a column at position `index`, 0 to 3."""
        return self.block.word_select(index * self._config.broadcast_group + column, 8)

    def _blocks(self, m: Module):
        """Return, for each column, registered bytes 1, 2 and 3 of the last block."""
        blocks = [
            [
                Signal(8, name=f"block_{column}_{index}", reset_less=True)
                for index in range(1, _POSITIONS)
            ]
            for column in range(self._config.broadcast_group)
        ]
        with m.If(self.valid):
            for column, held in enumerate(blocks):
                m.d.sync += [
                    each.eq(self._byte(column, index)) for index, each in enumerate(held, 1)
                ]
        return blocks

    def _move_block(self, m: Module, registers, block, remembered):
        """Return a list of the values that the registers of a column take when the window moves.

        A window of blocks moves by two taps, to the next block. In each line, the first tap takes
        the value of the third, which is the even position of the block before; the second takes the
        odd position of that block, from the line memory, or in the newest line from `block`.
        """
        slide, to_left = self.slide, list(registers[1:])
        odd_lines = [
            Signal(8, name=f"odd_{registers[0].name}_{line}", reset_less=True)
            for line in range(self._lines - 1)
        ]
        with m.If(self.valid):
            for line, register in enumerate(odd_lines):
                m.d.sync += register.eq(Mux(slide.recall, remembered[2 + line], slide.pad))
        for line, odd in enumerate([*odd_lines, block[1]]):
            first = WINDOW_TAPS * line
            to_left[first] = Mux(slide.paired, registers[first + 2], registers[first + 1])
            to_left[first + 1] = Mux(slide.paired, odd.as_signed(), registers[first + 2])
        return to_left

    def _memory(self, m: Module, cells, blocks):
        """Add the line memory; return the bytes of each column in older lines, oldest line first.

        For blocks, return the four bytes of the block above, in the same read registers.
        """
        older = self._lines - 1
        kept = _POSITIONS if self._paired else older
        m.submodules.lines = memory = Memory(
            shape=data.ArrayLayout(data.ArrayLayout(8, kept), self._config.broadcast_group),
            depth=1 << LINE_BITS,
            init=[],
            attrs={"no_rw_check": 1},
        )
        fetch, store = memory.read_port(), memory.write_port()
        present = Signal(LINE_BITS, reset_less=True)
        m.d.comb += fetch.addr.eq(self.position)
        m.d.sync += [
            present.eq(self.position),
            store.addr.eq(present),
            store.en.eq(self.valid & self.slide.window),
        ]
        paired = Signal(reset_less=True)
        if self._paired:
            m.d.sync += paired.eq(self.slide.paired)
        wide = Signal(reset_less=True)
        if self._wide:
            m.d.sync += wide.eq(~self.slide.shapes[0])
        for column, registers in enumerate(cells):
            newer = [registers[last] for last in self._last_rows(0)[1:]]
            newest = newer[-1]
            if self._wide:
                wider = [registers[last] for last in self._last_rows(_THREE_LINES)[1:]]
                newer = [Mux(wide, new, old) for new, old in zip(wider, newer, strict=True)]
            if self._paired:
                block = [newest, *blocks[column]]
                newer = [
                    *(Mux(paired, new, old) for new, old in zip(block, newer, strict=False)),
                    *block[older:],
                ]
            for place, byte in enumerate(newer):
                m.d.comb += store.data[column][place].eq(byte)
        return fetch.data
