"""Preconditions of rewriting for simulation: each is violated in an otherwise valid text."""

import pytest

from matloom.toolchain.power_up import without_initial_values
from matloom.toolchain.rewrite_preconditions import require_any_state
from matloom.toolchain.simulated import for_simulation

WRITE = "    if (mask[{lane}])\n      \\words$1 [{line}][{high}:{low}] <= bytes[{high}:{low}];\n"


def lanes(count=8, line="line"):
    return "".join(
        WRITE.format(lane=lane, line=line, high=8 * lane + 7, low=8 * lane) for lane in range(count)
    )


def module(writes, more="", name="masked"):
    return (
        f"module {name}(clk, line, mask, bytes);\n  reg [63:0] \\words$1  [15:0];\n"
        f"  always @(posedge clk) begin\n{writes}  end\n{more}endmodule\n"
    )


def process(statement):
    return f"  always @(posedge clk)\n    {statement}\n"


def test_one_writer_is_rewritten():
    text = module(lanes(), process("o <= \\words$1 [line];"))
    assert for_simulation(text).count("<=") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            module(lanes(), process("\\words$1 [other] <= bytes;")),
            r"words\$1 must be written by its 8 lanes alone, not by 9 statements",
        ),
        (
            module(lanes() + "    \\words$1 [line][7:0] <= 8'h00;\n"),
            r"words\$1 must be written by its 8 lanes alone, not by 9 statements",
        ),
        (
            module(lanes() + "  end\n  always @(posedge clk) begin\n" + lanes(2)),
            r"words\$1 must be written by one process, not 2",
        ),
        (
            module(lanes() + lanes(2, line="other")),
            r"words\$1 must be written at one address, not at line, other",
        ),
        (
            module(lanes() + lanes(2)),
            r"words\$1 must be written by lanes that do not overlap, not 0",
        ),
    ],
)
def test_a_second_writer_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        for_simulation(text)


def test_separate_memories_may_have_two_writers():
    text = module(lanes(4), process("\\words$1 [other] <= bytes;"))
    assert for_simulation(text) == text


def test_equal_names_in_other_modules_differ():
    text = module(lanes()) + module(lanes(2) + lanes(2, line="other"), name="second")
    assert for_simulation(text) == for_simulation(module(lanes())) + text[len(module(lanes())) :]


ZEROS = "  initial begin\n    words[0] = 64'h00;\n    words[1] = 64'h00;\n  end\n"


def test_registers_without_values_and_tables_are_any_state():
    require_any_state(
        "  reg a;\n  reg [7:0] b ;\n  wire c = 1'h1;\n  reg \\$auto$x:1$1  = 0;\n"
        + ZEROS.replace("[1] = 64'h00", "[1] = 64'h10")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  output reg o = 1'h0;\n", r"no initial value: output reg o = 1'h0;"),
        ("  integer i = 0;\n", r"no initial value: integer i = 0;"),
        ("  reg [1:0] pair [3:0] = 2'h1;\n", r"no initial value: reg \[1:0\] pair"),
        (ZEROS, r"must only hold a table's values, not words\[0\] = 64'h00;"),
        (
            "  initial begin\n    a = 1'h1;\n  end\n",
            r"must only hold a table's values, not a = 1'h1;",
        ),
        ("  initial\n    a = 1'h1;\n", r"must only hold a table's values, not a = 1'h1;"),
    ],
)
def test_a_value_that_would_be_left_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        without_initial_values(text)
