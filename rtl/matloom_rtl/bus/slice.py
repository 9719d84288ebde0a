"""AXI register slice, for an initiator and a memory that are far apart on the device."""

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.memory.skid_buffer import SkidBuffer

__all__ = ["BusSlice"]


class BusSlice(wiring.Component):
    """AXI register slice: a `SkidBuffer` in each channel, so that no combinational path crosses it.

    Latency: one cycle for each channel, so two from an address to its first beat or from the last
    beat to its response. Throughput: one transfer per cycle and channel. Stalls: each channel holds
    two items, independently of the others. Reset discards them, so both sides must be reset too.

    Members
    -------
    bus_read, bus_write: AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits), in
        Initiator.
    axi_read, axi_write: the same, out
        External memory.
    """

    def __init__(self, bus_bits: int):
        read, write = AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits)
        super().__init__(
            {
                "bus_read": In(read),
                "bus_write": In(write),
                "axi_read": Out(read),
                "axi_write": Out(write),
            }
        )

    def elaborate(self, platform):
        """Return the module: a `SkidBuffer` in each of the five channels."""
        m = Module()
        out, back = (self.bus_read, self.axi_read), (self.axi_read, self.bus_read)
        self._pass(m, "ar", *(side.ar for side in out))
        self._pass(m, "r", *(side.r for side in back))
        out, back = (self.bus_write, self.axi_write), (self.axi_write, self.bus_write)
        self._pass(m, "aw", *(side.aw for side in out))
        self._pass(m, "w", *(side.w for side in out))
        self._pass(m, "b", *(side.b for side in back))
        return m

    def _pass(self, m: Module, name: str, source, target):
        """Put a `SkidBuffer` between the two ends of a channel."""
        layout = data.Layout.cast(source.payload.shape())
        m.submodules[name] = buffer = SkidBuffer(layout)
        connect(m, flipped(source), buffer.i)
        connect(m, buffer.o, flipped(target))
