"""Maps the array's products to multiplier blocks with registers, or to tables on an ECP5."""

from dataclasses import dataclass

__all__ = [
    "REGISTERED_PRODUCT",
    "REGISTERED_PRODUCT_BLOCKS",
    "SOFT_MULTIPLIER",
    "select_columns",
]


@dataclass(frozen=True, kw_only=True)
class _Product:
    """Multiplication in a multiplier block: width and sign of the factors, width of the result."""

    bits: tuple[int, int]
    result: int
    signs: tuple[bool, bool] = (True, True)

    @property
    def name(self) -> str:
        """Name of the Verilog module: signs and widths of both factors, width of the result."""
        kinds = "".join(
            "us"[sign] + str(bits) for sign, bits in zip(self.signs, self.bits, strict=True)
        )
        return f"registered_product_{kinds}_{self.result}"

    @property
    def pattern(self) -> str:
        """Verilog module that Yosys' `extract` looks for."""
        (a, b), (a_sign, b_sign) = self.bits, self.signs
        left, right, result = ("signed" if sign else "" for sign in (a_sign, b_sign, a_sign))
        # An unsigned factor gets a leading zero if the other one is signed.
        factor = "y" if a_sign == b_sign else "$signed({1'b0, y})"
        return f"""\
module {self.name} (
  input clk, input [{a - 1}:0] a, input [{b - 1}:0] b, output reg {result} [{self.result - 1}:0] p
);
  reg {left} [{a - 1}:0] x;
  reg {right} [{b - 1}:0] y;
  always @(posedge clk) begin x <= a; y <= b; p <= x * {factor}; end
endmodule
"""

    @property
    def ecp5_block(self) -> str:
        """Verilog module that Yosys' `techmap` inserts on an ECP5."""
        (a, b), (a_sign, b_sign) = self.bits, self.signs
        return f"""\
module {self.name} (
  input clk, input [{a - 1}:0] a, input [{b - 1}:0] b, output [{self.result - 1}:0] p
);
  MULT18X18D #(
    .REG_INPUTA_CLK("CLK0"), .REG_INPUTA_CE("CE0"), .REG_INPUTA_RST("RST0"),
    .REG_INPUTB_CLK("CLK0"), .REG_INPUTB_CE("CE0"), .REG_INPUTB_RST("RST0"),
    .REG_INPUTC_CLK("NONE"), .REG_PIPELINE_CLK("NONE"),
    .REG_OUTPUT_CLK("CLK0"), .REG_OUTPUT_CE("CE0"), .REG_OUTPUT_RST("RST0"),
    .CLK0_DIV("ENABLED"), .GSR("DISABLED"), .RESETMODE("SYNC")
  ) _TECHMAP_REPLACE_ (
    {_factor("A", "a", a, a_sign)},
    {_factor("B", "b", b, b_sign)},
    .SIGNEDA(1'b1), .SIGNEDB(1'b1), .SOURCEA(1'b0), .SOURCEB(1'b0),
    .CLK0(clk), .CE0(1'b1), .RST0(1'b0),
    {", ".join(f".P{i}(p[{i}])" for i in range(self.result))}
  );
endmodule
"""

    @property
    def gowin_block(self) -> str:
        """Verilog module that `techmap` inserts on a Gowin; factors of 9 bits use half a block."""
        (a, b), (a_sign, b_sign) = self.bits, self.signs
        size = 9 if max(self.bits) <= 9 else 18
        return f"""\
module {self.name} (
  input clk, input [{a - 1}:0] a, input [{b - 1}:0] b, output [{self.result - 1}:0] p
);
  wire [{2 * size - 1}:0] product;
  assign p = product[{self.result - 1}:0];
  MULT{size}X{size} #(.AREG(1'b1), .BREG(1'b1), .OUT_REG(1'b1)) _TECHMAP_REPLACE_ (
    .A({_extend("a", a, size, a_sign)}), .B({_extend("b", b, size, b_sign)}),
    .SIA({size}'b0), .SIB({size}'b0), .ASEL(1'b0), .BSEL(1'b0), .ASIGN(1'b1), .BSIGN(1'b1),
    .CLK(clk), .CE(1'b1), .RESET(1'b0), .DOUT(product)
  );
endmodule
"""


def _extend(name: str, bits: int, size: int, sign: bool) -> str:
    """Return Verilog for `name` extended from `bits` to `size` bits, with its sign or zeros."""
    above = f"{name}[{bits - 1}]" if sign else "1'b0"
    return f"{{{{{size - bits}{{{above}}}}}, {name}}}" if size > bits else name


