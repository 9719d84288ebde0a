"""Synthesises, places and routes a chip, and reads the tools' reports."""

import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matloom.arch.blocks import columns_in_tables
from matloom.sealed import intact, seal
from matloom_rtl.fpga.absorb import absorb
from matloom_rtl.fpga.choices import join_choices
from matloom_rtl.fpga.devices import DEVICES, FAMILIES, Device
from matloom_rtl.fpga.hints import add_hints
from matloom_rtl.fpga.multipliers import (
    REGISTERED_PRODUCT,
    REGISTERED_PRODUCT_BLOCKS,
    SOFT_MULTIPLIER,
    select_columns,
)
from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap
from matloom_rtl.fpga.place import SEED, Netlist, cores, place_and_route, summary
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find, run
from matloom_rtl.fpga.units import area_by_unit, is_top, read_cells, total
from matloom_rtl.generate import TOP_NAME, Chip
from matloom_rtl.netlist_digest import netlist_digest

__all__ = [
    "DEVICES",
    "FAMILIES",
    "Device",
    "Effort",
    "build",
    "build_report",
    "soft_columns",
    "synthesise",
    "tool_versions",
    "unit_report",
]

#: How tables are made for an ECP5: as `synth_ecp5` has it, with what a wire takes once routed (850
#: ps where Yosys has 300), and no faster than the clock needs (9 ns between registers): else all
#: are as fast as the slowest path allows, for more tables.
_FAST_TABLES = "techmap -map +/lattice/latches_map.v; abc9 -W 850 -D 9000"

#: The seal of a netlist that is kept.
_SEAL = "synthesised.digests"

#: How often a report asks for less than a clock that connections are too late for.
_SLOWER_TRIES = 4


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
    loops of logic; where the netlist lies; and which `mapper` made the tables.

    Parameters
    ----------
    soft_columns
        Columns of the array whose products are made of lookup tables; for `ecp5`.
    abc9
        Tables are made by ABC9, which knows delays. Where it fails, as it does for some large
        designs, or is not wanted, those for `ecp5` are made by ABC, which takes more of them.
    """
    (folder / "chip.v").write_text(verilog)
    steps = ["read_verilog chip.v"]
    if family in REGISTERED_PRODUCT_BLOCKS:
        steps = _place_products(top, family, folder, soft_columns)
    netlist = f"{family}.json"
    make, rest = f"{FAMILIES[family]} -top {top}", f"-json {netlist}"
    if family == "ecp5":
        tables = _FAST_TABLES if abc9 else "abc -lut 4:7 -dress"
        steps += [f"{make} -run begin:map_luts", tables, "clean"]
        rest += " -run map_cells:"
    # What the WebAssembly build says after ABC9 does not come, so files take it.
    files = ["tee -q -o stat.json stat -json", "tee -q -o check.txt check"]
    command = [find(YOSYS).path, "-p", "; ".join([*steps, f"{make} {rest}", *files])]
    try:
        log = run(command, folder, f"{family}.log", say) + (folder / "check.txt").read_text()
    except FlowError as error:
        if family != "ecp5" or not abc9 or not _ended_in_abc9(folder / f"{family}.log"):
            raise
        say(f"{error}; tables by ABC instead of ABC9")
        return synthesise(verilog, top, family, folder, say, soft_columns, abc9=False)
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    found = {
        "latches": re.findall(r"^Latch inferred for signal `(\S+)'", log, re.MULTILINE),
        "conflicts": re.findall(r"multiple conflicting drivers for (.*):$", log, re.MULTILINE),
        "loops": re.findall(r"found logic loop in (.*):$", log, re.MULTILINE),
    }
    # What is no design is left as it is: a loop has no first table.
    if family == "ecp5" and not any(found.values()):
        cells = _absorb(folder / netlist)
    mapper = "abc9" if abc9 else "abc"
    return {"cells": cells, **found, "netlist": folder / netlist, "mapper": mapper}


def _ended_in_abc9(log: Path) -> bool:
    """Return whether the last pass that Yosys started is one of ABC9's."""
    return re.findall(r"Executing (\w+)", log.read_text())[-1:] == ["ABC9"]


def _absorb(path: Path) -> dict[str, int]:
    """Optimise a netlist file with `absorb`; return the cells by type."""
    netlist = json.loads(path.read_text())
    (top,) = (each for each in netlist["modules"].values() if is_top(each))
    absorb(top["cells"], top["ports"])
    join_choices(top["cells"], top["ports"])
    path.write_text(json.dumps(netlist))
    return dict(Counter(cell["type"] for cell in top["cells"].values()))


