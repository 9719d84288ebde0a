"""The generated chip: Verilog without lint warnings, and a sidecar that describes it."""

import dataclasses
import json
import re
import subprocess

import pytest

from matloom.arch.config import INTERFACE_VERSION, PRESETS, Config, load_config
from matloom.toolchain.verilator import lint
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.tools import YOSYS, find
from matloom_rtl.generate import TOP_NAME, generate
from matloom_rtl.lint import WAIVERS
from matloom_rtl.reserved import RESERVED


def complaints(chip, folder):
    source, _sidecar = chip.write(folder)
    return {warning.kind for warning in lint([source], TOP_NAME)}


def test_no_warnings_and_no_unused_waivers(nano, tmp_path):
    assert complaints(nano, tmp_path) == set()
    bare = re.sub(r"/\* verilator lint_\w+ \w+ \*/", "", nano.verilog)
    assert complaints(dataclasses.replace(nano, verilog=bare), tmp_path) == set(WAIVERS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*(sorted({*PRESETS} - {"nano"})), "nano+softmax=1+transposed_weights=1+zero_points=1"]
)
def test_no_configuration_has_warnings(name, tmp_path):
    assert complaints(generate(load_config(name)), tmp_path) == set()


def test_waivers_end_with_the_file(nano, tmp_path):
    """Lint waivers apply to the chip only: faults in files before and after it are reported."""
    source, _sidecar = nano.write(tmp_path)
    user = tmp_path / "user.v"
    user.write_text("module user(input [7:0] a, output [3:0] b); assign b = a; endmodule\n")
    assert {each.kind for each in lint([source, user], "user")} >= {"WIDTHTRUNC"}


def test_no_signal_is_a_keyword(nano):
    """No signal has the name of a keyword of VHDL or SystemVerilog."""
    declared = r"(?:wire|reg|input|output)(?: signed)?(?: \[\d+:\d+\])? \\?([^\s;=]+)"
    names = set(re.findall(declared, re.sub(r"//.*", "", nano.verilog)))
    assert len(names) > 500
    assert {name for name in names if name.lower() in RESERVED} == set()


def test_verilog_is_documented(nano):
    """The Verilog has a header, an instance template, attributes, and a sentence per module."""
    head = nano.verilog[: nano.verilog.index("module ")]
    assert f"digest {PRESETS['nano'].digest:08x}, interface version {INTERFACE_VERSION}" in head
    assert "synchronous, active high" in head
    for port in nano.sidecar["ports"]:
        assert f".{port['name']}({port['name']})" in head
    assert 'aximm:1.0 m_axi ARADDR" *)\n  output [31:0] m_axi_araddr;' in nano.verilog
    assert "// Walk the six loops of an EXEC, one vector per cycle.\nmodule " in nano.verilog


def test_every_signal_of_nano_has_a_name(nano):
    assert "$signal" not in nano.verilog


#: Together they have every unit, and lack every unit that can be left out.
KNOBS = (
    "nano+i8xi4+tables=2+products=1+parity=1+time_limit=1+transposed_weights=1",
    "nano+i16xi8+counters=0+timestamps=0+checks=0+windows=0+address_first=1+bus_bits=64+tables=1",
    "nano+float_rows=2+weight_rows=2+bf16+fp8_e4m3+element_stride=0+paired_windows=0",
    "small+columns=16+bus_bits=128",
)


@pytest.fixture(scope="module", params=[*sorted(PRESETS.keys() - {"nano"}), *KNOBS])
def other(request):
    return generate(load_config(request.param))


@pytest.mark.slow
def test_other_chips_complain_of_nothing_else(other, tmp_path):
    assert complaints(other, tmp_path) == set()
    assert "$signal" not in other.verilog


def slang_warnings(chip):
    """Return slang's default warnings for a chip."""
    slang = pytest.importorskip("pyslang", reason="slang is not installed: extra integration")
    tree = slang.syntax.SyntaxTree.fromText(chip.verilog)
    compilation = slang.ast.Compilation()
    compilation.addSyntaxTree(tree)
    engine, client = slang.DiagnosticEngine(tree.sourceManager), slang.TextDiagnosticClient()
    engine.addClient(client)
    engine.setWarningOptions(["default"])
    for found in compilation.getAllDiagnostics():
        engine.issue(found)
    return client.getString()


@pytest.mark.slow
def test_slang_reports_no_warnings(nano):
    """slang has no default warnings for the chip, but some for a faulty one."""
    assert slang_warnings(nano) == ""
    faulty = nano.verilog.replace("endmodule", "  nothing missing();\nendmodule", 1)
    assert "nothing" in slang_warnings(dataclasses.replace(nano, verilog=faulty))


@pytest.mark.slow
def test_slang_reports_no_warnings_of_other_presets(other):
    assert slang_warnings(other) == ""


@pytest.mark.slow
def test_yosys_finds_no_fault(nano, tmp_path):
    """Yosys finds no missing or multiple modules, wires or drivers, and no combinational loops."""
    try:
        yosys = find(YOSYS)
    except FlowError as error:
        pytest.skip(str(error))
    source, _sidecar = nano.write(tmp_path)
    script = f"read_verilog {source.name}; hierarchy -check -top matloom; proc; check -assert"
    command = [yosys.path, "-q", "-e", ".", "-p", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
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
