"""SDRAM of a board on an AXI4 port: the controller, and a register at every pin.

The SDRAM's clock is driven through a DDR register, from a PLL output that is up to an eighth of a
cycle early. The delay from register to pin is the same for clock, commands and data. So commands
and data change at the SDRAM after its clock edge, later by the lead of the clock, which is the hold
time. A word from the SDRAM arrives tAC after the edge, in the cycle in which its register captures
it. The registers are in the pins instead of next to the controller, because nextpnr does not know
the delays of wires to pins; this way they do not matter.

With a gear of two the pins have DDR registers, and the SDRAM's clock is twice as fast as the logic.
Its rising edges are in the middle of each word, half of its own cycle late. No logic runs that
fast.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, IOPort, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from matloom.arch.sdram import load_sdram
from matloom_rtl.board.pin_registers import PIN_REGISTERS
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.merge import Merge
from matloom_rtl.sdram.pins import SdramPinsSignature

__all__ = ["BoardSdram", "port_widths"]

#: Pins that are active low.
_ACTIVE_LOW = ("cs", "ras", "cas", "we")


def port_widths(part: str, wired: Collection[str] = ()) -> dict[str, int]:
    """Return the number of pins of each SDRAM signal, by its name in `SDRAMResource`.

    Signals in `wired` have no pins and are left out.
    """
    members = SdramPinsSignature(load_sdram(part)).members
    names = ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm")
    data_bits = load_sdram(part).data_bits
    pins = {name: members[name].shape for name in names if name not in wired}
    return {"clk": 1, **pins, "dq": data_bits}


@dataclass(frozen=True, kw_only=True)
class _DataPin:
    """Controller signals of a data pin: `o` and `i` have one bit per word, `oe` enables output."""

    o: Any
    oe: Any
    i: Any


class BoardSdram(wiring.Component):
    """SDRAM of a board on an AXI4 port, in the clock domain `sync`.

    The pins become ports of the top module, named ``sdram_`` and a name of `port_widths`. A reset
    initialises the SDRAM again, so its contents are lost.

    Latency, throughput and stalls: those of `SdramController`, and of `Merge` if the masks are tied
    off.

    Parameters
    ----------
    part:
        As in `load_sdram`.
    family:
        Family of the device, a key of `PIN_REGISTERS`.
    clock_hz, bus_bits, burst_beats, gear:
        As in `SdramController`.
    wired:
        Signals without pins, because the board ties them off. If these include the masks, beats
        with missing strobes are read before they are written (`Merge`).

    Members
    -------
    clock: in
        Clock of the SDRAM: as fast as `sync` and slightly early; with a gear of two, twice as fast
        and half of its own cycle late.
    axi_read, axi_write: AxiReadSignature(bus_bits), AxiWriteSignature(bus_bits), in
        The bus.
    """

    def __init__(
        self,
        part: str,
        *,
        family: str,
        clock_hz: int,
        bus_bits: int,
        burst_beats: int,
        wired: Collection[str] = (),
        gear: int = 1,
    ):
        self._gear = gear
        self._registers = PIN_REGISTERS[family, gear]
        self._widths = port_widths(part, wired)
        self._merge = Merge(bus_bits) if "dqm" in wired else None
        self._controller = SdramController(
            load_sdram(part),
            clock_hz=clock_hz,
            bus_bits=bus_bits,
            burst_beats=burst_beats,
            pin_cycles=self._registers.cycles,
            gear=gear,
        )
        super().__init__(
            {
                "clock": In(1),
                "axi_read": In(AxiReadSignature(bus_bits)),
                "axi_write": In(AxiWriteSignature(bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: the SDRAM controller, with registers at the pins."""
        m = Module()
        m.submodules.controller = controller = self._controller
        bus = self._bus(m, controller)
        connect(m, flipped(self.axi_read), bus.axi_read)
        connect(m, flipped(self.axi_write), bus.axi_write)
        ports = {name: IOPort(width, name=f"sdram_{name}") for name, width in self._widths.items()}
        for name, port in ports.items():
            if name == "clk":
                self._registers.clock(m, self.clock, port)
            elif name == "dq":
                self._data_pins(m, port, controller.pins.dq)
            else:
                self._output_pins(m, name, port, getattr(controller.pins, name))
        return m

    def _bus(self, m: Module, controller: SdramController):
        """Return the unit that serves the bus: the controller, or a `Merge` in front of it.

        A board whose SDRAM has no mask pins needs the `Merge`, which completes partial writes.
        """
        if self._merge is None:
            return controller
        merge = self._merge
        m.submodules.merge = merge
        connect(m, merge.memory_read, controller.axi_read)
        connect(m, merge.memory_write, controller.axi_write)
        return merge

    def _output_pins(self, m: Module, name: str, port: IOPort, value):
        """Drive the output pins `port` of the SDRAM signal `name` from `value`, bit by bit."""
        low = name in _ACTIVE_LOW
        for bit in range(len(port)):
            driven = ~value[bit] if low else value[bit]
            words = (driven, *[Const(1) if low else driven] * (self._gear - 1))
            if name == "dqm":
                words = self._bits_of_pin(value, bit)
            self._registers.output(m, f"{name}_{bit}", words, port[bit], begins=int(low))

    def _data_pins(self, m: Module, port: IOPort, dq):
        """Connect the bidirectional data pins `port` to the controller's data signals `dq`."""
        for bit in range(len(port)):
            o, i = self._bits_of_pin(dq.o, bit), self._bits_of_pin(dq.i, bit)
            signals = _DataPin(o=o, oe=dq.oe, i=i)
            self._registers.bidirectional(m, f"dq_{bit}", signals, port[bit])

    def _bits_of_pin(self, value, pin: int):
        """Return the bits of a pin: bit `pin` of each word in `value`."""
        return value[pin :: len(value) // self._gear]
