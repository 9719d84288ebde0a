"""Bias, multiplier and shift of each channel of the output block at hand."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.config import Config
from matloom_rtl.ports import SPAD_ADDRESS_BITS, SpadReadSignature

__all__ = ["Parameters"]

#: Reads of `columns` bytes: four bytes of bias a channel, four of multiplier, one of shift.
_BIAS_READS, _SCALE_READS = 4, 5


class Parameters(wiring.Component):
    """Fetch parameter blocks, or repeat the instruction's own values for every channel.

    `load` begins with the next block; `ready` is set when all channels are in place, after 1
    cycle without reads, else a cycle after its last read has arrived.

    Members
    -------
    start: in
        Take `address` as that of the first block.
    load: in
    ready: out
    address, channel_bias, channel_scale, bias, multiplier, shift: in
        Of the instruction; constant until the next `start`.
    read: SpadReadSignature, out
        `data` belong to `arrived`.
    arrived: in
        The data of the oldest read that was taken.
    biases, multipliers, shifts: out
        32, 32 and 8 bits a channel, channel 0 lowest.
    """

    def __init__(self, config: Config):
        self._columns = config.columns
        columns = config.columns
        super().__init__(
            {
                "start": In(1),
                "load": In(1),
                "ready": Out(1),
                "address": In(SPAD_ADDRESS_BITS),
                "channel_bias": In(1),
                "channel_scale": In(1),
                "bias": In(32),
                "multiplier": In(32),
                "shift": In(8),
                "read": Out(SpadReadSignature(columns, config.spad_banks)),
                "arrived": In(1),
                "biases": Out(32 * columns),
                "multipliers": Out(32 * columns),
                "shifts": Out(8 * columns),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read, columns = self.read, self._columns
        wanted, missing, place = (Signal(range(10), name=n) for n in ("wanted", "missing", "place"))

        m.d.comb += read.valid.eq(wanted != 0)
        with m.If(read.valid & read.ready):
            m.d.sync += [read.address.eq(read.address + columns), wanted.eq(wanted - 1)]
        with m.If(self.arrived):
            m.d.sync += [
                place.eq(place + 1),
                missing.eq(missing - 1),
                self.ready.eq(missing == 1),
            ]
        self._store(m, place)
        with m.If(self.load):
            count = self.channel_bias * _BIAS_READS + self.channel_scale * _SCALE_READS
            m.d.sync += [wanted.eq(count), missing.eq(count), self.ready.eq(count == 0)]
            m.d.sync += place.eq(0)
            with m.If(~self.channel_bias):
                m.d.sync += [
                    self.biases.eq(self.bias.replicate(columns)),
                    place.eq(_BIAS_READS),
                ]
            with m.If(~self.channel_scale):
                m.d.sync += [
                    self.multipliers.eq(self.multiplier.replicate(columns)),
                    self.shifts.eq(self.shift.replicate(columns)),
                ]
        with m.If(self.start):
            m.d.sync += [read.address.eq(self.address), self.ready.eq(0)]
        return m

    def _store(self, m: Module, place):
        """Put a read's bytes at their place in the block."""
        block = Cat(self.biases, self.multipliers, self.shifts)
        bits = 8 * self._columns
        with m.If(self.arrived), m.Switch(place):
            for index in range(_BIAS_READS + _SCALE_READS):
                with m.Case(index):
                    m.d.sync += block[bits * index : bits * (index + 1)].eq(self.read.data)
