"""The model of an ECP5's PLL: frequencies, phases and lock, by Lattice's formulas."""

import ctypes
from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.back import verilog

from matloom.toolchain.verilator import build_library
from matloom_rtl.board.clocking import Clocking
from matloom_rtl.board.definition import BOARD_FOLDER, load_board
from matloom_rtl.board.top import settings_for
from matloom_rtl.fpga.pll_model import PLL
from matloom_rtl.fpga.vivado import BOARD_DEVICES

#: Places of the outputs in what the harness notes.
OP, OS, OS2, OS3, LOCK = range(5)

OUTPUTS = ("OP", "OS", "OS2", "OS3")

#: Picoseconds: of a run, until when the input of a case that loses it runs, and of the reset.
END, LOST, RESET = 8_000_000, 5_000_000, (4_000_000, 4_500_000)

#: Most edges of an output in a run.
EDGES = 4096

#: Picoseconds: times are whole ones, of the input, too.
NEAR = 3

HARNESS = """
#include <algorithm>
#include <vector>
#include "Vtop.h"
#include "verilated.h"
extern "C" void run(const uint64_t* hz, const uint64_t* lost, uint32_t inputs, uint32_t outputs,
                    uint64_t end, const uint64_t* reset, uint64_t* times, uint32_t* counts) {
  VerilatedContext context;
  Vtop top(&context);
  std::vector<uint64_t> edge(inputs, 0), number(inputs, 0);
  std::vector<bool> level(outputs, false);
  uint64_t now = 0;
  while (now < end) {
    context.time(now);
    top.rst = now >= reset[0] && now < reset[1];
    for (uint32_t i = 0; i < inputs; ++i) {
      if (edge[i] != now) continue;
      top.clk ^= 1u << i;
      edge[i] = ++number[i] * 1000000000000 / (2 * hz[i]);
      if (edge[i] > lost[i]) edge[i] = ~0ull;
    }
    top.eval();
    for (uint32_t i = 0; i < outputs; ++i) {
      if ((top.o[i / 32] >> i % 32 & 1) == level[i]) continue;
      level[i] = !level[i];
      if (counts[i] < EDGES) times[i * EDGES + counts[i]++] = now;
    }
    uint64_t next = *std::min_element(edge.begin(), edge.end());
    for (int i = 0; i < 2; ++i) if (reset[i] > now) next = std::min(next, reset[i]);
    if (top.eventsPending()) next = std::min(next, top.nextTimeSlot());
    now = next;
  }
}
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A PLL and its expected outputs.

    `clocks` has Hz and phase by output; the phase is in periods of the oscillator after CLKOP, or
    after another feedback output. `oscillator_hz` is the oscillator's frequency. After `detectors`
    periods of the phase detector, all outputs are at the same phase again.
    """

    input_hz: int
    text: str
    clocks: dict = field(default_factory=dict)
    oscillator_hz: float = 600e6
    input_divider: int = 1
    detectors: int = 1
    feedback: int = OP
    locks: bool = True
    lost: bool = False


def pll(wires=".CLKFB(@o[0])", **settings):
    """Return an instance with the parameters; the default feedback is CLKOP."""
    told = ", ".join(
        f'.{name}("{value}")' if isinstance(value, str) else f".{name}({value})"
        for name, value in settings.items()
    )
    outputs = ", ".join(f".CLK{name}(@o[{bit}])" for bit, name in enumerate(OUTPUTS))
    return f"@pll #({told}) @o_pll (.CLKI(@clk), {outputs}, .LOCK(@o[4]), .RST(rst), {wires});"


#: A board's own instance, in the module that it has for its clock.
BOARD = "@board @o_pll (.source(@clk), .clock(@o[0]), .early(@o[1]), .locked(@o[4]));"

TEN = {"CLKFB_DIV": 5, "CLKOP_DIV": 10}

# 25 * 3 = 75 MHz, oscillator 600; `early` leads by one of its periods.
SEVENTY_FIVE = Case(
    input_hz=25_000_000,
    text=BOARD,
    clocks={OP: (75e6, 0), OS: (75e6, -1)},
)

