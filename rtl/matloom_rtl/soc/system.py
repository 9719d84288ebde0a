"""Registers that identify a system on chip, and record failed accesses."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from matloom.arch.soc import BOARD_BYTES, SOC_IDENTITY
from matloom_rtl.soc.cpu import CPUS
from matloom_rtl.soc.peripheral import PeripheralSignature, place_of
from matloom_rtl.soc.settings import SocSettings

__all__ = ["System"]


class System(wiring.Component):
    """Registers with constants of the board and processor, and the last failed access.

    Latency: ERRORS shows an access one cycle later. Reset clears it.

    Members
    -------
    port: PeripheralSignature, in
        Registers of SYSTEM (docs/soc.md).
    failed, address: in
        An access of the processor fails in this cycle, and its word address.
    """

    def __init__(self, settings: SocSettings):
        self._settings = settings
        super().__init__({"port": In(PeripheralSignature()), "failed": In(1), "address": In(30)})

    def _constants(self) -> dict[str, int]:
        """Return the values of registers that never change."""
        settings = self._settings.link
        name = settings.board.encode().ljust(BOARD_BYTES, b"\0")
        words = range(BOARD_BYTES // 4)
        return {
            "ID": SOC_IDENTITY,
            "CLOCK_HZ": settings.clock_hz,
            "MEMORY_BASE": settings.memory_base,
            "MEMORY_BYTES": settings.memory_bytes,
            "DATA_CACHE": CPUS[self._settings.cpu].data_cache_bytes,
            **{f"BOARD_{k}": int.from_bytes(name[4 * k : 4 * k + 4], "little") for k in words},
        }

    def elaborate(self, platform):
        """Return the module: constants, and registers of the last failed access."""
        m = Module()
        port = self.port
        failed = Signal()
        address = Signal(30)
        with m.Switch(port.place):
            for name, value in self._constants().items():
                with m.Case(place_of("SYSTEM", name)):
                    m.d.comb += port.value.eq(value)
            with m.Case(place_of("SYSTEM", "ERRORS")):
                m.d.comb += port.value.eq(failed)
                with m.If(port.write & port.data[0]):
                    m.d.sync += failed.eq(0)
            with m.Case(place_of("SYSTEM", "ERROR_ADDRESS")):
                m.d.comb += port.value.eq(Cat(Const(0, 2), address))
        with m.If(self.failed):
            m.d.sync += [failed.eq(1), address.eq(self.address)]
        return m
