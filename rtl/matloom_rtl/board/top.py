"""Top level of a board: PLL, reset, engine, link or processor, memory; no logic of its own."""

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from matloom.arch.config import Config
from matloom.arch.soc import MEMORY_BASE
from matloom.errors import UserError
from matloom_rtl.board.clocking import Clocking, Reset, pll_for
from matloom_rtl.board.definition import Board
from matloom_rtl.board.memory import BurstMemory
from matloom_rtl.board.pin_registers import LEAST_GEARED_HZ
from matloom_rtl.board.sdram import BoardSdram
from matloom_rtl.bus.slice import BusSlice
from matloom_rtl.fpga.vivado import BOARD_DEVICES
from matloom_rtl.link.core import LinkedCore
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.reset import near_reset
from matloom_rtl.soc.core import SocCore
from matloom_rtl.soc.settings import SocSettings

__all__ = ["BoardTop", "settings_for"]


def settings_for(board: Board, clock_hz: int | None = None, baud: int | None = None):
    """Return PLL and link settings of a board, optionally at another clock or bit rate.

    Raises
    ------
    ValueError
        The PLL cannot make the clocks, or the link cannot divide its clock to the rate; or an SDRAM
        with a gear of two is too slow for its pins.
    """
    family = BOARD_DEVICES[board.device].family
    clock_hz = clock_hz or board.clock_hz
    pll = pll_for(family, board.input_hz, clock_hz, board.memory.gear)
    if board.memory.gear == 2 and pll.output_hz < LEAST_GEARED_HZ:
        raise UserError(
            f"the clock of {board.name}, with memory.gear of 2, must be at least "
            f"{LEAST_GEARED_HZ / 1e6:g} MHz, not {float(pll.output_hz) / 1e6:g} MHz",
            hint="choose a faster clock: --freq MHZ",
        )
    link = LinkSettings(
        clock_hz=round(pll.output_hz),
        board=board.name,
        memory_base=MEMORY_BASE,
        memory_bytes=board.memory.bytes,
        baud=baud or board.baud,
    )
    return pll, link


class BoardTop(wiring.Component):
    """Top level of a board.

    If the board has an SDRAM, its pins are ports too (`matloom_rtl.board.sdram`).

    Members
    -------
    clk: in
        The oscillator.
    uart_rx, uart_tx: in, out
        Serial line of the host link, or of the processor.

    Parameters
    ----------
    soc:
        Settings of the processor that replaces the host link, if any.
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
        """Return the module: PLL, reset, core and external memory, connected to the pins."""
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        family = BOARD_DEVICES[self._board.device].family
        has_sdram = self._board.memory.kind == "sdram"
        m.submodules.clocking = clocking = Clocking(
            family, self._pll, early=has_sdram, gear=self._board.memory.gear
        )
        m.submodules.start = reset = Reset()
        m.submodules.linked = linked = self._linked_core()
        memory = self._sdram(m, clocking) if has_sdram else self._block_memory()
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

    def _linked_core(self):
        """Return the core: an engine with a host link, or the board's system on chip."""
        if self._soc is None:
            return LinkedCore(self._config, self._link)
        return SocCore(self._config, self._soc)

    def _block_memory(self):
        """Return the block RAM that serves as external memory."""
        size = self._board.memory.bytes
        return BurstMemory(bus_bits=self._config.bus_bits, base=MEMORY_BASE, size=size)

    def _sdram(self, m: Module, clocking: Clocking):
        """Return the controller of the board's SDRAM, with its early clock connected."""
        memory = BoardSdram(
            self._board.memory.part,
            family=BOARD_DEVICES[self._board.device].family,
            clock_hz=round(self._pll.output_hz),
            bus_bits=self._config.bus_bits,
            burst_beats=self._config.burst_beats,
            wired=self._board.memory.wired,
            gear=self._board.memory.gear,
        )
        m.d.comb += memory.clock.eq(clocking.early)
        return memory
