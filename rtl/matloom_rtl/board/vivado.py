"""Vivado project of a board: Verilog, constraints, a Tcl script; and its synthesis with Yosys."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matloom.arch.config import Config, load_config
from matloom_rtl.board.definition import Board
from matloom_rtl.board.pins import constraints
from matloom_rtl.board.plan import BOARD_TOP, board_verilog
from matloom_rtl.board.pll import Pll
from matloom_rtl.board.top import settings_for
from matloom_rtl.fpga.flow import synthesise
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find
from matloom_rtl.fpga.vivado import VIVADO_DEVICES, VivadoDevice
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.netlist_digest import netlist_digest

__all__ = ["COUNTED", "Project", "check", "make_project"]

#: Amount of each resource that a cell of a type takes, by resource and Yosys' cell type. Lookup
#: tables have six inputs here, and a block RAM of 36 Kbit can hold two of 18 Kbit.
COUNTED = {
    "LUT4": {
        **{f"LUT{inputs}": 1.0 for inputs in range(1, 7)},
        **{"SRL16E": 1.0, "SRLC32E": 1.0, "RAM32M": 4.0, "RAM64M": 4.0},
    },
    "FF": dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), 1.0),
    "DSP": {"DSP48E1": 1.0},
    "BRAM": {"RAMB36E1": 1.0, "RAMB18E1": 0.5},
}

_TCL = """\
# Synthesis, placement, routing and bitstream of {title}:  vivado -mode batch -source build.tcl
# Written by matloom; Vivado was not available to try it.
set here [file dirname [file normalize [info script]]]
create_project -in_memory -part {part}
read_verilog $here/{top}.v
read_xdc $here/pins.xdc
synth_design -top {top} -part {part}
opt_design
place_design
phys_opt_design
route_design
report_utilization -file $here/utilization.txt
report_timing_summary -file $here/timing.txt
if {{[get_property SLACK [get_timing_paths]] < 0}} {{
    error "no bitstream: the clock of {mhz:g} MHz is missed, see timing.txt"
}}
write_bitstream -force $here/{name}.bit
"""


@dataclass(frozen=True, kw_only=True)
class Project:
    """Vivado project of a board: its engine and clock, and the text of its `files` by name."""

    board: Board
    device: VivadoDevice
    config: Config
    pll: Pll
    link: LinkSettings
    files: dict[str, str]

    @property
    def clock_mhz(self) -> float:
        """Frequency in MHz that the design must reach."""
        return float(self.pll.output_hz) / 1e6


def make_project(board: Board, config: str | None = None, clock_hz: int | None = None) -> Project:
    """Return the Vivado project of a board, optionally with another engine or clock.

    Raises
    ------
    KeyError
        The board's device is not one of `VIVADO_DEVICES`.
    ValueError
        As in `matloom_rtl.board.plan.make_plan`.
    """
    device = VIVADO_DEVICES[board.device]
    engine = load_config(config or board.config)
    pll, link = settings_for(board, clock_hz)
    tcl = _TCL.format(
        title=board.title,
        part=device.part,
        top=BOARD_TOP,
        mhz=float(pll.output_hz) / 1e6,
        name=board.name,
    )
    files = {
        f"{BOARD_TOP}.v": board_verilog(board, engine, pll, link),
        "pins.xdc": constraints(board, device.family),
        "build.tcl": tcl,
    }
    return Project(board=board, device=device, config=engine, pll=pll, link=link, files=files)


def check(project: Project, folder: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Synthesise a project with Yosys in `folder`, and return a report of its area.

    Raises
    ------
    FlowError
        The netlist has latches, loops or wires with several drivers, or exceeds the device.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = project.files[f"{BOARD_TOP}.v"]
    made = synthesise(text, BOARD_TOP, project.device.family, folder, say)
    for fault in ("latches", "conflicts", "loops"):
        if made[fault]:
            raise FlowError(f"the netlist must have no {fault}, and has {made[fault][0]}")
    area = {
        name: {"used": _count(made["cells"], kinds), "available": project.device.capacity[name]}
        for name, kinds in COUNTED.items()
    }
    for name, item in area.items():
        if item["used"] > item["available"]:
            raise FlowError(
                f"{name} must be at most {item['available']} on {project.device.name}, "
                f"not {item['used']}",
                hint="try another --config: matloom build BOARD --config ...",
            )
    found = find(YOSYS)
    memory = {name: value for name, value in asdict(project.board.memory).items() if value}
    return {
        "board": project.board.name,
        "device": project.device.name,
        "part": project.device.part,
        "config": project.config.as_dict(),
        "config_digest": f"{project.config.digest:08x}",
        "netlist_digest": netlist_digest(project.files[f"{BOARD_TOP}.v"]),
        "memory": memory,
        "link": {"baud": project.link.baud, "divisor": project.link.divisor},
        "clock_asked_mhz": round(project.clock_mhz, 3),
        "placed": False,
        "area": area,
        "cells": made["cells"],
        "tools": {found.name: found.version},
    }


def _count(cells: dict[str, int], kinds: dict[str, float]) -> float:
    """Return the sum of cell counts, weighted by cell type with `kinds`."""
    used = sum(kinds.get(kind, 0) * number for kind, number in cells.items())
    return int(used) if used == int(used) else used
