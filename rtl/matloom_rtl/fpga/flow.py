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
from matloom_rtl.fpga.place import SEED, Netlist, Spread, cores, place_and_route, summary
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

#: Table mapping for an ECP5: as in `synth_ecp5`, but with the delay of a routed wire (850 ps
#: instead of Yosys' 300), and optimising for area once the target is met (9 ns between registers).
#: Otherwise all paths would be as fast as the slowest, at the cost of more tables.
_FAST_TABLES = "techmap -map +/lattice/latches_map.v; abc9 -W 850 -D 9000"

#: Name of the file that seals a cached netlist.
_SEAL = "synthesised.digests"

#: Number of retries, each with a lower clock, if connections miss the requested one.
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
    """Synthesise Verilog for a family in `folder`; return a description of the flattened netlist.

    It has the number of `cells` by type, the path of the `netlist`, the `mapper` that made the
    tables, and lists of defects: signals with `latches`, wires with several drivers (`conflicts`),
    and combinational `loops`.

    Parameters
    ----------
    soft_columns
        Number of columns of the array that multiply in lookup tables; only for `ecp5`.
    abc9
        Map tables with ABC9, which considers delays. If it fails, as it does for some large
        designs, or is disabled, tables for `ecp5` are mapped by ABC, which needs more of them.
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
    # The WebAssembly build prints nothing after ABC9, so output goes to files.
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
    # Leave a defective design as it is: a loop has no first table.
    if family == "ecp5" and not any(found.values()):
        cells = _absorb(folder / netlist)
    mapper = "abc9" if abc9 else "abc"
    return {"cells": cells, **found, "netlist": folder / netlist, "mapper": mapper}


def _ended_in_abc9(log: Path) -> bool:
    """Return whether the last pass that Yosys started is one of ABC9's."""
    return re.findall(r"Executing (\w+)", log.read_text())[-1:] == ["ABC9"]


def _absorb(path: Path) -> dict[str, int]:
    """Optimise a netlist file with `absorb` and `join_choices`; return its cell counts by type."""
    netlist = json.loads(path.read_text())
    (top,) = (each for each in netlist["modules"].values() if is_top(each))
    absorb(top["cells"], top["ports"])
    join_choices(top["cells"], top["ports"])
    path.write_text(json.dumps(netlist))
    return dict(Counter(cell["type"] for cell in top["cells"].values()))


def _place_products(top: str, family: str, folder: Path, soft_columns: int) -> list[str]:
    """Write files for Yosys to `folder`; return its steps to read a chip and map its products.

    The operands of products, in pattern and chip, must have their own widths, not that of the
    result. Initial values of the registers do not matter, but would keep the pattern from matching.
    """
    for name, text in (
        ("soft_multiplier.v", SOFT_MULTIPLIER),
        ("registered_product.v", REGISTERED_PRODUCT),
        ("registered_product_block.v", REGISTERED_PRODUCT_BLOCKS[family]),
    ):
        (folder / name).write_text(text)
    simplify = ["proc -latches error", "wreduce", "opt_clean"]
    # Registers that must not be merged although they are equal: `keep` on the signal is not enough.
    keep = ["setattr -set keep 1 a:keep=1 %ci1 t:$*dff* %i"]
    steps = ["read_verilog registered_product.v", *simplify, "design -stash pattern"]
    steps += ["read_verilog chip.v", f"hierarchy -top {top}", *simplify, *keep]
    if soft_columns:
        steps += [f"select -set soft {select_columns(soft_columns)}"]
        steps += ["techmap -map soft_multiplier.v @soft"]
    return [
        *steps,
        "setattr -unset init w:*product_*",
        # Only the module with the products: `extract` cannot handle a whole chip.
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
        Number of seeds to run in parallel.
    folder:
        Folder that caches netlist, placements and routings, from which a later call continues; None
        for no cache.
    checkpoints:
        Whether to cache the placement too, and route from it. Only worth it for routings that take
        hours: with nextpnr 0.11 an ECP5 routed this way reaches a lower clock, by a tenth for a
        small design.
    spread:
        As for `place_and_route`.
    """

    seeds: tuple[int, ...] = (SEED,)
    jobs: int = field(default_factory=cores)
    folder: Path | None = None
    checkpoints: bool = False
    spread: Spread | None = None


def build_report(
    chip: Chip,
    device: Device,
    say: Callable[[str], None] = print,
    effort: Effort | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Synthesise, place and route a chip in a wrapper; return a report of it, and one by unit.

    The first has area, clock and critical path after routing, the second (`unit_report`) the area
    of the netlist by unit.

    The clock is nextpnr's Fmax in MHz after routing, for the device's speed grade. The report has
    that of the fastest seed, the median, and that of each seed; None if no routing finished. It may
    exceed the clock that `device` requests, and is never much lower. Takes minutes per seed for a
    small chip, and most of an hour for one that fills the device.
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
    """Return the number of array columns that must multiply in tables; 0 if the device cannot."""
    return device.soft_multiplier and columns_in_tables(chip.config, device.capacity["DSP"])


def unit_report(chip: Chip, device: Device, units: dict[str, dict[str, float]]) -> dict:
    """Return a report of the area of `units`, as returned by `area_by_unit`, and of their total."""
    soft = {"columns_in_tables": soft_columns(chip, device)}
    return {**_identity(chip, device), **soft, "total": total(units), "units": units}


def _identity(chip: Chip, device: Device) -> dict:
    """Return what identifies a build: device, configuration, netlist digest and tool versions."""
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
    """Synthesise, place and route a wrapped chip (`wrap`).

    Returns the `cells` of the netlist by type, its `mapper`, its area by `units`, and area, clock
    and path of the `routed` design, as in `build_report`.
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
        runs = place_and_route(netlist, list(effort.seeds), say, effort.jobs, effort.spread)
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
    """Synthesise like `synthesise` and add hints, or reuse an earlier netlist; describe either.

    The folder in `work` is named by a digest of everything that the netlist depends on.
    """
    tools = [find(tool).__dict__ for tool in (YOSYS, device.nextpnr)]
    parts = (wrapped, FAMILIES[device.family], soft_columns, device.options, device.pins, tools)
    flow = (*device.blocks.items(), *device.settings.items())
    folder = work / hashlib.sha256(repr((*parts, *flow)).encode()).hexdigest()[:12]
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
    """Return the versions of Yosys and nextpnr for a device, by name of the tool."""
    return {found.name: found.version for found in map(find, (YOSYS, device.nextpnr))}
