"""The top of a board: PLL, reset, engine, link or processor, memory. No logic of its own."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from matloom.arch.config import Config
from matloom.arch.soc import MEMORY_BASE
from matloom_rtl.board.clocking import Clocking, Reset, pll_for, reset_both
from matloom_rtl.board.definition import Board
from matloom_rtl.board.memory import BlockMemory
from matloom_rtl.board.sdram import BoardSdram
from matloom_rtl.bus.slice import BusSlice
from matloom_rtl.fpga.vivado import BOARD_DEVICES
from matloom_rtl.link.core import LinkedCore
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.reset import near_reset
from matloom_rtl.soc.core import SocCore
from matloom_rtl.soc.settings import SocSettings

__all__ = ["BoardTop", "settings_for"]

#: How many times as fast one clock may be as the other: resets have to last for both.
_FARTHEST = 4


def settings_for(board: Board, clock_hz: int | None = None, baud: int | None = None):
    """Return PLL and link of a board, at another clock or rate where one is given.

    Errors
    ------
    ValueError
        The PLL cannot make the clocks, or the clock not the rate; clocks too far apart.
    """
    family = BOARD_DEVICES[board.device].family
    clock_hz = clock_hz or board.clock_hz
    pll = pll_for(family, board.input_hz, clock_hz, board.memory.clock_hz)
    _check_ratio(board, float(pll.output_hz) / 1e6, float(pll.second_hz) / 1e6)
    link = LinkSettings(
        clock_hz=round(pll.output_hz),
        board=board.name,
        memory_base=MEMORY_BASE,
        memory_bytes=board.memory.bytes,
        baud=baud or board.baud,
    )
    return pll, link


def _check_ratio(board: Board, engine_mhz: float, memory_mhz: float) -> None:
    if not engine_mhz / _FARTHEST <= memory_mhz <= engine_mhz * _FARTHEST:
        raise ValueError(
            f"memory.clock_hz of {board.name} must be a quarter to four times of the engine's "
            f"{engine_mhz:g} MHz, not {memory_mhz:g} MHz"
        )


class BoardTop(wiring.Component):
    """Everything between the pins of a board.

    Members
    -------
    clk: in
        The oscillator.
    uart_rx, uart_tx: in, out
        The line to the host, or the processor's.

    Parameters
    ----------
    soc:
        With it a processor is there in place of the host link.

    Where the board has an SDRAM, its pins are ports, too (`matloom_rtl.board.sdram`).
    """

    def __init__(
        self, board: Board, config: Config, pll, link: LinkSettings, soc: SocSettings | None = None
    ):
        self._board, self._config = board, config
        self._pll, self._link, self._soc = pll, link, soc
        super().__init__(
            {"clk": In(1), "uart_rx": In(1, init=1), "uart_tx": Out(1, init=1)},
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        family = BOARD_DEVICES[self._board.device].family
        has_sdram = self._board.memory.kind == "sdram"
        m.submodules.clocking = clocking = Clocking(family, self._pll, early=has_sdram)
        m.submodules.start = reset = Reset()
        m.submodules.linked = linked = self._linked()
        memory = self._sdram(m, clocking) if has_sdram else self._block_memory()
        if self._pll.second_divider:
            m.submodules.memory = DomainRenamer({"sync": "memory"})(memory)
            self._clock_memory(m, clocking, reset)
        else:
            m.submodules.memory = ResetInserter(near_reset(m, reset.reset, "memory"))(memory)
        m.d.comb += [
            clocking.source.eq(self.clk),
            ClockSignal().eq(clocking.clock),
            reset.locked.eq(clocking.locked),
            linked.reset.eq(near_reset(m, reset.reset, "linked")),
            linked.rx.eq(self.uart_rx),
            self.uart_tx.eq(linked.tx),
        ]
        if self._board.memory.sliced:
            bus = BusSlice(self._config.bus_bits)
            m.submodules.bus_slice = ResetInserter(near_reset(m, reset.reset, "slice"))(bus)
            connect(m, linked.axi_read, bus.bus_read)
            connect(m, linked.axi_write, bus.bus_write)
        else:
            bus = linked
        connect(m, bus.axi_read, memory.axi_read)
        connect(m, bus.axi_write, memory.axi_write)
        return m

    def _clock_memory(self, m: Module, clocking: Clocking, reset: Reset):
        """Clock and reset the domains on both sides of the crossing."""
        m.domains += [ClockDomain("bus"), ClockDomain("memory")]
        m.d.comb += [
            ClockSignal("bus").eq(clocking.clock),
            ClockSignal("memory").eq(clocking.memory),
        ]
        reset_both(m, reset.reset)

    def _linked(self):
        if self._soc is None:
            return LinkedCore(self._config, self._link)
        return SocCore(self._config, self._soc)

    def _block_memory(self):
        size = self._board.memory.bytes
        return BlockMemory(bus_bits=self._config.bus_bits, base=MEMORY_BASE, size=size)

    def _sdram(self, m: Module, clocking: Clocking):
        memory = BoardSdram(
            self._board.memory.part,
            family=BOARD_DEVICES[self._board.device].family,
            clock_hz=round(self._pll.second_hz),
            bus_bits=self._config.bus_bits,
            burst_beats=self._config.burst_beats,
            wired=self._board.memory.wired,
            bus="bus" if self._pll.second_divider else "sync",
        )
        m.d.comb += memory.clock.eq(clocking.early)
        return memory
