"""The Matloom engine for LiteX, read from `matloom.json` next to this file.

In the script of a SoC, before it is built::

    from matloom_litex import add_matloom

    add_matloom(soc)

Registers are then at `MATLOOM_BASE` of LiteX' ``generated/mem.h``, and the interrupt is
`MATLOOM_INTERRUPT` of ``generated/soc.h``.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import axi
from migen import ClockSignal, If, Instance, ResetSignal, Signal

__all__ = ["Matloom", "add_matloom"]


class Matloom(LiteXModule):
    """Matloom engine in the clock domain ``sys``.

    Members
    -------
    registers: litex.soc.interconnect.axi.AXILiteInterface
        Register window, `window_bytes` long; for a bus's `add_slave`.
    memory: litex.soc.interconnect.axi.AXIInterface
        Reads programs and data, writes results; for a bus's `add_master`.
    ev:
        Has the level interrupt `irq`, as LiteX' interrupt controller expects. Registers IRQ_ENABLE
        and IRQ_STATUS of the engine enable and clear it.

    Parameters
    ----------
    platform:
        LiteX platform, to which the Verilog is added.
    folder: pathlib.Path
        Folder that `matloom generate` wrote; by default the folder of this file.
    """

    def __init__(self, platform, folder=None):
        folder = Path(folder or Path(__file__).parent)
        chip = json.loads((folder / "matloom.json").read_text())
        self._ports = {port["name"]: port for port in chip["ports"]}
        buses = {name: item["signals"] for name, item in chip["interfaces"].items()}
        self.window_bytes = 1 << self._width(buses["s_axil"]["awaddr"])
        self.registers = axi.AXILiteInterface(
            data_width=self._width(buses["s_axil"]["wdata"]), address_width=32
        )
        self.memory = axi.AXIInterface(
            data_width=self._width(buses["m_axi"]["wdata"]),
            address_width=self._width(buses["m_axi"]["awaddr"]),
            id_width=self._width(buses["m_axi"]["awid"]),
            bursting=True,
        )
        irq = Signal()
        self.ev = SimpleNamespace(irq=irq)
        connections = {
            "i_clk": ClockSignal(),
            "i_rst": self._stretched_reset(),
            "o_irq": irq,
            **self._connect(self.registers, buses["s_axil"]),
            **self._connect(self.memory, buses["m_axi"]),
        }
        self.specials += Instance(chip["top"], **connections)
        platform.add_source(str(folder / f"{chip['top']}.v"))

    def _width(self, port):
        """Return the width of one of the engine's ports in bits."""
        return self._ports[port]["width"]

    def _stretched_reset(self):
        """Return a reset that lasts two cycles longer: the engine needs two, LiteX may give one."""
        left = Signal(2, reset=2)
        reset = Signal()
        self.sync += If(left != 0, left.eq(left - 1))
        self.comb += reset.eq(ResetSignal() | (left != 0))
        return reset

    def _connect(self, bus, signals):
        """Return the connections of a bus, by the engine's port, as arguments of `Instance`.

        LiteX' signals are cut to the width of the engine's ports.
        """
        found = {}
        for name, port in signals.items():
            channel, signal = re.fullmatch(r"(aw|ar|w|b|r)(\w+)", name).groups()
            value = getattr(getattr(bus, channel), signal)
            way = self._ports[port]["direction"][0]
            found[f"{way}_{port}"] = value[: self._width(port)]
        return found


def add_matloom(soc, name="matloom", origin=None, folder=None):
    """Add an engine to a SoC, with its registers, interrupt and access to memory; return it.

    Parameters
    ----------
    soc: litex.soc.integration.soc.SoC
        Interrupts are connected if it has any. The engine accesses memory through the processor's
        DMA bus if there is one, else through the SoC's bus.
    name: str
        Name of the module and of the region.
    origin: int
        Address of the registers; by default LiteX finds one.
    folder: pathlib.Path
        As for `Matloom`.
    """
    engine = Matloom(soc.platform, folder)
    setattr(soc, name, engine)
    region = SoCRegion(origin=origin, size=engine.window_bytes, cached=False)
    soc.bus.add_slave(name, engine.registers, region)
    getattr(soc, "dma_bus", soc.bus).add_master(f"{name}_memory", engine.memory)
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    return engine
