"""Compares our SDRAM controller with litedram's core, on one model of the SDRAM at one clock.

    python -m venv /tmp/litedram
    /tmp/litedram/bin/pip install litedram==2024.12 litex==2024.12 migen==0.10.0 pyyaml
    python bench/litedram.py /tmp/litedram/bin

Both serve an MT48LC16M16 over 16 bits to a 64-bit AXI port, as Verilog in Verilator, with the
harness of bench/yardstick. litedram serves only for comparison and is not a dependency: it is
installed in an environment of its own, given by its folder of programs. Its core is used as
generated, except for `sdram_dq`, which it declares as an input. Its SDRAM is initialised over its
Wishbone port in the order of the data sheet, because the sequence in its header breaks it. Its
SDRAM's clock lags by part of a cycle, as its PHY expects, so words arrive a cycle earlier than
with our clock in phase. Prints columns per cycle between the first and the last. Data are
compared; if the SDRAM's rules are broken, the rule is printed instead of a figure.
"""

import argparse
import csv
import ctypes
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import verilog

from matloom.arch.sdram import load_sdram
from matloom.arch.sdram_timing import SdramTiming
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.process import run
from matloom.toolchain.verilator import build_library
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.testing import HARNESS, RULES, shape_of

FOLDER = Path(__file__).with_name("yardstick")

PART, BUS_BITS, BURST_BEATS = load_sdram("MT48LC16M16A2"), 64, 32

#: MHz; the CAS latency is the least that the part allows, for both.
CLOCKS = (85, 133)

#: Bits of litedram's DFI registers.
_SELECT, _CKE, _ODT, _RESET_N = 1, 2, 4, 8
_CS, _WE, _CAS, _RAS = 1, 2, 4, 8

#: Bytes of each direction, as in test_efficiency of rtl/tests/sdram/test_controller.py.
_SIZE = 1 << 13

Bursts = list[tuple[int, int]]


class _Result(ctypes.Structure):
    """Measurements of a simulation, as the C wrapper of a controller fills them in."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("first", "last", "columns", "activations")),
        *((name, ctypes.c_uint64) for name in ("refreshes", "edge", "wrong")),
        ("breach", ctypes.c_uint32),
    )


@dataclass(frozen=True, kw_only=True)
class Core:
    """An SDRAM controller as a Verilator library.

    Members: the library, the register writes that initialise the controller, columns per command,
    and whether the SDRAM's clock lags.
    """

    library: Any
    csrs: Sequence[tuple[int, int, int]]
    burst: int
    late: bool


def _full_bursts(start: int) -> Bursts:
    """Return bursts of 32 beats, one after another."""
    step = BURST_BEATS * BUS_BITS // 8
    return [(start + place, BURST_BEATS) for place in range(0, _SIZE, step)]


def traffic_patterns() -> dict[str, tuple[Bursts, Bursts]]:
    """Return pairs of reads and writes, by name of the pattern.

    The patterns are those of test_efficiency, and short bursts.
    """
    rows = [(row * PART.row_bytes, 4) for row in range(_SIZE // 32)]
    chance = random.Random(0)
    anywhere = [(chance.randrange(1 << 15) * 32, 4) for _ in range(_SIZE // 32)]
    return {
        "read": (_full_bursts(0), []),
        "write": ([], _full_bursts(3 * _SIZE)),
        "mixed": (_full_bursts(0), _full_bursts(3 * _SIZE)),
        "scattered": (rows, []),
        "random": (anywhere, []),
    }


def _build(folder: Path, wrapper: str, sources: Sequence[Path]) -> Any:
    """Build the simulation of a controller as a shared library; load and return it."""
    library = build_library(
        [*sources, FOLDER / wrapper],
        "yardstick",
        [FOLDER / "harness.cpp"],
        folder / "yardstick.so",
        flags=["--pins-inout-enables", "-CFLAGS", f"-I{HARNESS}"],
    )
    return ctypes.CDLL(str(library))


def our_controller(folder: Path, mhz: int) -> Core:
    """Build this project's controller for a clock in MHz, and return it."""
    controller = SdramController(
        PART, clock_hz=mhz * 10**6, bus_bits=BUS_BITS, burst_beats=BURST_BEATS
    )
    source = folder / "controller.v"
    source.write_text(verilog.convert(controller, name="controller", emit_src=False))
    library = _build(folder, "matloom.v", [source])
    return Core(library=library, csrs=(), burst=controller.plan.burst, late=False)


def _configuration(mhz: int, options: dict[str, Any]) -> str:
    """Return the configuration file of litedram_gen, YAML that is also JSON."""
    return json.dumps(
        {
            "cpu": "None",
            "device": "LFE5U-85F-6BG381C",
            "speedgrade": -1,
            "memtype": "SDR",
            "sdram_module": "MT48LC16M16",
            "sdram_module_nb": 2,
            "sdram_rank_nb": 1,
            "sdram_phy": "GENSDRPHY",
            "input_clk_freq": mhz * 10**6,
            "sys_clk_freq": mhz * 10**6,
            "user_ports": {"0": {"type": "axi", "data_width": BUS_BITS, "id_width": 1}},
            **options,
        }
    )


