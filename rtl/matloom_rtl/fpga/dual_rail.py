"""Converts a chip to two-valued Verilog that tracks, for each bit, whether it is defined."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.rails import RailMemory, Register, WritePort, write_module
from matloom_rtl.fpga.tools import YOSYS, find, run

__all__ = ["MUTANT_CHOICE", "DualRail", "dual_rail"]

#: Name of the wires, and of the input, that select a mutant.
MUTANT_CHOICE = "mutsel"

#: Flattens the design, with asynchronously read memories, and registers without enable or reset.
_FLATTEN = (
    "read_verilog chip.v; hierarchy -top {top}; proc -norom; flatten; opt_clean; "
    "memory_collect; opt_clean; delete t:$scopeinfo; write_json flat.json"
)
#: The rest is combinational, and `xprop` adds a second rail to it, also to undriven wires.
_SPLIT = (
    "read_json logic.json; setundef -undriven -undef; xprop -split-ports -required; bwmuxmap; "
    "opt_expr; opt_merge; opt_clean; write_verilog -noattr logic.v"
)

#: Memory parameters of which only one value is supported.
_MEMORY_RULES = {
    "OFFSET": 0,
    "RD_CLK_ENABLE": 0,
    "RD_WIDE_CONTINUATION": 0,
    "WR_WIDE_CONTINUATION": 0,
}


@dataclass(frozen=True, kw_only=True)
class DualRail:
    """A design in dual-rail form.

    Members
    -------
    verilog:
        Verilog with the same ports, which calls `matloom_probe(cycle, index, 0)` when a check fails
        for the first time, because an output that matters is undefined.
    checks:
        The checks, by index: names of outputs, possibly with a byte.
    registers:
        Names of the registers, all of which start undefined.
    """

    verilog: str
    checks: tuple[str, ...]
    registers: tuple[str, ...]


def dual_rail(verilog: str, top: str, say: Callable[[str], None] = print) -> DualRail:
    """Return a design in dual-rail form: state is undefined until written, outputs are checked.

    Registers have no initial value, and memories no contents, except for read-only tables. Whether
    a bit is defined follows four-valued Verilog, with the rules of Yosys' pass `xprop` for
    operators: an undefined bit makes a whole sum, product or comparison undefined; an undefined
    select makes those bits undefined in which the inputs differ. Inputs are defined, except for the
    payloads of AXI channels that are not valid. Checks begin with the first clock edge at which
    `rst` is high; while it is high, only VALID is checked.

    Undriven wires named `mutsel`, in any modules, become one more input, which may select a mutant.

    Raises
    ------
    FlowError
        Yosys is not installed or fails, or a memory or register is of an unsupported kind.
    """
    yosys = find(YOSYS).path
    with tempfile.TemporaryDirectory(prefix="matloom-rails-") as name:
        folder = Path(name)
        (folder / "chip.v").write_text(verilog)
        run([yosys, "-q", "-p", _FLATTEN.format(top=top)], folder, "flatten.log", say)
        design = json.loads((folder / "flat.json").read_text())
        module = design["modules"][top]
        _join_choices(module)
        ports = {
            name: (port["direction"], len(port["bits"])) for name, port in module["ports"].items()
        }
        memories, registers = _cut_state(module)
        design["modules"] = {f"{top}_logic": module}
        (folder / "logic.json").write_text(json.dumps(design))
        run([yosys, "-q", "-p", _SPLIT], folder, "split.log", say)
        logic = (folder / "logic.v").read_text()
    text, checks = write_module(top, ports, memories, registers)
    return DualRail(
        verilog=logic + text,
        checks=checks,
        registers=tuple(register.name for register in registers),
    )


def _join_choices(module: dict[str, Any]) -> None:
    """Combine all wires of a module that select a mutant into one input, in place."""
    choices = [
        net["bits"]
        for name, net in module["netnames"].items()
        if name.rpartition(".")[2] == MUTANT_CHOICE
    ]
    if not choices:
        return
    same = {bit: one for bits in choices for bit, one in zip(bits, choices[0], strict=True)}
    for cell in module["cells"].values():
        for bits in cell["connections"].values():
            bits[:] = [same.get(bit, bit) for bit in bits]
    _add_port(module, MUTANT_CHOICE, "input", choices[0])


def _cut_state(module: dict[str, Any]) -> tuple[list[RailMemory], list[Register]]:
    """Remove memories and registers from a module, in place; return descriptions of both.

    Their outputs become inputs of the module, and their inputs become outputs.
    """
    for net in module["netnames"].values():
        net["attributes"].pop("init", None)
    names = _names(module)
    memories, registers = list[RailMemory](), list[Register]()
    for cell in [name for name, each in module["cells"].items() if each["type"] == "$mem_v2"]:
        memories.append(_cut_memory(module, cell, len(memories)))
    for cell in [name for name, each in module["cells"].items() if each["type"] == "$dff"]:
        registers.append(_cut_register(module, cell, len(registers), names))
    return memories, registers


def _names(module: dict[str, Any]) -> dict[int, str]:
    """Return a public name for each bit, the one with the fewest hierarchy levels."""
    names: dict[int, str] = {}
    public = (name for name, net in module["netnames"].items() if not net["hide_name"])
    for name in sorted(public, key=lambda name: (name.count("."), name)):
        for bit in module["netnames"][name]["bits"]:
            names.setdefault(bit, name)
    return names


def _number(cell: dict[str, Any], parameter: str) -> int:
    """Return the value of a binary parameter of a cell."""
    return int(cell["parameters"][parameter], 2)


def _cut_memory(module: dict[str, Any], name: str, place: int) -> RailMemory:
    """Replace a memory of the module by ports to it, in place; return its description."""
    cell = module["cells"].pop(name)
    for parameter, value in _MEMORY_RULES.items():
        if _number(cell, parameter) != value:
            raise FlowError(f"memory {name} must have {parameter} {value} to have two rails")
    width, words, writers = (_number(cell, each) for each in ("WIDTH", "SIZE", "WR_PORTS"))
    if writers and _number(cell, "WR_CLK_ENABLE") != (1 << writers) - 1:
        raise FlowError(f"memory {name} must be written at a clock's edge to have two rails")
    prefix = f"memory_{place}"
    for port in ("RD_ADDR", "WR_ADDR", "WR_DATA", "WR_EN"):
        _add_port(module, f"{prefix}_{port.lower()}", "output", cell["connections"][port])
    _add_port(module, f"{prefix}_rd_data", "input", cell["connections"]["RD_DATA"])
    enables = cell["connections"]["WR_EN"]
    contents = cell["parameters"]["INIT"][::-1] if not writers else ""
    return RailMemory(
        prefix=prefix,
        name=name,
        width=width,
        words=words,
        address_bits=_number(cell, "ABITS"),
        readers=_number(cell, "RD_PORTS"),
        writers=tuple(
            WritePort(enables=tuple(enables[start : start + width]))
            for start in range(0, width * writers, width)
        ),
        table=tuple(
            contents[start : start + width][::-1] for start in range(0, len(contents), width)
        ),
    )


def _cut_register(module: dict[str, Any], name: str, place: int, names: dict[int, str]) -> Register:
    """Replace a register of the module by ports to it, in place; return its description."""
    cell = module["cells"].pop(name)
    if not _number(cell, "CLK_POLARITY"):
        raise FlowError(f"register {name} must have a rising edge to have two rails")
    prefix = f"register_{place}"
    bits = cell["connections"]["Q"]
    _add_port(module, f"{prefix}_next", "output", cell["connections"]["D"])
    _add_port(module, f"{prefix}_now", "input", bits)
    return Register(prefix=prefix, name=names.get(bits[0], name), width=len(bits))


def _add_port(module: dict[str, Any], name: str, direction: str, bits: list[Any]) -> None:
    """Add a port for some bits to a module, in place; without bits, add nothing."""
    if bits:
        module["ports"][name] = {"direction": direction, "bits": bits}
        module["netnames"][name] = {"hide_name": 0, "bits": bits, "attributes": {}}
