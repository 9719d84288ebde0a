"""Header, comments and lint waivers of the generated Verilog."""

import inspect
import re
import textwrap

from matloom.arch.config import INTERFACE_VERSION, Config
from matloom_rtl import lint
from matloom_rtl.interfaces import interfaces_of
from matloom_rtl.xilinx import vivado_interface

__all__ = ["annotate"]


def annotate(text: str, top: str, config: Config, ports: list[dict], units: dict[str, type]) -> str:
    """Return Verilog `text` with a header, grouped ports, comments and waivers for Verilator."""
    waivers = "".join(
        f"// {kind}: {reason}.\n/* verilator lint_off {kind} */\n"
        for kind, reason in lint.WAIVERS.items()
    )
    restored = "".join(f"/* verilator lint_on {kind} */\n" for kind in lint.WAIVERS)
    header = "\n".join(_comment(_header(top, config, ports)))
    return f"{header}\n\n{waivers}\n{_describe(_group_ports(text, top, ports), units)}\n{restored}"


def _comment(lines: list[str]) -> list[str]:
    """Return lines of text as Verilog comments."""
    return [f"// {line}".rstrip() for line in lines]


def _header(top: str, config: Config, ports: list[dict]) -> list[str]:
    """Return the lines of the file's header: configuration, ports, instantiation template."""
    settings = " ".join(f"{name}={value}" for name, value in config.as_dict().items())
    names = [port["name"] for _doc, members, _attributes in _groups(ports) for port in members]
    return [
        f"{top}: a Matloom matrix engine, generated. Do not edit.",
        "",
        f"Configuration digest {config.digest:08x}, interface version {INTERFACE_VERSION}:",
        *textwrap.wrap(settings, 92, initial_indent="  ", subsequent_indent="  "),
        "",
        "Ports:",
        *(f"  {doc}" for doc, _members, _attributes in _groups(ports)),
        "",
        "Instantiation template:",
        f"  {top} engine (",
        *(f"    .{name}({name}){',' * (name != names[-1])}" for name in names),
        "  );",
        "",
        "What Verilator's lint would complain of, and why it may; restored at the end of the file:",
    ]


def _group_ports(text: str, top: str, ports: list[dict]) -> str:
    """Return the Verilog with the top's ports by interface, each with its attributes for Vivado.

    Yosys lists inputs before outputs, and declares them among the wires.
    """
    start = text.index(f"module {top}(")
    before, module = text[:start], text[start:]
    names, declared = [], []
    for doc, members, attributes in _groups(ports):
        names.append(f"  // {doc}")
        declared.append(f"  // {doc}\n")
        for port in members:
            names.append(f"  {port['name']},")
            line = rf"^  {port['direction']} (?:\[\d+:0\] )?{port['name']};\n  (?:wire|reg) .*;\n"
            found = re.search(line, module, re.MULTILINE)
            module = module[: found.start()] + module[found.end() :]
            declared += [f"  (* {item} *)\n" for item in attributes[port["name"]]] + [found[0]]
    names[-1] = names[-1].removesuffix(",")
    body = module[module.index(");\n") + 3 :]
    head = "\n".join((f"module {top}(", *names, ");\n"))
    return before + head + "".join(declared) + "\n" + body


def _groups(ports: list[dict]):
    """Yield each group of ports: its title, its ports, and their attributes by name."""
    found = interfaces_of(ports)
    for item in found:
        vivado = vivado_interface(item, found)
        bus = f"xilinx.com:{vivado.library}:{vivado.bus}:1.0 {item.name}"
        parameters = ", ".join(f"{name} {value}" for name, value in vivado.parameters.items())
        second = [f'X_INTERFACE_PARAMETER = "{parameters}"'] if parameters else []
        attributes = {
            name: [f'X_INTERFACE_INFO = "{bus} {logical}"', *second]
            for name, logical in vivado.logical.items()
        }
        yield f"{item.name}: {item.doc}", list(item.signals.values()), attributes
    grouped = {port["name"] for item in found for port in item.signals.values()}
    others = [port for port in ports if port["name"] not in grouped]
    if others:
        yield "others", others, {port["name"]: [] for port in others}


def _describe(text: str, units: dict[str, type]) -> str:
    """Return the Verilog with a comment before each module: the first line of its class docstring.

    `units` maps module names to classes; modules that are not in it get no comment.
    """

    def describe_match(match: re.Match) -> str:
        """Return the match, preceded by a comment if `units` has the module's class."""
        unit = units.get(match[1])
        return f"// {inspect.getdoc(unit).splitlines()[0]}\n{match[0]}" if unit else match[0]

    return re.sub(r"^module \\?([^\s(]+) ?\(", describe_match, text, flags=re.M)