def _initialisation(registers: dict[str, int], timing: SdramTiming) -> list[tuple[int, int, int]]:
    """Return the register writes that initialise the SDRAM and end with `init_done`.

    Each is a tuple: word address, data, and cycles to wait before it.
    """
    writes: list[tuple[int, int, int]] = []

    def write(name: str, data: int, wait: int = 0) -> None:
        """Append a write of `data` to a register, and `wait` cycles after it."""
        writes.append((registers[name] // 4, data, wait))

    def command(bits: int, address: int, wait: int) -> None:
        """Append the writes that issue an SDRAM command, and `wait` cycles after it."""
        write("sdram_dfii_pi0_address", address, wait)
        write("sdram_dfii_pi0_baddress", 0)
        write("sdram_dfii_pi0_command", bits)
        write("sdram_dfii_pi0_command_issue", 1)

    write("sdram_dfii_control", _CKE | _ODT | _RESET_N)
    command(_CS | _RAS | _WE, 1 << 10, timing.power_up)
    for _ in range(timing.initial_refreshes):
        command(_CS | _RAS | _CAS, 0, timing.rfc)
    command(_CS | _RAS | _CAS | _WE, timing.cas_latency << 4, timing.rfc)
    write("sdram_dfii_control", _SELECT, timing.mrd)
    write("ddrctrl_init_done", 1)
    return writes


def litedram_controller(folder: Path, programs: Path, mhz: int, options: dict[str, Any]) -> Core:
    """Build litedram's controller for a clock in MHz, and return it."""
    (folder / "core.yml").write_text(_configuration(mhz, options))
    run([programs / "litedram_gen", folder / "core.yml", "--output-dir", folder / "core"])
    source = folder / "core" / "gateware" / "litedram_core.v"
    declared = "input  wire   [15:0] sdram_dq"
    text = source.read_text()
    if declared not in text:
        raise SystemExit(f"litedram's core must declare {declared!r}, and does not")
    source.write_text(text.replace(declared, "inout wire [15:0] sdram_dq"))
    header = (folder / "core" / "software" / "include" / "generated" / "sdram_phy.h").read_text()
    timing = PART.timing(mhz * 10**6)
    if f"#define SDRAM_PHY_CL {timing.cas_latency}\n" not in header:
        raise SystemExit(f"litedram's core must have CAS latency {timing.cas_latency}")
    with (folder / "core" / "csr.csv").open() as lines:
        rows = [row for row in csv.reader(lines) if row[0] == "csr_register"]
    registers = {row[1]: int(row[2], 16) for row in rows}
    return Core(
        library=_build(folder, "litedram.v", [source]),
        csrs=_initialisation(registers, timing),
        burst=1,
        late=True,
    )


def _words(rows: Sequence[tuple[int, ...]], width: int) -> Any:
    """Return rows of 32-bit words as a flat ctypes array."""
    flat = [value for row in rows for value in row]
    return (ctypes.c_uint32 * max(1, width * len(rows)))(*flat)


def measure(core: Core, mhz: int, reads: Bursts, writes: Bursts) -> str:
    """Return the percentage of cycles that transfer a column, as text.

    If an SDRAM rule was broken or data were wrong, the text says so instead.
    """
    shape, result = shape_of(PART, PART.timing(mhz * 10**6)), _Result()
    core.library.yardstick(
        ctypes.byref(shape),
        *(_words(core.csrs, 3), ctypes.c_uint32(len(core.csrs))),
        *(_words(reads, 2), ctypes.c_uint32(len(reads))),
        *(_words(writes, 2), ctypes.c_uint32(len(writes))),
        ctypes.c_uint32(core.late),
        ctypes.byref(result),
    )
    columns = sum(beats for _, beats in reads + writes) * BUS_BITS // PART.data_bits
    if result.breach:
        return f"{RULES[result.breach]} broken at edge {result.edge}"
    if result.wrong or result.columns != columns:
        return f"{result.wrong} bytes wrong, {result.columns} columns of {columns}"
    return f"{result.columns / (result.last - result.first + core.burst):.1%}"


def main() -> None:
    """Measure both at each clock and print a row for each controller."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", type=Path, help="folder with litedram_gen")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="another value in litedram's configuration, such as cmd_buffer_depth=16",
    )
    chosen = parser.parse_args()
    pairs = (option.partition("=") for option in chosen.option)
    options = {name: json.loads(value) for name, _, value in pairs}
    print("Verilator", find_verilator().version)
    print("| clock | controller |", " | ".join(traffic_patterns()), "|")
    for mhz in CLOCKS:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            cores = {
                "ours": our_controller(Path(first), mhz),
                "litedram": litedram_controller(Path(second), chosen.programs, mhz, options),
            }
            for name, core in cores.items():
                shares = [measure(core, mhz, *bursts) for bursts in traffic_patterns().values()]
                print(f"| {mhz} MHz | {name} |", " | ".join(shares), "|", flush=True)


if __name__ == "__main__":
    main()
