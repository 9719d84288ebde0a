"""Bias, multiplier and shift of each channel, for the current output block and the next."""

from math import lcm

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom.arch.isa import Opcode
from matloom_rtl.arith.stages import delay
from matloom_rtl.memory.bank_select import bank_select_of
from matloom_rtl.ports import SpadReadSignature, body_layout
from matloom_rtl.post.lane import Lane
from matloom_rtl.post.layouts import ParametersSignature

__all__ = ["Parameters", "task_layout"]

#: Reads of `columns` bytes per block: those of biases, four bytes per channel, and those of
#: multipliers and shifts, four bytes and one per channel.
_BIAS_READS, _SCALE_READS = 4, 5

#: Blocks in the memories: the current one, the next, and those whose last multipliers are still
#: being read.
_BLOCKS = 4


def task_layout(config: Config) -> data.StructLayout:
    """Return the layout of an instruction's parameters: their address, or common values."""
    fields = body_layout(Opcode.POST, config)
    names = {"address": "param_addr", "blocks": "oc_blocks"}
    same = ("channel_bias", "channel_scale", "bias", "multiplier", "shift")
    names |= {name: name for name in same}
    return data.StructLayout({name: fields[field].shape for name, field in names.items()})


class Parameters(wiring.Component):
    """Fetch parameter blocks, or repeat the instruction's own values for every channel.

    The memories hold the next block in addition to the current one, from the same instruction or
    the following one. Biases and multipliers are in memories of 16 entries, one for each lane or
    for each word of a read, whichever are more: with n memories, channel c is in memory c mod n,
    row c div n. Shifts are in registers.

    Latency from `i` to `o.ready`: 5 cycles without reads; otherwise 6 cycles plus the time from the
    first read's request to the last one's data. Throughput: the next block is available right after
    `o.release` if it has been fetched by then. Stalls: `read` holds until granted. Reset discards
    blocks and reads in progress.

    Members
    -------
    i: stream of `task_layout`, in
        Parameters of an instruction. Taken once all blocks of the previous instruction are fetched
        and its own values are repeated.
    o: ParametersSignature, in
        Parameters for the lanes.
    read: SpadReadSignature, out
        `data` is valid one cycle after `arriving`.
    arriving: in
        The data of the oldest read in progress is valid in the next cycle.
    """

    def __init__(self, config: Config):
        self._config, self._columns, self._lanes = config, config.columns, config.lanes
        # Words per read, number of memories, and channels in each.
        self._words = config.columns // 4
        self._memory_count = lcm(self._words, config.lanes)
        self._rows = config.columns // self._memory_count
        super().__init__(
            {
                "i": In(stream.Signature(task_layout(config))),
                "o": In(ParametersSignature(config)),
                "read": Out(SpadReadSignature(config.columns, config.spad_banks)),
                "arriving": In(1),
            }
        )

    def elaborate(self, platform):
        """Return the module: a state machine that reads blocks, and their storage."""
        m = Module()
        task = Signal(self.i.payload.shape(), reset_less=True)
        load = Signal()
        full = Signal()
        begin = Signal()
        repeating = Signal()
        fetched = self._fetch(m, task, load)

        m.d.sync += load.eq(begin)
        with m.FSM():
            with m.State("Idle"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += task.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.next = "Wait"
            with m.State("Wait"), m.If(~full & ~repeating):
                m.d.comb += begin.eq(1)
                m.next = "Load"
            with m.State("Load"):
                m.d.sync += task.blocks.eq(task.blocks - 1)
                m.next = "Fetch"
            with m.State("Fetch"), m.If(fetched):
                m.d.sync += full.eq(1)
                m.next = "Wait"
                with m.If(task.blocks == 0):
                    m.next = "End"
            # The task remains until all its values have been repeated.
            with m.State("End"), m.If(~repeating):
                m.next = "Idle"

        o = self.o
        present = Signal()
        swap = Signal()
        m.d.sync += swap.eq(full & ~swap & (~present | o.release))
        m.d.sync += present.eq(o.ready)
        m.d.comb += o.ready.eq(swap | (present & ~o.release))
        with m.If(swap):
            m.d.sync += full.eq(0)
        writes = self._write(m, task, begin, repeating)
        self._store_shifts(m, task, swap, writes)
        self._store_words(m, task, swap, writes)
        return m

    def _fetch(self, m: Module, task, load):
        """Request the reads of a block after `load`; return whether all have arrived."""
        read = self.read
        address = Signal(self._config.spad_size_bits, reset_less=True)
        m.d.comb += [
            read.address.eq(address),
            read.bank_select.eq(bank_select_of(address, self._columns, self._config)),
        ]
        wanted = Signal(range(10))
        missing = Signal(range(10))
        arrived = Signal()
        fetched = Signal()
        m.d.sync += arrived.eq(self.arriving)
        with m.If(read.valid & read.ready):
            m.d.sync += [
                wanted.eq(wanted - 1),
                read.valid.eq(wanted != 1),
            ]
        with m.If(arrived):
            m.d.sync += [missing.eq(missing - 1), fetched.eq(missing == 1)]
        # Blocks are contiguous: only the address of the first is given. A single adder: the
        # selection of its operand goes into its carry cells.
        idle = self.i.ready
        with m.If(idle | (read.valid & read.ready)):
            before = Mux(idle, self.i.payload.address, address)
            m.d.sync += address.eq(before + Mux(idle, 0, self._columns))
        with m.If(load):
            count = task.channel_bias * _BIAS_READS + task.channel_scale * _SCALE_READS
            some = task.channel_bias | task.channel_scale
            m.d.sync += [wanted.eq(count), missing.eq(count)]
            m.d.sync += [read.valid.eq(some), fetched.eq(~some)]
        return fetched

    def _store_shifts(self, m: Module, task, swap, writes):
        """Hold the shifts of the current and the next block; show each lane that of its beat."""
        bits = len(self.o.shifts[0])
        following = Signal(data.ArrayLayout(bits, self._columns), reset_less=True)
        here = Signal.like(following)
        with m.If(writes.shifts):
            for column in range(self._columns):
                read = self.read.data.word_select(column, 8)[:bits]
                m.d.sync += following[column].eq(Mux(writes.repeats, task.shift, read))
        with m.If(swap):
            m.d.sync += here.eq(following)
        for lane in range(self._lanes):
            columns = range(lane, self._columns, self._lanes)
            m.d.comb += self.o.shifts[lane].eq(
                Array(here[column] for column in columns)[self.o.beats[lane]]
            )

    def _write(self, m: Module, task, begin, repeating):
        """Return the control signals of the memories' writes, from registers.

        `repeats`: the data is a row of the instruction's own values, not an arriving read.
        `biases`, `multipliers`, `shifts`: what is written. `row`, `groups`, `block`: where; each
        bit of `groups` enables the memories of one read's words.
        """
        writes = Signal(
            data.StructLayout(
                {
                    "repeats": 1,
                    "biases": 1,
                    "multipliers": 1,
                    "shifts": 1,
                    "row": range(max(2, self._rows)),
                    "groups": self._memory_count // self._words,
                    "block": range(_BLOCKS),
                }
            )
        )
        place = Signal(range(_BIAS_READS + _SCALE_READS))
        step = Signal(range(2 * self._rows + 1))
        of_biases = step < self._rows
        last = Mux(task.channel_scale, self._rows, 2 * self._rows) - 1
        m.d.sync += [
            writes.repeats.eq(repeating),
            writes.biases.eq(Mux(repeating, of_biases, self.arriving & (place < _BIAS_READS))),
            writes.multipliers.eq(Mux(repeating, ~of_biases, self.arriving & place[2])),
            writes.shifts.eq(self.arriving & place[3]),
            writes.groups.eq(-1),
            writes.row.eq(Mux(of_biases, step, step - self._rows)),
        ]
        with m.If(~repeating), m.Switch(place[:2]):
            for index in range(_BIAS_READS):
                row, first = divmod(index * self._words, self._memory_count)
                with m.Case(index):
                    m.d.sync += [writes.row.eq(row), writes.groups.eq(1 << first // self._words)]
        with m.If(self.arriving):
            m.d.sync += place.eq(place + 1)
        with m.If(repeating):
            m.d.sync += [step.eq(step + 1), repeating.eq(step != last)]
        with m.If(begin):
            m.d.sync += [
                place.eq(Mux(task.channel_bias, 0, _BIAS_READS)),
                writes.block.eq(writes.block + 1),
                step.eq(Mux(task.channel_bias, self._rows, 0)),
                repeating.eq(~(task.channel_bias & task.channel_scale)),
                writes.repeats.eq(1),
                writes.shifts.eq(~task.channel_scale),
            ]
        return writes

    def _store_words(self, m: Module, task, swap, writes):
        """Hold biases and multipliers in memories; show each lane those of its beat.

        Multipliers are shown `Lane.MULTIPLIER_DELAY` cycles after the beat.
        """
        repeated = Signal(32)
        words = []
        m.d.comb += repeated.eq(Mux(writes.biases, task.bias, task.multiplier))
        for index in range(self._words):
            read = self.read.data.word_select(index, 32)
            word = Signal(32, name=f"word_{index}")
            m.d.comb += word.eq(Mux(writes.repeats, repeated, read))
            words.append(word)
        for lane in range(self._lanes):
            row, part, block = self._place(m, lane, swap)
            for name, cycles in (("biases", 0), ("multipliers", Lane.MULTIPLIER_DELAY)):
                at = delay(m, Cat(row, block), cycles, f"{name}_row_{lane}")
                chosen = delay(m, part, cycles, f"{name}_part_{lane}")
                found = [
                    self._memory(m, name, index, words, writes, at)
                    for index in range(lane, self._memory_count, self._lanes)
                ]
                m.d.comb += getattr(self.o, name)[lane].eq(Array(found)[chosen])

    def _place(self, m: Module, lane: int, swap):
        """Return the row of a lane's beat, the index of its memory in the lane, and its block."""
        beats = range(self._columns // self._lanes)
        memories = self._memory_count // self._lanes
        # One register per lane, to keep wires short: otherwise they would be merged.
        block = Signal(range(_BLOCKS), name=f"block_{lane}", attrs={"keep": 1})
        with m.If(swap):
            m.d.sync += block.eq(block + 1)
        beat = self.o.beats[lane]
        row = Signal(range(max(2, self._rows)))
        part = Signal(range(max(2, memories)))
        m.d.comb += [
            row.eq(Array(number // memories for number in beats)[beat]),
            part.eq(Array(number % memories for number in beats)[beat]),
        ]
        return row, part, block

    def _memory(self, m: Module, name: str, index: int, words, writes, at):
        """Add the memory of index `index`; return its word at address `at`, a row and a block."""
        bits = len(getattr(self.o, name)[0])
        memory = Memory(shape=bits, depth=1 << len(at), init=[])
        m.submodules[f"{name}_{index}"] = memory
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(Cat(writes.row, writes.block)),
            write.data.eq(words[index % self._words]),
            write.en.eq(writes[name] & writes.groups[index // self._words]),
            read.addr.eq(at),
        ]
        return read.data
