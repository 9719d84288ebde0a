"""Processor: a VexRiscv, whose Verilog comes from a Python package."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.soc import region
from matloom.errors import MissingPackageError
from matloom_rtl.soc.wishbone import WishboneSignature

__all__ = ["CPUS", "Cpu", "CpuKind", "cpu_source"]


@dataclass(frozen=True)
class CpuKind:
    """Kind of processor that the package provides.

    Members
    -------
    file:
        Name of its Verilog file.
    data_cache_bytes:
        Size of its data cache; 0 if there is none.
    bit_cycles:
        Shortest bit of the serial line, in cycles, at which the firmware never loses a byte. In
        simulation the boot ROM takes 100 cycles per byte with `default`, about 220 with `lite`.
    """

    file: str
    data_cache_bytes: int
    bit_cycles: int


#: Kinds of processor by name; all have multiplication and division, and run the same images.
CPUS = {
    "default": CpuKind("VexRiscv.v", 4096, 12),
    "lite": CpuKind("VexRiscv_Lite.v", 0, 30),
}

_PACKAGE = "pythondata_cpu_vexriscv"


def cpu_source(name: str) -> Path:
    """Return the path of the Verilog file of one of `CPUS`.

    Raises
    ------
    MissingPackageError
        Its package is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError(_PACKAGE.replace("_", "-"), "a system on chip")
    return Path(spec.submodule_search_locations[0]) / "verilog" / CPUS[name].file


class Cpu(wiring.Component):
    """VexRiscv processor, any of `CPUS`, which starts at the boot ROM.

    It treats `err` like `ack`, because its buses have no error responses. Caches read lines of
    32 bytes in bursts of eight words (`cti`); writes go through, word by word.

    Members
    -------
    reset: in
        Synchronous.
    interrupt, timer: in
        Level-sensitive: external interrupt 0, and the timer interrupt.
    instructions, data: WishboneSignature, out
    """

    def __init__(self):
        super().__init__(
            {
                "reset": In(1),
                "interrupt": In(1),
                "timer": In(1),
                "instructions": Out(WishboneSignature()),
                "data": Out(WishboneSignature()),
            }
        )

    def elaborate(self, platform):
        """Return the module: an instance of the processor's Verilog module."""
        m = Module()
        ports = {**_bus("iBus", self.instructions), **_bus("dBus", self.data)}
        m.submodules.vexriscv = Instance(
            "VexRiscv",
            i_clk=ClockSignal(),
            i_reset=self.reset,
            i_externalResetVector=Const(region("ROM").base, 32),
            i_timerInterrupt=self.timer,
            i_softwareInterrupt=Const(0),
            i_externalInterruptArray=Cat(self.interrupt, Const(0, 31)),
            **ports,
        )
        return m


def _bus(name: str, bus) -> dict:
    """Return the ports of a bus of VexRiscv, as arguments of `Instance`."""
    outputs = {
        "CYC": bus.cyc,
        "STB": bus.stb,
        "WE": bus.we,
        "ADR": bus.adr,
        "SEL": bus.sel,
        "CTI": bus.cti,
        "BTE": Signal(2, name=f"{name}_bte"),
        "DAT_MOSI": bus.dat_w,
    }
    inputs = {"DAT_MISO": bus.dat_r, "ACK": bus.ack | bus.err, "ERR": Const(0)}
    return {
        **{f"o_{name}Wishbone_{key}": value for key, value in outputs.items()},
        **{f"i_{name}Wishbone_{key}": value for key, value in inputs.items()},
    }
