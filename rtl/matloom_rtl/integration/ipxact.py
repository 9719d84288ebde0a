"""Package of a chip for Xilinx tools: an IP-XACT component, a constraint, and two Tcl scripts."""

import xml.etree.ElementTree as tree
from pathlib import Path

from matloom.arch.config import INTERFACE_VERSION
from matloom.arch.csr import WINDOW_BYTES
from matloom_rtl.generate import Chip
from matloom_rtl.interfaces import Interface, Kind, interfaces_of
from matloom_rtl.xilinx import VivadoInterface, vivado_interface

__all__ = ["component", "package"]

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"


def _add(
    parent: tree.Element, name: str, text: object = None, /, **attributes: str
) -> tree.Element:
    """Add an element in the namespace of IP-XACT to `parent`, and return it."""
    found = {f"{{{_SPIRIT}}}{key}": value for key, value in attributes.items()}
    child = tree.SubElement(parent, f"{{{_SPIRIT}}}{name}", found)
    child.text = None if text is None else str(text)
    return child


def _identifier(name: str, library: str) -> dict[str, str]:
    """Return the attributes that identify an item of Xilinx' IP-XACT library."""
    return {"vendor": "xilinx.com", "library": library, "name": name, "version": "1.0"}


def _bus(parent: tree.Element, item: Interface, vivado: VivadoInterface) -> None:
    """Add a bus interface to `parent`, with its port map and parameters."""
    interface = _add(parent, "busInterface")
    _add(interface, "name", item.name)
    _add(interface, "busType", **_identifier(vivado.bus, vivado.library))
    _add(interface, "abstractionType", **_identifier(f"{vivado.bus}_rtl", vivado.library))
    end = _add(interface, vivado.role)
    if item.kind is Kind.REGISTERS:
        _add(end, "memoryMapRef", memoryMapRef=item.name)
    if item.kind is Kind.MEMORY:
        _add(end, "addressSpaceRef", addressSpaceRef=item.name)
    maps = _add(interface, "portMaps")
    for physical, logical in vivado.logical.items():
        mapped = _add(maps, "portMap")
        _add(_add(mapped, "logicalPort"), "name", logical)
        _add(_add(mapped, "physicalPort"), "name", physical)
    if vivado.parameters:
        kept = _add(interface, "parameters")
        for key, value in vivado.parameters.items():
            parameter = _add(kept, "parameter")
            _add(parameter, "name", key)
            _add(parameter, "value", value)


def _interfaces(root: tree.Element, chip: Chip) -> None:
    """Add the bus interfaces of a chip to `root`."""
    buses = _add(root, "busInterfaces")
    found = interfaces_of(chip.sidecar["ports"])
    for item in found:
        _bus(buses, item, vivado_interface(item, found))


def _addresses(root: tree.Element) -> None:
    """Add the address spaces: 4 GiB for the engine, and its register window."""
    space = _add(_add(root, "addressSpaces"), "addressSpace")
    _add(space, "name", "m_axi")
    _add(space, "range", 1 << 32)
    _add(space, "width", 32)
    area = _add(_add(root, "memoryMaps"), "memoryMap")
    _add(area, "name", "s_axil")
    block = _add(area, "addressBlock")
    for name, value in (
        ("name", "registers"),
        ("baseAddress", 0),
        ("range", 2 * WINDOW_BYTES),
        ("width", 32),
        ("usage", "register"),
    ):
        _add(block, name, value)


def _model(root: tree.Element, chip: Chip) -> None:
    """Add the model of a chip to `root`: views for synthesis and simulation, and its ports."""
    model = _add(root, "model")
    views = _add(model, "views")
    for kind in ("synthesis", "simulation"):
        view = _add(views, "view")
        _add(view, "name", f"verilog_{kind}")
        _add(view, "envIdentifier", f"verilogSource:vivado.xilinx.com:{kind}")
        _add(view, "language", "verilog")
        _add(view, "modelName", chip.sidecar["top"])
        _add(_add(view, "fileSetRef"), "localName", "verilog")
    ports = _add(model, "ports")
    for item in chip.sidecar["ports"]:
        port = _add(ports, "port")
        _add(port, "name", item["name"])
        wire = _add(port, "wire")
        _add(wire, "direction", {"input": "in", "output": "out"}[item["direction"]])
        if item["width"] > 1:
            vector = _add(wire, "vector")
            _add(vector, "left", item["width"] - 1)
            _add(vector, "right", 0)


def _files(root: tree.Element, chip: Chip) -> None:
    """Add the file set of a chip to `root`: its Verilog, and a clock constraint."""
    files = _add(_add(root, "fileSets"), "fileSet")
    _add(files, "name", "verilog")
    for name, kind in ((f"{chip.sidecar['top']}.v", "verilogSource"), ("clock_ooc.xdc", None)):
        file = _add(files, "file")
        _add(file, "name", name)
        _add(file, "fileType" if kind else "userFileType", kind or "xdc")
        if kind is None:
            _add(file, "userFileType", "USED_IN_out_of_context")


def component(chip: Chip) -> str:
    """Return the description of a chip as XML: IP-XACT, IEEE 1685-2009."""
    tree.register_namespace("spirit", _SPIRIT)
    root = tree.Element(f"{{{_SPIRIT}}}component")
    for name, value in (
        ("vendor", "matloom"),
        ("library", "engine"),
        ("name", chip.sidecar["top"]),
        ("version", f"{INTERFACE_VERSION}.0"),
    ):
        _add(root, name, value)
    _interfaces(root, chip)
    _addresses(root)
    _model(root, chip)
    _files(root, chip)
    _add(root, "description", f"Matloom, configuration {chip.sidecar['config_digest']}")
    tree.indent(root)
    return tree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_CONSTRAINT = """\
# For synthesis out of context alone: in a design the clock comes from outside.
create_clock -name clk -period {period:.3f} [get_ports clk]
"""

