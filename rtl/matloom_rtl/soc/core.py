"""System on chip: the engine and a processor, sharing one port of external memory."""

from amaranth.hdl import Cat, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from matloom.arch.config import Config
from matloom.arch.soc import INTERRUPTS, PERIPHERALS, region
from matloom_rtl.bus.axi import AxiReadSignature, AxiWriteSignature
from matloom_rtl.core import Core
from matloom_rtl.soc.block_memory import BlockMemory
from matloom_rtl.soc.bus_arbiter import BusArbiter
from matloom_rtl.soc.bus_decoder import BusDecoder
from matloom_rtl.soc.cpu import Cpu
from matloom_rtl.soc.interrupts import Interrupts
from matloom_rtl.soc.memory_arbiter import MemoryArbiter
from matloom_rtl.soc.memory_bridge import MemoryBridge
from matloom_rtl.soc.peripheral import PeripheralBridge
from matloom_rtl.soc.settings import SocSettings
from matloom_rtl.soc.system import System
from matloom_rtl.soc.timer import Timer
from matloom_rtl.soc.uart import Uart
from matloom_rtl.soc.wishbone import RegisterBridge

__all__ = ["SocCore"]

#: Targets on the processor's bus, and their regions.
_TARGETS = {
    "rom": ("ROM",),
    "ram": ("RAM",),
    "memory": ("MEMORY", "UNCACHED"),
    "engine": ("ENGINE",),
    "peripherals": tuple(PERIPHERALS),
}


class SocCore(wiring.Component):
    """System on chip (docs/soc.md), with the ports of `matloom_rtl.link.core.LinkedCore`.

    Members
    -------
    reset: in
        As in `Core`.
    rx, tx: in, out
        Serial line of the processor.
    axi_read, axi_write: AxiReadSignature, AxiWriteSignature, out
        External memory, which must respond in address order.
    """

    def __init__(self, config: Config, settings: SocSettings):
        self._config, self._settings = config, settings
        super().__init__(
            {
                "reset": In(1),
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "axi_read": Out(AxiReadSignature(config.bus_bits)),
                "axi_write": Out(AxiWriteSignature(config.bus_bits)),
            }
        )

    def elaborate(self, platform):
        """Return the module: engine, processor, memories and peripherals, and their buses."""
        m = Module()
        m.submodules.core = core = Core(self._config)
        m.d.comb += core.reset.eq(self.reset)
        unit = self._adder(m)
        cpu = m.submodules.cpu = Cpu()
        m.d.comb += cpu.reset.eq(self.reset)
        bus_arbiter = unit("turns", BusArbiter())
        connect(m, cpu.data, bus_arbiter.first)
        connect(m, cpu.instructions, bus_arbiter.second)
        targets = self._targets(m, unit, bus_arbiter.bus)
        self._memories(m, unit, targets)
        self._connect_memory(m, unit, core, targets["memory"])
        registers = unit("registers", RegisterBridge())
        connect(m, targets["engine"], registers.wishbone)
        connect(m, registers.axi_lite, core.axi_lite)
        self._peripherals(m, unit, targets["peripherals"], cpu, core, bus_arbiter.bus)
        return m

    def _adder(self, m: Module):
        """Return a function that adds a component, which `reset` resets, as a named submodule."""

        def unit(name, component):
            """Add a component that `reset` resets as submodule `name`; return it."""
            m.submodules[name] = ResetInserter(self.reset)(component)
            return component

        return unit

    def _targets(self, m: Module, unit, bus):
        """Add the address decoder of the CPU's bus; return its target buses by name."""
        regions = tuple(tuple(region(name) for name in names) for names in _TARGETS.values())
        decoder = unit("decoder", BusDecoder(regions))
        connect(m, bus, decoder.bus)
        return {name: getattr(decoder, f"target_{k}") for k, name in enumerate(_TARGETS)}

    def _memories(self, m: Module, unit, targets):
        """Add the ROM and the RAM as block memories on their target buses."""
        rom = unit("rom", BlockMemory(region("ROM").bytes, self._settings.rom, writable=False))
        ram = unit("ram", BlockMemory(region("RAM").bytes, writable=True))
        connect(m, targets["rom"], rom.wishbone)
        connect(m, targets["ram"], ram.wishbone)

    def _connect_memory(self, m: Module, unit, core, target):
        """Connect engine and CPU to external memory, the CPU by a bus bridge."""
        bits = self._config.bus_bits
        bridge, arbiter = unit("bridge", MemoryBridge(bits)), unit("arbiter", MemoryArbiter(bits))
        connect(m, target, bridge.wishbone)
        connect(m, core.axi_read, arbiter.engine_read)
        connect(m, core.axi_write, arbiter.engine_write)
        connect(m, bridge.axi_read, arbiter.cpu_read)
        connect(m, bridge.axi_write, arbiter.cpu_write)
        connect(m, arbiter.axi_read, flipped(self.axi_read))
        connect(m, arbiter.axi_write, flipped(self.axi_write))

    def _peripherals(self, m: Module, unit, target, cpu, core, bus):
        """Add the UART, timer, interrupt controller and system registers, and their bus bridge."""
        link = self._settings.link
        uart, timer = Uart(link.divisor), Timer()
        interrupts, system = Interrupts(), System(self._settings)
        parts = {"UART": uart, "TIMER": timer, "INTERRUPTS": interrupts, "SYSTEM": system}
        bridge = unit(
            "peripherals", PeripheralBridge(tuple(region(name).base >> 12 & 15 for name in parts))
        )
        connect(m, target, bridge.wishbone)
        for index, (name, part) in enumerate(parts.items()):
            connect(m, getattr(bridge, f"peripheral_{index}"), unit(name.lower(), part).port)
        asks = {"engine": core.irq, "uart": uart.irq, "timer": timer.irq}
        m.d.comb += [
            uart.rx.eq(self.rx),
            self.tx.eq(uart.tx),
            interrupts.sources.eq(Cat(asks[name] for name, _ in INTERRUPTS)),
            cpu.interrupt.eq(interrupts.irq),
            cpu.timer.eq(timer.irq),
            system.failed.eq(bus.err),
            system.address.eq(bus.adr),
        ]
