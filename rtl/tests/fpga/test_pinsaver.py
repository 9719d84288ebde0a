"""The few-pin wrapper connects every port of the chip, once."""

import re

import pytest

from matloom_rtl.fpga.pinsaver import WRAPPER_NAME, wrap


def bits_of(text, vector):
    found = []
    for high, low in re.findall(rf"\({vector}\[(\d+):(\d+)\]\)", text):
        found += range(int(low), int(high) + 1)
    return found


@pytest.mark.slow
def test_ports_do_not_share_bits(nano):
    wrapper = wrap(nano.verilog)[len(nano.verilog) :]
    assert f"module {WRAPPER_NAME}(" in wrapper
    for direction, vector in (("input", "in_shift"), ("output", "outs")):
        widths = [
            port["width"]
            for port in nano.sidecar["ports"]
            if port["direction"] == direction and port["name"] not in ("clk", "rst")
        ]
        assert bits_of(wrapper, vector) == list(range(sum(widths)))
    for port in nano.sidecar["ports"]:
        assert len(re.findall(rf"\.{port['name']}\(", wrapper)) == 1


def test_another_top_module_is_wrapped():
    source = "module other(clk, rst, a, q);\n  input clk;\n  wire clk;\n  input rst;\n"
    source += "  input [2:0] a;\n  wire [2:0] a;\n  output q;\n  reg q;\nendmodule\n"
    wrapper = wrap(source, "other")[len(source) :]
    assert "other chip(.clk(clk), .rst(rst), .a(in_shift[2:0])" in wrapper
    assert ".q(outs[0:0])" in wrapper
