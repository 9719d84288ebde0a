"""What surrounds the modules of the generated Verilog: for its readers, Vivado and Verilator."""

import inspect
import re
import textwrap

from matloom.arch.config import INTERFACE_VERSION, Config
from matloom_rtl import lint

__all__ = ["dress"]

_AXI = "xilinx.com:interface:aximm:1.0"

#: Of ports that are no bus: how Vivado sees them, and with which parameters.
_SIGNALS = {
    "clk": ("xilinx.com:signal:clock:1.0 clk CLK", "ASSOCIATED_RESET rst"),
    "rst": ("xilinx.com:signal:reset:1.0 rst RST", "POLARITY ACTIVE_HIGH"),
    "irq": ("xilinx.com:signal:interrupt:1.0 irq INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
}

#: Groups of ports by how their names begin, and what they are.
_GROUPS = {
    "clk": "clock of everything, rising edge",
    "rst": "reset, synchronous, active high, for two cycles at least",
    "s_axil_": "registers: AXI4-Lite subordinate, 32 bits",
    "m_axi_": "external memory: AXI4 manager, INCR bursts",
    "irq": "interrupt, level, active high",
}


def dress(text: str, top: str, config: Config, ports: list[dict], units: dict[str, type]) -> str:
    """Return the Verilog with a header, attributes of the ports, and waivers for Verilator."""
    waivers = "".join(
        f"// {kind}: {reason}.\n/* verilator lint_off {kind} */\n"
        for kind, reason in lint.WAIVERS.items()
    )
    restored = "".join(f"/* verilator lint_on {kind} */\n" for kind in lint.WAIVERS)
    header = "\n".join(_comment(_header(top, config, ports)))
    return f"{header}\n\n{waivers}\n{_describe(_attribute(text, top, ports), units)}\n{restored}"


def _comment(lines: list[str]) -> list[str]:
    return [f"// {line}".rstrip() for line in lines]


def _header(top: str, config: Config, ports: list[dict]) -> list[str]:
    settings = " ".join(f"{name}={value}" for name, value in config.as_dict().items())
    names = [port["name"] for port in ports]
    groups = {
        prefix: count
        for prefix in _GROUPS
        if (count := sum(name.startswith(prefix) for name in names))
    }
    return [
        f"{top}: a Matloom matrix engine, generated. Do not edit.",
        "",
        f"Configuration digest {config.digest:08x}, interface version {INTERFACE_VERSION}:",
        *textwrap.wrap(settings, 92, initial_indent="  ", subsequent_indent="  "),
        "",
        "Ports:",
        *(f"  {f'{name}*' if name.endswith('_') else name}: {_GROUPS[name]}" for name in groups),
        "",
        "Instantiation template:",
        f"  {top} engine (",
        *(f"    .{name}({name}){',' * (name != names[-1])}" for name in names),
        "  );",
        "",
        "What Verilator's lint would complain of, and why it may; restored at the end of the file:",
    ]


def _attribute(text: str, top: str, ports: list[dict]) -> str:
    """Tell Vivado what each port of the top belongs to."""
    start = text.index(f"module {top}(")
    head, body = text[:start], text[start:]
    buses = "s_axil:m_axi" if any(port["name"] == "s_axil_araddr" for port in ports) else "m_axi"
    for port in ports:
        name = port["name"]
        info, parameter = _SIGNALS.get(name, ("", ""))
        for bus in ("s_axil", "m_axi"):
            if name.startswith(f"{bus}_"):
                info = f"{_AXI} {bus} {name.removeprefix(f'{bus}_').upper()}"
        if name == "clk":
            parameter = f"ASSOCIATED_BUSIF {buses}, {parameter}"
        if info:
            lines = f'  (* X_INTERFACE_INFO = "{info}" *)\n'
            if parameter:
                lines += f'  (* X_INTERFACE_PARAMETER = "{parameter}" *)\n'
            pattern = rf"^  (?={port['direction']} (?:\[\d+:0\] )?{name};$)"
            body = re.sub(pattern, lambda _found, new=lines: f"{new}  ", body, count=1, flags=re.M)
    return head + body


def _describe(text: str, units: dict[str, type]) -> str:
    """Put the first sentence of its class before each module."""

    def described(found: re.Match) -> str:
        unit = units.get(found[1])
        return f"// {inspect.getdoc(unit).splitlines()[0]}\n{found[0]}" if unit else found[0]

    return re.sub(r"^module \\?([^\s(]+) ?\(", described, text, flags=re.M)
