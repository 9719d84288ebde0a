"""A million cycles of random traffic through the Verilog, with the model in the same process."""

import ctypes
import dataclasses
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.sdram import load_sdram
from matloom.toolchain.verilator import build_library
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.testing import HARNESS, RULES, shape_of

#: Part, MHz, bus bits, and cycles of the SDRAM in one where they are two.
CASES = [
    ("IS42S16160", 85, 64),
    ("IS42S16160", 140, 32),
    ("2 x M12L16161A", 75, 128),
    ("GW2AR-18", 54, 32),
    ("IS42S16160", 71, 64, 2),
    ("2 x M12L16161A", 62, 64, 2),
]
PINS = ("clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm")


class Flat(wiring.Component):
    """A controller with plain ports, as soak.cpp names them."""

    def __init__(self, controller):
        self._controller = controller
        bits, pins = controller.plan.bus_bits, controller.pins
        address = {"valid": In(1), "ready": Out(1), "id": In(1), "addr": In(32), "len": In(8)}
        data, strobes = In(bits), In(bits // 8)
        ports = {
            "ar": address,
            "aw": address,
            "w": {"valid": In(1), "ready": Out(1), "data": data, "strb": strobes},
            "r": {"valid": Out(1), "ready": In(1), "id": Out(1), "data": Out(bits), "last": Out(1)},
            "b": {"valid": Out(1), "ready": In(1), "id": Out(1)},
            "dq": {"i": In(pins.dq.i.shape()), "o": Out(pins.dq.o.shape()), "oe": Out(1)},
        }
        flat = {f"{group}_{name}": port for group in ports for name, port in ports[group].items()}
        super().__init__(flat | {name: Out(getattr(pins, name).shape()) for name in PINS})

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = dut = self._controller
        for bus, channels in ((dut.axi_read, ("ar", "r")), (dut.axi_write, ("aw", "w", "b"))):
            for name in channels:
                self._channel(m, name, getattr(bus, name), inward=name in ("ar", "aw", "w"))
        m.d.comb += [getattr(self, name).eq(getattr(dut.pins, name)) for name in PINS]
        m.d.comb += [
            dut.pins.dq.i.eq(self.dq_i),
            self.dq_o.eq(dut.pins.dq.o),
            self.dq_oe.eq(dut.pins.dq.oe),
        ]
        return m

    def _channel(self, m, name, channel, *, inward):
        fields = {
            member: (getattr(self, f"{name}_{member}"), channel.payload[member])
            for member in ("id", "addr", "len", "data", "strb", "last")
            if hasattr(self, f"{name}_{member}")
        }
        fields["valid"] = (getattr(self, f"{name}_valid"), channel.valid)
        ready = getattr(self, f"{name}_ready"), channel.ready
        for outer, inner in fields.values():
            m.d.comb += inner.eq(outer) if inward else outer.eq(inner)
        m.d.comb += ready[0].eq(ready[1]) if inward else ready[1].eq(ready[0])


def build(case, folder, **wrong):
    """Return the library, and the dimensions of its SDRAM."""
    name, mhz, bus_bits, *geared = case
    part, gear = load_sdram(name), geared[0] if geared else 1
    timing = dataclasses.replace(part.timing_of_gear(mhz * 10**6, gear), power_up=300)
    controller = SdramController(
        part,
        clock_hz=mhz * 10**6,
        bus_bits=bus_bits,
        burst_beats=16,
        timing=dataclasses.replace(timing, **wrong),
        gear=gear,
    )
    source = folder / "soak.v"
    source.write_text(verilog.convert(Flat(controller), name="soak", emit_src=False))
    defines = f"-DSOAK_BUS_BYTES={bus_bits // 8} -DSOAK_GEAR={gear}"
    flags = ["-CFLAGS", f"-I{HARNESS}", "-CFLAGS", defines]
    harness = Path(__file__).with_name("soak.cpp")
    path = build_library([source], "soak", [harness], folder / "soak.so", flags=flags, jobs=1)
    return ctypes.CDLL(str(path)), shape_of(part, timing)


def soak(library, shape, seed, cycles, reset_every):
    counts, breach = (ctypes.c_uint64 * 4)(), ctypes.c_uint32()
    wrong = library.soak(
        ctypes.byref(shape),
        ctypes.c_uint32(1 << 17),
        ctypes.c_uint64(seed),
        ctypes.c_uint64(cycles),
        ctypes.c_uint32(reset_every),
        counts,
        ctypes.byref(breach),
    )
    return wrong, RULES[breach.value], list(counts)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_million_cycles(case, seed, tmp_path):
    library, shape = build(case, tmp_path)
    wrong, breach, counts = soak(library, shape, seed, 1_000_000, 20_000)
    print(counts)
    assert (wrong, breach) == (0, "none")
    reads, writes, resets, cycles = counts
    assert cycles == 1_000_000
    assert min(reads, writes) > 30_000
    assert resets > 10


@pytest.mark.slow
def test_a_broken_controller_is_noticed(tmp_path):
    """The harness can fail: this controller opens rows a cycle too late for their columns."""
    library, shape = build(CASES[1], tmp_path, rcd=2)
    assert soak(library, shape, 1, 100_000, 0)[:2] == (1, "tRCD")
