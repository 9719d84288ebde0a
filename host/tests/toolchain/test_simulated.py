"""Verilog for the simulator: the text of each case, and a simulated memory with a mask."""

import ctypes
import random
from textwrap import dedent

import pytest

from matloom.toolchain.simulated import for_simulation
from matloom.toolchain.verilator import build_library

LANES, DEPTH = 8, 16


def memory(lanes=LANES):
    """Return Verilog as the generator writes it: a register masks the lanes of a port."""
    writes = ""
    for lane in range(lanes):
        bits = f"[{8 * lane + 7}:{8 * lane}]"
        writes += f"    if (mask[{lane}])\n      words[line + 4'h1]{bits} <= bytes{bits};\n"
    zeros = "".join(f"    words[{line}] = 64'h{0:016x};\n" for line in range(DEPTH))
    head = """\
        module masked(input wire clk, input wire [3:0] line, input wire [7:0] mask,
                      input wire [63:0] bytes, output reg [63:0] o);
          reg [63:0] words [15:0];
          initial begin
        """
    tail = "  end\n  always @(posedge clk) o <= words[line];\nendmodule\n"
    return f"{dedent(head)}{zeros}  end\n  always @(posedge clk) begin\n{writes}{tail}"


def test_masked_lanes_become_one_word():
    text = for_simulation(memory())
    assert "if (|mask [7:0])" in text
    assert text.count("<=") == 2
    assert "words[3]" not in text


def test_values_given_in_a_process_stay():
    text = memory().replace("  always @(posedge clk) begin", "  always @* begin\n    a[1] = 1'h0;")
    assert "a[1] = 1'h0;" in for_simulation(text)


def test_masks_that_are_not_lanes_stay():
    for text in (memory(lanes=4), memory().replace("mask[3]", "mask[4]")):
        assert for_simulation(text).count("<=") == text.count("<=")


def test_repeated_bits_are_replicated():
    lines = {
        "assign a = { b[7], b[7], b[7], b };": "assign a = { {3{b[7]}}, b };",
        "assign a = { \\b$1 [7], \\b$1 [7], \\b$1 [7:6] };": None,
        "assign a = { 1'h0, \\$1 , \\$1 , \\$1  };": "assign a = { 1'h0, {3{\\$1 }} };",
        "assign a = { b[7], b[6], b[7], c, cc, ccc };": None,
    }
    for line, expected in lines.items():
        assert for_simulation(line) == (expected or line)


def test_initial_values_that_are_not_all_zeros_stay():
    """Simulation starts with random bits, so even zeros of a table must be written."""
    text = for_simulation(
        memory().replace("words[3] = 64'h0000000000000000", "words[3] = 64'h0000000000000001")
    )
    assert "words[3] = 64'h0000000000000001;" in text
    assert "words[4] = 64'h0000000000000000;" in text


@pytest.mark.slow
def test_equal_values_in_simulation(tmp_path):
    harness = tmp_path / "harness.cpp"
    harness.write_text(
        dedent("""
            #include "Vmasked.h"
            extern "C" void* create() { return new Vmasked(new VerilatedContext); }
            extern "C" uint64_t tick(void* handle, unsigned line, unsigned mask, uint64_t bytes) {
                auto* masked = static_cast<Vmasked*>(handle);
                masked->line = line; masked->mask = mask; masked->bytes = bytes;
                masked->clk = 0; masked->eval();
                masked->clk = 1; masked->eval();
                return masked->o;
            }
        """)
    )
    source = tmp_path / "masked.v"
    source.write_text(for_simulation(memory()))
    library = ctypes.CDLL(str(build_library([source], "masked", [harness], tmp_path / "masked.so")))
    library.create.restype, library.tick.restype = ctypes.c_void_p, ctypes.c_uint64
    handle, draw = ctypes.c_void_p(library.create()), random.Random(0)
    words = [0] * DEPTH
    for _cycle in range(500):
        line, mask, new = draw.randrange(DEPTH), draw.getrandbits(LANES), draw.getrandbits(64)
        expected = words[line]
        assert library.tick(handle, line, mask, ctypes.c_uint64(new)) == expected
        kept = sum(255 << 8 * lane for lane in range(LANES) if not mask >> lane & 1)
        target = (line + 1) % DEPTH
        words[target] = words[target] & kept | new & ~kept
