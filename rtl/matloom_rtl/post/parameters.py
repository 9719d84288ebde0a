"""Bias, multiplier and shift of each channel: of the output block at hand, and of the next."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.memory.claims import claims_of
from matloom_rtl.ports import SPAD_ADDRESS_BITS, SpadReadSignature
from matloom_rtl.post.layouts import ParametersSignature

__all__ = ["TASK", "Parameters"]

#: Reads of `columns` bytes: four bytes of bias a channel, four of multiplier, one of shift.
_BIAS_READS, _SCALE_READS = 4, 5

#: What is known of the parameters of an instruction: where its blocks are, or their only values.
TASK = data.StructLayout(
    {
        "address": SPAD_ADDRESS_BITS,
        "channel_bias": 1,
        "channel_scale": 1,
        "bias": 32,
        "multiplier": 32,
        "shift": 8,
        "blocks": 12,
    }
)


class Parameters(wiring.Component):
    """Fetch parameter blocks, or repeat the instruction's own values for every channel.

    The next block waits in registers behind those of the block at hand, be it of the same
    instruction or of the one that follows.

    Latency: 4 cycles from `i` to `ready` without reads, else 4 cycles and those from the first
    read's request to the last one's data. Throughput: the next block is in place at once after
    `release` if it has been fetched meanwhile.

    Members
    -------
    i: stream of `TASK`, in
        Taken when all blocks of the one before are fetched or being fetched.
    o: ParametersSignature, in
        What the lanes read and release.
    read: SpadReadSignature, out
        `data` follow `arriving` by a cycle.
    arriving: in
        The data of the oldest read that was taken are there in the next cycle.
    """

    def __init__(self, config: Config):
        self._config, self._columns = config, config.columns
        super().__init__(
            {
                "i": In(stream.Signature(TASK)),
                "o": In(ParametersSignature(config)),
                "read": Out(SpadReadSignature(config.columns, config.spad_banks)),
                "arriving": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        task, load, full = Signal(TASK, reset_less=True), Signal(), Signal()
        begin = Signal()
        fetched = self._fetch(m, task, load)
        block = self._store(m, task, begin)

        # `load` and `swap` are registers of their own, since hundreds of others wait for them.
        m.d.sync += load.eq(begin)
        with m.FSM():
            with m.State("Idle"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [task.eq(self.i.payload), self.read.address.eq(self.i.payload.address)]
                with m.If(self.i.valid):
                    m.next = "Wait"
            with m.State("Wait"), m.If(~full):
                m.d.comb += begin.eq(1)
                m.next = "Load"
            with m.State("Load"):
                m.d.sync += task.blocks.eq(task.blocks - 1)
                m.next = "Fetch"
            with m.State("Fetch"), m.If(fetched):
                m.d.sync += full.eq(1)
                m.next = "Wait"
                with m.If(task.blocks == 0):
                    m.next = "Idle"

        present, swap, here = Signal(), Signal(), Signal.like(block, reset_less=True)
        o = self.o
        m.d.comb += Cat(o.biases, o.multipliers, o.shifts).eq(here)
        m.d.sync += swap.eq(full & ~swap & (~present | o.release))
        m.d.sync += present.eq(o.ready)
        m.d.comb += o.ready.eq(swap | (present & ~o.release))
        with m.If(swap):
            m.d.sync += [here.eq(block), full.eq(0)]
        return m

    def _fetch(self, m: Module, task, load):
        """Request the reads of a block after `load`; return whether all have arrived."""
        read = self.read
        m.d.comb += read.claims.eq(claims_of(read.address, self._columns, self._config))
        wanted, missing = Signal(range(10)), Signal(range(10))
        arrived, fetched = Signal(), Signal()
        m.d.sync += arrived.eq(self.arriving)
        with m.If(read.valid & read.ready):
            m.d.sync += [
                read.address.eq(read.address + self._columns),
                wanted.eq(wanted - 1),
                read.valid.eq(wanted != 1),
            ]
        with m.If(arrived):
            m.d.sync += [missing.eq(missing - 1), fetched.eq(missing == 1)]
        with m.If(load):
            count = task.channel_bias * _BIAS_READS + task.channel_scale * _SCALE_READS
            some = task.channel_bias | task.channel_scale
            m.d.sync += [wanted.eq(count), missing.eq(count)]
            m.d.sync += [read.valid.eq(some), fetched.eq(~some)]
        return fetched

    def _store(self, m: Module, task, begin):
        """Put reads, or what the task has for all channels, into the next block; return it.

        Every part of the block, as long as a read, has an enable in a register of its own.
        """
        bits, parts = 8 * self._columns, []
        place = Signal(range(_BIAS_READS + _SCALE_READS))
        with m.If(self.arriving):
            m.d.sync += place.eq(place + 1)
        with m.If(begin):
            m.d.sync += place.eq(Mux(task.channel_bias, 0, _BIAS_READS))
        kinds = (
            ("biases", _BIAS_READS, task.channel_bias, task.bias),
            ("multipliers", 4, task.channel_scale, task.multiplier),
            ("shifts", 1, task.channel_scale, task.shift),
        )
        for name, reads, of_channels, value in kinds:
            repeat = Signal(name=f"repeat_{name}")
            m.d.sync += repeat.eq(begin & ~of_channels)
            values = value.replicate(self._columns)
            for index in range(reads):
                part = Signal(bits, name=f"{name}_{index}", reset_less=True)
                enable = Signal(name=f"enable_{name}_{index}")
                arriving = self.arriving & (place == len(parts))
                m.d.sync += enable.eq(arriving | (begin & ~of_channels))
                with m.If(enable):
                    m.d.sync += part.eq(
                        Mux(repeat, values.word_select(index, bits), self.read.data)
                    )
                parts.append(part)
        return Cat(parts)
