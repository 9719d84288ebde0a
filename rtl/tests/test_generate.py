"""The generated chip: Verilog that lints, and a sidecar that describes it."""

import dataclasses
import json
import re

import pytest

from matloom.arch.config import INTERFACE_VERSION, PRESETS, Config
from matloom.toolchain.verilator import lint
from matloom_rtl.generate import TOP_NAME, generate
from matloom_rtl.lint import WAIVERS
from matloom_rtl.reserved import RESERVED

WIDE_BUS = dataclasses.replace(Config(), rows=8, columns=16, broadcast_group=4, bus_bits=128)


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