def _factor(port: str, name: str, bits: int, sign: bool) -> str:
    """Return Verilog that connects 18 ports to `name`, extended with its sign or zeros."""
    above = f"{name}[{bits - 1}]" if sign else "1'b0"
    return ", ".join(f".{port}{i}({f'{name}[{i}]' if i < bits else above})" for i in range(18))


#: Products of the array's cells, a signed or unsigned byte by one or two weights, or differences of
#: bytes; and products of the lanes.
_PRODUCTS = (
    *(
        _Product(bits=(operand, weight), result=result)
        for operand in (8, 9)
        for weight, result in ((8, 16), (17, 24))
    ),
    _Product(bits=(9, 9), result=17),
    *(
        _Product(bits=(16, multiplier), result=16 + multiplier, signs=(sign, False))
        for sign in (False, True)
        for multiplier in (15, 16)
    ),
)

#: Verilog of each product with its registers, the patterns for Yosys' `extract`.
REGISTERED_PRODUCT = "".join(product.pattern for product in _PRODUCTS)

#: Verilog of the blocks that replace the products, for Yosys' `techmap`, by family. Generic
#: synthesis leaves the registers outside, far from the block, and uses a flip-flop for each bit.
REGISTERED_PRODUCT_BLOCKS = {
    "ecp5": "".join(product.ecp5_block for product in _PRODUCTS),
    "gowin": "".join(product.gowin_block for product in _PRODUCTS),
}

#: Replacement for a product of two signed bytes on the ECP5, for Yosys' `techmap`. The LUT4 of a
#: carry cell gates two rows before it adds them, which generic synthesis does not find.
SOFT_MULTIPLIER = """\
// Four carry chains add two gated rows of the product each, three adders their sums.
(* techmap_celltype = "$mul" *)
module soft_multiplier (A, B, Y);
  parameter A_SIGNED = 1, B_SIGNED = 1, A_WIDTH = 8, B_WIDTH = 8, Y_WIDTH = 16;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  wire _TECHMAP_FAIL_ = !(A_SIGNED && B_SIGNED && A_WIDTH == 8 && B_WIDTH == 8 && Y_WIDTH == 16);
  wire [39:0] pair;
  genvar p, i;
  for (p = 0; p < 4; p = p + 1) begin : pairs
    wire [10:0] carry;
    // Bit 7 of B weighs -128: its row is inverted, and has a carry into its lowest bit. The row
    // begins one bit higher than the chain, whose first bit passes that carry on.
    localparam NEGATIVE = p == 3;
    // (A & B) + (C & D), or with C inverted.
    localparam [15:0] INIT = NEGATIVE ? 16'h8788 : 16'h7888;
    assign carry[0] = NEGATIVE ? B[7] : 1'b0;
    for (i = 0; i < 10; i = i + 2) begin : bits
      wire below = i == 0 ? 1'b0 : A[i == 0 ? 0 : i - 1];
      CCU2C #(.INIT0(INIT), .INIT1(INIT), .INJECT1_0("NO"), .INJECT1_1("NO")) chain (
        .CIN(carry[i]), .COUT(carry[i + 2]),
        .A0(A[i < 8 ? i : 7]), .B0(B[2*p]), .C0(below), .D0(B[2*p + 1]), .S0(pair[10*p + i]),
        .A1(A[i < 7 ? i + 1 : 7]), .B1(B[2*p]), .C1(A[i < 8 ? i : 7]), .D1(B[2*p + 1]),
        .S1(pair[10*p + i + 1])
      );
    end
  end
  wire signed [11:0] lower = $signed(pair[9:0]) + ($signed(pair[19:10]) <<< 2);
  wire signed [11:0] upper = $signed(pair[29:20]) + ($signed(pair[39:30]) <<< 2);
  assign Y = lower + (upper <<< 4);
endmodule
"""


def select_columns(columns: int) -> str:
    """Return Yosys' selection of the multipliers in the first `columns` columns.

    These multipliers drive the registers named `product_<column>_<row>`.
    """
    wires = [f"w:*product_{column}_*" for column in range(columns)]
    # Operators act on the top of a stack, so the columns are combined into one selection first.
    return f"{' '.join(wires)} {'%u ' * (columns - 1)}%ci3 t:$mul %i"