def _place_products(top: str, family: str, folder: Path, soft_columns: int) -> list[str]:
    """Return Yosys' steps that read a chip and map its products.

    Pattern and chip must have the widths of the operands, not of the result. What the registers
    hold at first does not matter, but would hide them from the pattern.
    """
    for name, text in (
        ("soft_multiplier.v", SOFT_MULTIPLIER),
        ("registered_product.v", REGISTERED_PRODUCT),
        ("registered_product_block.v", REGISTERED_PRODUCT_BLOCKS[family]),
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


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Effort of placement and routing.

    Members
    -------
    seeds:
        Placement seeds; each gives a different clock, and some fail to route.
    jobs:
        Processes at a time.
    folder:
        Where netlist, placements and routings are kept, from which a later call goes on; None:
        nowhere.
    checkpoints:
        Whether the placement is kept, too, and read back to be routed. For routings of hours:
        nextpnr 0.11 routes an ECP5 from there to a lower clock than in one go, a small design by
        a tenth.
    """

    seeds: tuple[int, ...] = (SEED,)
    jobs: int = field(default_factory=cores)
    folder: Path | None = None
    checkpoints: bool = False


def build_report(
    chip: Chip,
    device: Device,
    say: Callable[[str], None] = print,
    effort: Effort | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Synthesise, place and route a chip in a few-pin wrapper; return two reports.

    The first has area, clock and path after routing, the second (`unit_report`) the area of the
    netlist by unit.

    Clock: Fmax in MHz as nextpnr reports it after routing, for the grade of the device, of the
    fastest seed; the median; and each seed's. All are None where no routing came to an end. What is
    routed for the clock that `device` asks for may be faster, and is no slower by much. Takes
    minutes for a small chip and seed, and most of an hour for one that fills the device.
    """
    started = time.monotonic()
    columns = soft_columns(chip, device)
    found = build(wrap(chip.verilog), device, say, effort, columns)
    report = {
        **_identity(chip, device),
        "options": list(device.options),
        "top": TOP_NAME,
        "columns_in_tables": columns,
        "mapper": found["mapper"],
        **found["routed"],
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    return report, unit_report(chip, device, found["units"])


def soft_columns(chip: Chip, device: Device) -> int:
    """Return how many of a chip's columns must multiply in tables, if the device allows it."""
    return device.soft_multiplier and columns_in_tables(chip.config, device.capacity["DSP"])


def unit_report(chip: Chip, device: Device, units: dict[str, dict[str, float]]) -> dict:
    """Return a report of an area by unit, as given by `area_by_unit`."""
    soft = {"columns_in_tables": soft_columns(chip, device)}
    return {**_identity(chip, device), **soft, "total": total(units), "units": units}


def _identity(chip: Chip, device: Device) -> dict:
    return {
        "device": device.name,
        "config": chip.config.as_dict(),
        "config_digest": chip.sidecar["config_digest"],
        "netlist_digest": netlist_digest(chip.verilog),
        "versions": chip.sidecar["versions"] | tool_versions(device),
    }


def build(
    wrapped: str,
    device: Device,
    say: Callable[[str], None] = print,
    effort: Effort | None = None,
    soft_columns: int = 0,
) -> dict[str, Any]:
    """Synthesise, place and route what `wrap` returned; the rest as `synthesise` takes it.

    Returns the `cells` of the netlist by type, its `mapper`, its area by `units`, and of the
    `routed` design what `build_report` says of it: area, clock and path.
    """
    effort = effort or Effort()
    with tempfile.TemporaryDirectory(prefix="matloom-fpga-") as name:
        made = _netlist(wrapped, device, say, effort.folder or Path(name), soft_columns)
        path = made["netlist"]
        netlist = Netlist(
            folder=path.parent,
            name=path.name,
            device=device,
            checkpoints=effort.checkpoints,
            slower=_SLOWER_TRIES,
        )
        runs = place_and_route(netlist, list(effort.seeds), say, effort.jobs)
        units = area_by_unit(read_cells(made["netlist"]))
    routed = summary(runs, device)
    return {"cells": made["cells"], "mapper": made["mapper"], "units": units, "routed": routed}


def _netlist(
    wrapped: str,
    device: Device,
    say: Callable[[str], None],
    work: Path,
    soft_columns: int,
) -> dict[str, Any]:
    """Return the netlist of `synthesise`, reusing an earlier one if possible.

    The folder of the netlist is named by all that its results depend on.
    """
    tools = [find(tool).__dict__ for tool in (YOSYS, device.nextpnr)]
    parts = (wrapped, FAMILIES[device.family], soft_columns, device.options, device.pins, tools)
    parts += (*device.blocks.items(), *device.settings.items())
    folder = work / hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
    kept, netlist = folder / "synthesised.json", folder / f"{device.family}.json"
    if intact(folder / _SEAL, [kept, netlist]):
        say(f"synthesised already, {folder}")
        return json.loads(kept.read_text()) | {"netlist": netlist}
    folder.mkdir(parents=True, exist_ok=True)
    made = synthesise(wrapped, WRAPPER_NAME, device.family, folder, say, soft_columns)
    add_hints(made["netlist"], device, say)
    kept.write_text(json.dumps({key: made[key] for key in made if key != "netlist"}))
    seal(folder / _SEAL, [kept, netlist])
    return made


def tool_versions(device: Device) -> dict[str, str]:
    """Return the versions of the tools, by name."""
    return {found.name: found.version for found in map(find, (YOSYS, device.nextpnr))}
