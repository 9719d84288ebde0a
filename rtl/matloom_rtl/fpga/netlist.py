"""Netlist of a chip, mapped by Yosys to a family's cells, as Verilog for simulation."""

import importlib.util
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from matloom_rtl.fpga.cell_models import ECP5_BLOCKS
from matloom_rtl.fpga.flow import synthesise
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find, run
from matloom_rtl.generate import TOP_NAME, Chip

__all__ = [
    "FAMILY",
    "cell_models",
    "map_chip",
    "map_verilog",
    "module_of_library",
    "yosys_version",
]

#: Family to simulate: Yosys' library has models for nearly all of its cells.
FAMILY = "ecp5"

#: Yosys' cells that are not hardware and need no model.
_NO_CELLS = ("$scopeinfo",)

#: Unconnected outputs of carry cells, which nextpnr's input must mark as unknown.
_OPEN_OUTPUT = re.compile(r"\.(COUT|S0)\(1'hx\)")


def yosys_version() -> str:
    """Return name and version of the Yosys in use."""
    found = find(YOSYS)
    return f"{found.name} {found.version}"


def map_chip(chip: Chip, say: Callable[[str], None] = print) -> str:
    """Return a chip as a netlist of ECP5 cells with models: Verilog with the same ports.

    This is the netlist used for placement, without the pin wrapper. Takes a minute for a small
    chip.

    Raises
    ------
    FlowError
        Yosys is not installed or fails, a cell of the netlist has no model, or there are latches,
        wires with several drivers, or combinational loops.
    """
    return map_verilog(chip.verilog, TOP_NAME, say)


def map_verilog(
    verilog: str, top: str, say: Callable[[str], None] = print, soft_columns: int = 0
) -> str:
    """Return any Verilog as a netlist of ECP5 cells with models; otherwise like `map_chip`.

    `soft_columns` columns of the array multiply in tables, as in `synthesise`.
    """
    with tempfile.TemporaryDirectory(prefix="matloom-netlist-") as name:
        folder = Path(name)
        found = synthesise(verilog, top, FAMILY, folder, say, soft_columns)
        for fault in ("latches", "conflicts", "loops"):
            if found[fault]:
                raise FlowError(f"the chip must have no {fault}: {', '.join(found[fault])}")
        script = f"read_json {FAMILY}.json; write_verilog -noattr netlist.v"
        run([find(YOSYS).path, "-q", "-p", script], folder, "write.log", say)
        netlist = _OPEN_OUTPUT.sub(r".\1()", (folder / "netlist.v").read_text())
    return netlist + cell_models(sorted(set(found["cells"]) - set(_NO_CELLS)))


def cell_models(cells: list[str]) -> str:
    """Return Verilog models of cells and of the cells these contain: our own, or else Yosys'.

    Raises
    ------
    FlowError
        A cell has no model.
    """
    found: dict[str, str] = {}
    missing = list(cells)
    while missing:
        cell = missing.pop()
        if cell in found:
            continue
        found[cell] = ECP5_BLOCKS.get(cell) or module_of_library(cell)
        missing += re.findall(r"^\s*(LUT[24]) #\(", found[cell], re.MULTILINE)
    return "\n".join(found.values())


def module_of_library(cell: str) -> str:
    """Return the model of a cell from Yosys' library.

    Raises
    ------
    FlowError
        The library has no such model.
    """
    library = "\n".join(
        (_yosys_data() / FAMILY / name).read_text()
        for name in ("cells_sim.v", "common_sim.vh", "ccu2c_sim.vh")
    )
    module = re.search(rf"^module {re.escape(cell)}\b.*?^endmodule$", library, re.M | re.S)
    if module is None:
        raise FlowError(f"cell {cell} must have a model to be simulated: there is none")
    return module[0] + "\n"


def _yosys_data() -> Path:
    """Return the library folder of the Yosys in use."""
    found = find(YOSYS)
    if found.name == YOSYS.package:
        spec = importlib.util.find_spec(YOSYS.package.replace("-", "_"))
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "share"
    return Path(found.path).resolve().parents[1] / "share" / "yosys"
