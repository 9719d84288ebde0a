"""Board files: all that come along are sound, and mistakes in one are told by name."""

import json
from pathlib import Path

import pytest

from matloom_rtl.board.definition import BOARD_FOLDER, BoardError, board_names, load_board
from matloom_rtl.board.pins import constraints, places
from matloom_rtl.board.top import settings_for
from matloom_rtl.fpga.devices import DEVICES

LINES = (BOARD_FOLDER / "ulx3s-85f.toml").read_text()


@pytest.mark.parametrize("name", board_names())
def test_board_is_sound(name):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    board = load_board(name)
    assert board.name == name
    pll, link = settings_for(board)
    assert abs(pll.output_hz - board.clock_hz) <= 0.02 * board.clock_hz
    assert link.board == name
    found = places(board)
    assert len({place.site for place in found.values()}) == len(found)
    text = constraints(board, DEVICES[board.device].family)
    assert all(f'"{port}"' in text for port in found)


def test_the_pins_of_the_ulx3s():
    """By the board's schematics: the oscillator, and the two wires of the FT231X."""
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    text = constraints(load_board("ulx3s-85f"), "ecp5")
    for port, site in (("clk", "G2"), ("uart_rx", "M1"), ("uart_tx", "L4")):
        assert f'LOCATE COMP "{port}" SITE "{site}";' in text
        assert f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;' in text
    assert 'FREQUENCY PORT "clk" 25 MHZ;' in text


def test_the_part_is_that_of_the_definition():
    """Device, package and grade, where amaranth-boards tells them too."""
    boards = pytest.importorskip(
        "amaranth_boards", reason="amaranth-boards is absent: extra boards"
    )
    assert boards
    from matloom_rtl.board.pins import _definition

    packages = {"BG381": "CABGA381", "BG256": "CABGA256", "MG285": "CSFBGA285"}
    for board in map(load_board, board_names()):
        if board.definition:
            known = _definition(board)
            assert known.device.removeprefix("LFE5U-").removesuffix("F") in board.device
            assert packages[known.package] == board.package
            assert known.speed == board.speed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "ulx3s-85f"\n', "", "must have the field 'name', which is missing"),
        ("input_hz", "colour", "may have the fields name, title, .*, not 'colour'"),
        ('"ecp5-85k"', '"ice40"', "device in .* must be one of ecp5-85k, .*, not 'ice40'"),
        ("25_000_000", '"25 MHz"', "input_hz in .* must be of type int, not '25 MHz'"),
        ("baud = 3_000_000", "baud = 0", "baud in .* must be positive, not 0"),
        ('"block"', '"dram"', "memory.kind in .* must be one of .*block.*, not 'dram'"),
        ("bytes = 262_144", "bytes = 0", "memory.bytes in .* must be a positive integer, not 0"),
        ("bytes = 262_144", "", "memory in .* must have kind and bytes, not .'kind'."),
        ('uart_rx = "uart.rx"\n', "", "pins in .* must name clk, uart_rx, uart_tx"),
        ('clk = "clk25"', "clk = 7", r"pins.clk in .* must be a resource or have a site, not 7"),
        ("[pins]", "[pins", "must be TOML: "),
    ],
)
def test_mistakes_are_told(old, new, message, tmp_path):
    assert old in LINES
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace(old, new))
    with pytest.raises(BoardError, match=message):
        load_board(str(path))


@pytest.mark.parametrize("pin", ["nothing", "uart.nothing", "uart", "led.0"])
def test_no_such_pin(pin, tmp_path):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace("uart.rx", pin))
    with pytest.raises(BoardError, match=f"with one pin of the device, not '{pin}'"):
        places(load_board(str(path)))


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("amaranth_boards.ulx3s.Nothing", "definition of ulx3s-85f must exist: .*Nothing"),
        ("amaranth_boards.nothing.Nothing", "definition of ulx3s-85f must exist: .*nothing"),
    ],
)
def test_no_such_definition(definition, message, tmp_path):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace("amaranth_boards.ulx3s.ULX3S_85F_Platform", definition))
    with pytest.raises(BoardError, match=message):
        places(load_board(str(path)))


def test_no_such_board():
    with pytest.raises(BoardError, match=r"one of .*ulx3s-85f.* or a file\.toml, not 'ulx4m'"):
        load_board("ulx4m")


def test_a_clock_that_the_line_cannot_be_made_from():
    board = load_board("ulx3s-85f")
    with pytest.raises(ValueError, match="baud must be the clock"):
        settings_for(board, baud=70_000_000)
    with pytest.raises(ValueError, match="PLL of the ECP5"):
        settings_for(board, clock_hz=3_000_000)


REPORTS = sorted((Path(__file__).parents[3] / "bitstreams" / "reports").glob("*.json"))


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_of_boards_met_their_clock(path):
    """A report that is kept is that of a bitstream: its clock is met, and its board is known."""
    report = json.loads(path.read_text())
    if "board" not in report:
        pytest.skip("a report of a chip, not of a board")
    assert load_board(report["board"]).device == report["device"]
    assert report["fmax_mhz"] >= report["clock_asked_mhz"]
    assert all(item["used"] <= item["available"] for item in report["area"].values())