CASES = {
    # 25 / 3 * 10 = 83.3 MHz, of an oscillator seven times as fast.
    "ulx3s-25f": Case(
        input_hz=25_000_000,
        text=BOARD,
        clocks={OP: (250e6 / 3, 0), OS: (250e6 / 3, -1)},
        oscillator_hz=1750e6 / 3,
        input_divider=3,
    ),
    # 25 / 3 * 68 = 566.67 MHz, an eighth of it and, half of its own cycle away, a quarter.
    "ulx3s-85f": Case(
        input_hz=25_000_000,
        text=BOARD,
        clocks={OP: (1.7e9 / 24, 0), OS: (1.7e9 / 12, -2)},
        oscillator_hz=1.7e9 / 3,
        input_divider=3,
        detectors=2,
    ),
    "colorlight-5a75b": SEVENTY_FIVE,
    # 48 / 3 * 5 = 80 MHz, oscillator 560.
    "orangecrab-85f": Case(
        input_hz=48_000_000,
        text=BOARD,
        clocks={OP: (80e6, 0), OS: (80e6, -1)},
        oscillator_hz=560e6,
        input_divider=3,
    ),
    # 12 * 5 = 60, times 10 = 600; 600 / 10, / 4, / 25; (12 - 9) + 3 / 8 periods late.
    "phases": Case(
        input_hz=12_000_000,
        text=pll(
            **TEN,
            CLKOP_CPHASE=9,
            **{"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": 10, "CLKOS_CPHASE": 12, "CLKOS_FPHASE": 3},
            **{"CLKOS2_ENABLE": "ENABLED", "CLKOS2_DIV": 5, "CLKOS2_CPHASE": 11},
            **{"CLKOS3_ENABLE": "ENABLED", "CLKOS3_DIV": 25, "CLKOS3_CPHASE": 9},
        ),
        clocks={OP: (60e6, 0), OS: (60e6, 3.375), OS2: (120e6, 2), OS3: (24e6, 0)},
    ),
    # Feedback from CLKOS: 10 * 3 * 20 = 600 MHz; 600 / 20 = 30, 600 / 5 = 120. CLKOP comes
    # (1 - 2) - 4 / 8 periods late.
    "second": Case(
        input_hz=10_000_000,
        text=pll(
            ".CLKFB(@o[1])",
            **{"FEEDBK_PATH": "CLKOS", "CLKFB_DIV": 3, "CLKOP_DIV": 5, "CLKOP_CPHASE": 1},
            **{"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": 20, "CLKOS_CPHASE": 2, "CLKOS_FPHASE": 4},
        ),
        clocks={OP: (120e6, -1.5), OS: (30e6, 0)},
        feedback=OS,
    ),
    # The same within the PLL, whose outputs are off but for one, by its pin.
    "inside": Case(
        input_hz=10_000_000,
        text=pll(
            ".ENCLKOS2(@o[4])",
            **{"FEEDBK_PATH": "INT_OP", "CLKFB_DIV": 5, "CLKOP_DIV": 12, "CLKOS2_DIV": 6},
            CLKOP_ENABLE="DISABLED",
        ),
        clocks={OS2: (100e6, 0)},
    ),
    "no feedback": Case(input_hz=12_000_000, text=pll(".CLKFB(1'b0)", **TEN), locks=False),
    "detector of 6.25 MHz": Case(
        input_hz=25_000_000, text=pll(CLKI_DIV=4, CLKFB_DIV=10, CLKOP_DIV=10), locks=False
    ),
    "oscillator of 375 MHz": Case(
        input_hz=25_000_000, text=pll(CLKFB_DIV=3, CLKOP_DIV=5), locks=False
    ),
    "oscillator of 825 MHz": Case(
        input_hz=25_000_000, text=pll(CLKFB_DIV=3, CLKOP_DIV=11), locks=False
    ),
    "input lost": Case(input_hz=12_000_000, text=pll(**TEN), clocks={OP: (60e6, 0)}, lost=True),
    "reset": Case(
        input_hz=12_000_000, text=pll(**TEN, PLLRST_ENA="ENABLED"), clocks={OP: (60e6, 0)}
    ),
}

#: Mistakes in the model.
MISTAKES = [
    ("8 * CLKFB_DIV * DIV[FED % 4]", "8 * CLKFB_DIV * DIV[0]"),
    ("(LATE[n] - LATE[FED % 4])", "LATE[n]"),
    ("8 * CLKOS_CPHASE + CLKOS_FPHASE", "8 * CLKOS_CPHASE"),
    ("level[n] = place(at, n) < 4 * DIV[n]", "level[n] = place(at, n) < 8 * (DIV[n] / 2)"),
    ("divided >= CLKI_DIV", "divided > CLKI_DIV"),
    ("level & on", "level"),
    ("(!BY_PIN || returned == CLKFB_DIV)", "1"),
    ("period <= SLOWEST && ", ""),
    ("period * 400e-6 <= EIGHTHS / 8", "1"),
    ("EIGHTHS / 8 <= period * 800e-6", "1"),
    ("always #SLOWEST if", "always #SLOWEST if (0) if"),
    ('PLLRST_ENA == "ENABLED" && RST', "0"),
    ('PLLRST_ENA == "ENABLED" && RST', "RST"),
]


def sources(models):
    """Return Verilog of all models, those of boards included, and of a top with all cases."""
    modules, rows = [], []
    for number, model in enumerate(models):
        block = f"EHXPLLL_{number}"
        modules.append(model.replace("EHXPLLL", block))
        for place, (name, case) in enumerate(CASES.items()):
            own = f"o_{number}_{place}"
            if case.text == BOARD:
                board = load_board(name)
                settings, gear = settings_for(board)[0], board.memory.gear
                clocking = Clocking("ecp5", settings, early=True, gear=gear)
                modules.append(verilog.convert(clocking, name=f"board_{own}"))
                modules[-1] = modules[-1].replace("EHXPLLL", block)
            first = 5 * (number * len(CASES) + place)
            rows.append(f"wire [4:0] {own}; assign o[{first} +: 5] = {own};")
            text = case.text.replace("@o", own).replace("@clk", f"clk[{place}]")
            rows.append(text.replace("@pll", block).replace("@board", f"board_{own}"))
    last = 5 * len(models) * len(CASES) - 1
    ports = f"input [{len(CASES) - 1}:0] clk, input rst, output [{last}:0] o"
    return "\n".join([*modules, f"module top ({ports});", *rows, "endmodule"])


