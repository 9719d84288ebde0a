"""A folder for Vivado: pins, clock and part; optionally its synthesis by Yosys."""

import json
import re
from pathlib import Path

import pytest

from matloom_rtl.board.definition import load_board
from matloom_rtl.board.plan import BOARD_TOP
from matloom_rtl.board.vivado import COUNTED, check, make_project
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.fpga.vivado import VIVADO_DEVICES
from matloom_rtl.generate import ports_of

#: The least engine there is, for the sake of the time that it takes to generate.
LEAST = "nano+windows=0+maximum=0+counters=0+timestamps=0"

REPORT = Path(__file__).parents[3] / "bitstreams" / "reports" / "synthesis" / "arty-a7-35t.json"


@pytest.fixture(scope="module")
def project():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    return make_project(load_board("arty-a7-35t"), LEAST)


@pytest.mark.slow
def test_pins_by_the_schematics(project):
    """The pins of the oscillator and the FT2232H are as in the schematics; its output drives A9."""
    text = project.files["pins.xdc"]
    for port, site in (("clk", "E3"), ("uart_rx", "A9"), ("uart_tx", "D10")):
        assert f"{{PACKAGE_PIN {site} IOSTANDARD LVCMOS33}} [get_ports {{{port}}}]" in text
    assert "create_clock -name clk -period 10.000 [get_ports {clk}]" in text
    named = set(re.findall(r"get_ports \{(.*?)\}", text))
    ports = ports_of(project.files[f"{BOARD_TOP}.v"], BOARD_TOP)
    assert named == {port["name"] for port in ports}


@pytest.mark.slow
def test_the_pll_makes_the_clock(project):
    text = project.files[f"{BOARD_TOP}.v"]
    setting = dict(re.findall(r"\.(\w+)\((?:32'd)?([\d.]+)\)", text.split("PLLE2_BASE #(")[1]))
    made = 1e3 / float(setting["CLKIN1_PERIOD"]) * int(setting["CLKFBOUT_MULT"])
    made /= int(setting["DIVCLK_DIVIDE"]) * int(setting["CLKOUT0_DIVIDE"])
    assert made == pytest.approx(60) == project.clock_mhz


@pytest.mark.slow
def test_the_tcl_names_part_and_files(project):
    text = project.files["build.tcl"]
    assert "synth_design -top matloom_board -part xc7a35ticsg324-1L" in text
    read = set(re.findall(r"^read_\w+ \$here/(\S+)$", text, re.MULTILINE))
    assert read == set(project.files) - {"build.tcl"}
    assert text.count("{") == text.count("}")


def test_the_kept_report_is_of_this_device():
    report = json.loads(REPORT.read_text())
    assert report["placed"] is False
    device = VIVADO_DEVICES[report["device"]]
    for name, kinds in COUNTED.items():
        used = sum(kinds.get(kind, 0) * number for kind, number in report["cells"].items())
        assert report["area"][name] == {"used": used, "available": device.capacity[name]}
        assert 0 < used <= device.capacity[name]


@pytest.mark.slow
def test_misfits_are_reported(project, tmp_path, monkeypatch):
    cells = {"LUT6": 20801, "FDRE": 1, "DSP48E1": 1, "RAMB36E1": 1}
    made = {"cells": cells, "latches": [], "conflicts": [], "loops": []}
    monkeypatch.setattr("matloom_rtl.board.vivado.synthesise", lambda *_: made)
    with pytest.raises(FlowError, match="LUT4 must be at most 20800 on xc7a35t, not 20801"):
        check(project, tmp_path)