_ZYNQ = """\
# A Zynq-7000 with this engine: run in an open project of your board, from this folder,
#   source zynq.tcl
# Registers at the processor's M_AXI_GP0, memory by S_AXI_HP0, interrupt IRQ_F2P.
set here [file dirname [file normalize [info script]]]
set_property ip_repo_paths [concat [get_property ip_repo_paths [current_project]] $here] \\
    [current_project]
update_ip_catalog
create_bd_design matloom_zynq
set ps [create_bd_cell -type ip -vlnv [get_ipdefs -filter {{NAME == processing_system7}}] ps]
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \\
    -config {{make_external "FIXED_IO, DDR" apply_board_preset "1"}} $ps
set_property -dict [list CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ {mhz:g} CONFIG.PCW_USE_M_AXI_GP0 1 \\
    CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_USE_FABRIC_INTERRUPT 1 CONFIG.PCW_IRQ_F2P_INTR 1] $ps
set engine [create_bd_cell -type ip -vlnv matloom:engine:{top}:{version}.0 engine]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 \\
    -config {{Master /ps/M_AXI_GP0 Slave /engine/s_axil Clk Auto}} [get_bd_intf_pins engine/s_axil]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 \\
    -config {{Master /engine/m_axi Slave /ps/S_AXI_HP0 Clk Auto}} [get_bd_intf_pins ps/S_AXI_HP0]
connect_bd_net [get_bd_pins engine/irq] [get_bd_pins ps/IRQ_F2P]
# Our reset is active at 1; the automation above has made a block that has one.
set reset [get_bd_cells -hierarchical -filter {{VLNV =~ *proc_sys_reset*}}]
if {{[get_bd_nets -quiet -of_objects [get_bd_pins engine/rst]] eq ""}} {{
    connect_bd_net [get_bd_pins [lindex $reset 0]/peripheral_reset] [get_bd_pins engine/rst]
}}
assign_bd_address
validate_bd_design
save_bd_design
"""


_MICROBLAZE = """\
# A MicroBlaze with this engine: run in an open project of your board, from this folder,
#   source microblaze.tcl
# Registers at the processor's M_AXI_DP; a block RAM of 128 KiB for both, next to the processor's
# own memory; the engine's interrupt at the first input of the interrupt controller.
set here [file dirname [file normalize [info script]]]
set_property ip_repo_paths [concat [get_property ip_repo_paths [current_project]] $here] \\
    [current_project]
update_ip_catalog
create_bd_design matloom_microblaze
set cpu [create_bd_cell -type ip -vlnv [get_ipdefs -filter {{NAME == microblaze}}] cpu]
set clocks [create_bd_cell -type ip -vlnv [get_ipdefs -filter {{NAME == clk_wiz}}] clocks]
set_property -dict [list CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {mhz:g}] $clocks
apply_bd_automation -rule xilinx.com:bd_rule:microblaze \\
    -config {{local_mem "64KB" ecc "None" cache "None" debug_module "Debug Only" \\
    axi_periph "Enabled" axi_intc "1" clk "/clocks/clk_out1"}} $cpu
set engine [create_bd_cell -type ip -vlnv matloom:engine:{top}:{version}.0 engine]
set memory [create_bd_cell -type ip -vlnv [get_ipdefs -filter {{NAME == axi_bram_ctrl}}] memory]
apply_bd_automation -rule xilinx.com:bd_rule:bram_cntlr -config {{BRAM "Auto"}} \\
    [get_bd_intf_pins memory/BRAM_PORTA]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{Master "/cpu (Periph)" \\
    Slave /engine/s_axil Clk /clocks/clk_out1}} [get_bd_intf_pins engine/s_axil]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{Master "/cpu (Periph)" \\
    Slave /memory/S_AXI Clk /clocks/clk_out1}} [get_bd_intf_pins memory/S_AXI]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{Master /engine/m_axi \\
    Slave /memory/S_AXI Clk /clocks/clk_out1}} [get_bd_intf_pins engine/m_axi]
set inputs [get_bd_cells -hierarchical -filter {{VLNV =~ *xlconcat*}}]
connect_bd_net [get_bd_pins engine/irq] [get_bd_pins [lindex $inputs 0]/In0]
# Clock and reset of the board, where it has a description.
apply_bd_automation -rule xilinx.com:bd_rule:board [get_bd_pins clocks/clk_in1]
set reset [get_bd_cells -hierarchical -filter {{VLNV =~ *proc_sys_reset*}}]
if {{[get_bd_nets -quiet -of_objects [get_bd_pins engine/rst]] eq ""}} {{
    connect_bd_net [get_bd_pins [lindex $reset 0]/peripheral_reset] [get_bd_pins engine/rst]
}}
assign_bd_address
set_property range 128K [get_bd_addr_segs -filter {{NAME =~ *memory*}}]
validate_bd_design
save_bd_design
"""


def package(chip: Chip, folder: Path, mhz: float = 100.0) -> list[Path]:
    """Write a folder for Vivado's list of IP repositories; return the paths of its files.

    The folder is created if necessary. `mhz` is the clock of the example designs, and of the
    constraint for out-of-context synthesis, in MHz.
    """
    top = chip.sidecar["top"]
    texts = {
        f"{top}.v": chip.verilog,
        "component.xml": component(chip),
        "clock_ooc.xdc": _CONSTRAINT.format(period=1000 / mhz),
        "zynq.tcl": _ZYNQ.format(mhz=mhz, top=top, version=INTERFACE_VERSION),
        "microblaze.tcl": _MICROBLAZE.format(mhz=mhz, top=top, version=INTERFACE_VERSION),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]