def measured(folder, models):
    """Run every case with every model; return edge times by model, case and output."""
    (folder / "top.v").write_text(sources(models))
    (folder / "harness.cpp").write_text(HARNESS)
    flags = ["--timing", "-CFLAGS", f"-DEDGES={EDGES}"]
    files = ([folder / "top.v"], "top", [folder / "harness.cpp"], folder / "top.so")
    library = ctypes.CDLL(str(build_library(*files, flags=flags)))
    outputs = 5 * len(models) * len(CASES)
    hz = np.array([case.input_hz for case in CASES.values()], np.uint64)
    lost = np.array([LOST if case.lost else END for case in CASES.values()], np.uint64)
    times = np.zeros((outputs, EDGES), np.uint64)
    counts = np.zeros(outputs, np.uint32)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (hz, lost, times, counts)]
    numbers = [ctypes.c_uint32(len(CASES)), ctypes.c_uint32(outputs), ctypes.c_uint64(END)]
    reset = np.array(RESET, np.uint64)
    library.run(*arrays[:2], *numbers, ctypes.c_void_p(reset.ctypes.data), *arrays[2:])
    found = [row[:count].astype(np.int64) for row, count in zip(times, counts, strict=True)]
    return [
        {name: found[5 * (at + n) :][:5] for n, name in enumerate(CASES)}
        for at in range(0, len(models) * len(CASES), len(CASES))
    ]


def near(time, wanted, period):
    """Return whether times agree modulo whole periods."""
    return np.all(np.abs((time - wanted + period / 2) % period - period / 2) <= NEAR)


def fault(name, edges):
    """Return the error in the edges of a case; "" if there is none."""
    case, lock = CASES[name], edges[LOCK]
    wanted = {"input lost": 2, "reset": 3}.get(name, 1) if case.locks else 0
    if len(lock) != wanted:
        return f"lock changes at {lock}"
    if not case.locks:
        return ""
    if name == "input lost" and not LOST < lock[1] < LOST + 1_000_000:
        return f"lock ends at {lock[1]}"
    if name == "reset" and not (lock[1] == RESET[0] and RESET[1] < lock[2]):
        return f"lock after a reset at {lock}"
    begin, end = lock[-1] if name == "reset" else lock[0], LOST - 200_000 if case.lost else END
    oscillator = 1e12 / case.oscillator_hz
    for output in range(LOCK):
        if output not in case.clocks:
            if len(edges[output]):
                return f"output {output} is on"
            continue
        hz, late = case.clocks[output]
        first = 0 if output == case.feedback else late
        # An edge of an output rises after it has fallen, so every other one from the first on.
        rising, falling = edges[output][::2], edges[output][1::2]
        rising, falling = (part[(part > begin) & (part < end)] for part in (rising, falling))
        period = 1e12 / hz
        if abs(len(rising) - (end - begin) / period) > 2:
            return f"output {output} has {len(rising)} cycles"
        if not near(rising, rising[0], period) or not near(falling, rising[0] + period / 2, period):
            return f"output {output} is uneven"
        # The feedback's edges are those of the detector: of one in `input_divider` of the input.
        inputs = np.arange(case.input_divider * case.detectors) * 1e12 / case.input_hz
        if not any(near(rising, at + first * oscillator, period) for at in inputs):
            return f"output {output} is at {rising[0] % period} of {period}"
    return ""


@pytest.mark.slow
def test_clocks_by_the_formulas_of_the_guides(tmp_path):
    (found,) = measured(tmp_path, [PLL])
    assert {name: fault(name, edges) for name, edges in found.items()} == dict.fromkeys(CASES, "")


@pytest.mark.slow
def test_mistakes_are_noticed(tmp_path):
    assert all(PLL.count(good) == 1 for good, _bad in MISTAKES)
    found = measured(tmp_path, [PLL.replace(good, bad) for good, bad in MISTAKES])
    noticed = [any(fault(name, edges) for name, edges in model.items()) for model in found]
    assert all(noticed), [MISTAKES[n] for n, seen in enumerate(noticed) if not seen]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.text == BOARD])
def test_the_calculator_agrees(name):
    settings, _link = settings_for(load_board(name))
    case = CASES[name]
    assert settings.input_divider == case.input_divider
    found = [float(hz) for hz in (settings.output_hz, settings.oscillator_hz)]
    assert found == pytest.approx([case.clocks[OP][0], case.oscillator_hz], rel=1e-9)


def test_every_board_with_this_pll_is_a_case():
    boards = [load_board(path.stem) for path in BOARD_FOLDER.glob("*.toml")]
    found = {board.name for board in boards if BOARD_DEVICES[board.device].family == "ecp5"}
    assert found == {name for name, case in CASES.items() if case.text == BOARD}
