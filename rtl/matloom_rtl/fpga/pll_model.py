"""Simulation model of an ECP5's PLL in real time, for a simulator that supports delays."""

__all__ = ["PLL"]

_OUTPUTS = ("OP", "OS", "OS2", "OS3")


def _for_each_output(text: str, separator: str = "\n") -> str:
    """Return `text` for each output, joined, with its name for `@` and its index for `#N`."""
    return separator.join(
        text.replace("@", name).replace("#N", str(number)) for number, name in enumerate(_OUTPUTS)
    )


#: From the sysCLOCK usage guide (FPGA-TN-02200) and the data sheet (FPGA-DS-02012, sysCLOCK PLL
#: timing). The detector compares the input / CLKI_DIV with the feedback / CLKFB_DIV, the feedback
#: is one of the outputs, and each of those is the oscillator divided. So the oscillator is the
#: detector's frequency * CLKFB_DIV * the divider of that output, and rising edges of this one fall
#: on those of the detector. The other outputs are delayed by CPHASE periods of the oscillator and
#: FPHASE eighths, relative to those of the feedback output. The duty cycle is 50 %. An output runs
#: if its parameter or its pin enables it.
#:
#: The oscillator follows the length of the detector's last period. It locks after `_SETTLE` regular
#: periods within the ranges of the data sheet, with as many feedback edges as expected; the data
#: sheet allows up to 15 ms. Clocks are undefined before LOCK.
PLL = f"""\
module EHXPLLL #(
  parameter CLKI_DIV = 1, CLKFB_DIV = 1, FEEDBK_PATH = "CLKOP",
{_for_each_output("  parameter CLK@_DIV = 8, CLK@_CPHASE = 0, CLK@_FPHASE = 0,")}
  parameter CLKOP_ENABLE = "ENABLED", CLKOS_ENABLE = "DISABLED",
  parameter CLKOS2_ENABLE = "DISABLED", CLKOS3_ENABLE = "DISABLED",
  parameter OUTDIVIDER_MUXA = "DIVA", OUTDIVIDER_MUXB = "DIVB",
  parameter OUTDIVIDER_MUXC = "DIVC", OUTDIVIDER_MUXD = "DIVD",
  parameter PLLRST_ENA = "DISABLED", STDBY_ENABLE = "DISABLED", DPHASE_SOURCE = "DISABLED",
  parameter INTFB_WAKE = "DISABLED"
) (
  input CLKI, CLKFB, RST, STDBY, PLLWAKESYNC,
  input PHASESEL1, PHASESEL0, PHASEDIR, PHASESTEP, PHASELOADREG,
  input ENCLKOP, ENCLKOS, ENCLKOS2, ENCLKOS3,
  output CLKOP, CLKOS, CLKOS2, CLKOS3, LOCK, INTLOCK, REFCLK, CLKINTFB
);
  timeunit 1ps; timeprecision 1ps;
  // Of the outputs that the feedback may come from: which it is, and whether by the pin CLKFB.
  localparam BY_PIN = FEEDBK_PATH == "CLKOP" || FEEDBK_PATH == "CLKOS"
                      || FEEDBK_PATH == "CLKOS2" || FEEDBK_PATH == "CLKOS3";
  localparam FED = FEEDBK_PATH == "CLKOP" || FEEDBK_PATH == "INT_OP" ? 0
                   : FEEDBK_PATH == "CLKOS" || FEEDBK_PATH == "INT_OS" ? 1
                   : FEEDBK_PATH == "CLKOS2" || FEEDBK_PATH == "INT_OS2" ? 2
                   : FEEDBK_PATH == "CLKOS3" || FEEDBK_PATH == "INT_OS3" ? 3 : 4;
  localparam integer DIV [0:3] = '{{{_for_each_output("CLK@_DIV", ", ")}}};
  localparam integer LATE [0:3] = '{{
{_for_each_output("    8 * CLK@_CPHASE + CLK@_FPHASE", ",%").replace("%", chr(10))}
  }};
  // Eighths of the oscillator's period in a period of the detector.
  localparam integer EIGHTHS = 8 * CLKFB_DIV * DIV[FED % 4];
  localparam integer SETTLE = 16, SLOWEST = 125_000;  // Detector's periods; ps, of 8 MHz.

  wire reset = PLLRST_ENA == "ENABLED" && RST;
  wire [3:0] on = {{
    CLKOS3_ENABLE == "ENABLED" || ENCLKOS3, CLKOS2_ENABLE == "ENABLED" || ENCLKOS2,
    CLKOS_ENABLE == "ENABLED" || ENCLKOS, CLKOP_ENABLE == "ENABLED" || ENCLKOP
  }};
  reg [3:0] level = 0;
  assign {{CLKOS3, CLKOS2, CLKOS, CLKOP}} = level & on;
  assign CLKINTFB = level[FED % 4];
  assign REFCLK = CLKI;

  // The detector: edges that are CLKI_DIV apart, and what came back between two of them.
  integer divided = 0, returned = 0, regular = 0, settled = 0;
  longint periods = 0;
  realtime last = 0, period = 0, now;
  wire in_range = period <= SLOWEST && period * 400e-6 <= EIGHTHS / 8
                  && EIGHTHS / 8 <= period * 800e-6;
  always @(posedge CLKFB) returned = returned + 1;
  always @(posedge CLKI) begin
    divided = divided + 1;
    if (divided >= CLKI_DIV) begin
      divided = 0;
      now = $realtime;
      regular = !reset && now - last > 0.99 * period && now - last < 1.01 * period
                ? regular + 1 : 0;
      period = now - last;
      last = now;
      settled = regular != 0 && in_range && (!BY_PIN || returned == CLKFB_DIV)
                ? (settled < SETTLE ? settled + 1 : settled) : 0;
      returned = 0;
      periods = periods + 1;
    end
  end
  always #SLOWEST if ($realtime - last > 2 * SLOWEST) begin regular = 0; settled = 0; end
  assign LOCK = settled == SETTLE && !reset;
  assign INTLOCK = LOCK;

  // Where an output is in its cycle, in eighths, so many after the first period of the detector.
  function integer place(input longint at, input integer n);
    place = (at - (LATE[n] - LATE[FED % 4]) + 1024 * DIV[n]) % (8 * DIV[n]);
  endfunction
  // Eighths until an output that runs changes next.
  function integer ahead(input longint at);
    integer n, left;
    ahead = EIGHTHS;
    for (n = 0; n < 4; n = n + 1) if (on[n] || n == FED) begin
      left = 4 * DIV[n] - place(at, n) % (4 * DIV[n]);
      if (left < ahead) ahead = left;
    end
  endfunction

  longint mine, at;
  realtime began, length;
  integer n, done;
  always @(periods) begin
    mine = periods;
    began = last;
    length = period;
    done = regular != 0 ? 0 : EIGHTHS;
    if (done) level = 0;
    while (done < EIGHTHS && mine == periods && regular != 0) begin
      at = mine * EIGHTHS + done;
      for (n = 0; n < 4; n = n + 1) level[n] = place(at, n) < 4 * DIV[n];
      done = done + ahead(at);
      if (done < EIGHTHS) #(began + length * done / EIGHTHS - $realtime);
    end
  end

  // What nothing here generates is refused rather than guessed.
  if (FED > 3 || STDBY_ENABLE != "DISABLED" || DPHASE_SOURCE != "DISABLED"
      || INTFB_WAKE != "DISABLED" || OUTDIVIDER_MUXA != "DIVA" || OUTDIVIDER_MUXB != "DIVB"
      || OUTDIVIDER_MUXC != "DIVC" || OUTDIVIDER_MUXD != "DIVD")
    $error("EHXPLLL: no such mode in this model");
endmodule
"""
