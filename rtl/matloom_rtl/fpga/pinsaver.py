"""Wraps a chip with hundreds of ports into a module with four pins, which fit any device."""

import re

from matloom_rtl.generate import TOP_NAME, ports_of

__all__ = ["WRAPPER_NAME", "wrap"]

#: Name of the wrapper module.
WRAPPER_NAME = "matloom_pins"

#: Bits of the output register that share an enable register.
_LOADED = 16


def wrap(verilog: str, top: str = TOP_NAME) -> str:
    """Return Verilog of a module `WRAPPER_NAME` around `top`, with pins `clk`, `rst`, `si`, `so`.

    A shift register drives the inputs of `top` and another captures the outputs, so that every port
    is connected to a register and nothing is optimised away.
    """
    ports = [port for port in ports_of(verilog, top) if port["name"] not in ("clk", "rst")]
    inputs = [port for port in ports if port["direction"] == "input"]
    outputs = [port for port in ports if port["direction"] == "output"]
    in_bits = sum(port["width"] for port in inputs)
    out_bits = sum(port["width"] for port in outputs)
    lines = [
        f"module {WRAPPER_NAME}(input clk, input rst, input si, output so);",
        f"  reg [{in_bits - 1}:0] in_shift;",
        f"  reg [{out_bits - 1}:0] out_shift;",
        f"  wire [{out_bits - 1}:0] outs;",
        # Several copies: a single register would have to reach every corner of the device.
        f"  reg [{out_bits // _LOADED}:0] load;",
        "  assign so = out_shift[0];",
        "  always @(posedge clk) begin",
        "    load <= {load, si ^ load[0]};",
        f"    in_shift <= {{in_shift[{in_bits - 2}:0], si}};",
        *(
            f"    out_shift[{bit}] <= load[{bit // _LOADED}] ? outs[{bit}] : "
            + (f"out_shift[{bit + 1}];" if bit + 1 < out_bits else "1'b0;")
            for bit in range(out_bits)
        ),
        "  end",
        f"  {top} chip(.clk(clk), .rst(rst)" + _slices(inputs, "in_shift"),
        "  " + _slices(outputs, "outs") + ");",
        "endmodule",
    ]
    return verilog + "\n" + re.sub(r"\n\s+\n", "\n", "\n".join(lines)) + "\n"


def _slices(ports: list[dict], vector: str) -> str:
    """Return Verilog that connects ports to consecutive slices of a vector."""
    text, position = "", 0
    for port in ports:
        text += f", .{port['name']}({vector}[{position + port['width'] - 1}:{position}])"
        position += port["width"]
    return text
