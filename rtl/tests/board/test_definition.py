"""Board files: all that come with Matloom are valid, and mistakes are named."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from matloom.arch.config import Config, load_config
from matloom.arch.memory import BOARD_MEMORIES, load_memory
from matloom.arch.sdram import load_sdram
from matloom_rtl.board.definition import BOARD_FOLDER, BoardError, board_names, load_board
from matloom_rtl.board.external import board_memory
from matloom_rtl.board.pins import constraints, port_sites
from matloom_rtl.board.top import settings_for
from matloom_rtl.fpga.vivado import BOARD_DEVICES
from matloom_rtl.sdram.pins import ControllerPlan

LINES = (BOARD_FOLDER / "ulx3s-85f.toml").read_text()

#: Its engine beside a processor.
WITH_PROCESSOR = "nano+tables=2+pooling=1"

#: The memory of that board, and block RAM in its place.
SDRAM = 'kind = "sdram"\npart = "IS42S16160"\npins = "sdram"\ngear = 2'
BLOCK = 'kind = "block"\nbytes = 262_144'


@pytest.mark.parametrize("name", board_names())
def test_board_is_sound(name):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    board = load_board(name)
    assert board.name == name
    pll, link = settings_for(board)
    assert abs(pll.output_hz - board.clock_hz) <= 0.02 * board.clock_hz
    assert link.board == name
    found = port_sites(board)
    assert len({place.site for place in found.values()}) == len(found)
    text = constraints(board, BOARD_DEVICES[board.device].family)
    assert all(f'"{port}"' in text or f"{{{port}}}" in text for port in found)


def test_the_pins_of_the_ulx3s():
    """The oscillator's pin and those of the FT231X are as in the board's schematics."""
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    text = constraints(load_board("ulx3s-85f"), "ecp5")
    for port, site in (("clk", "G2"), ("uart_rx", "M1"), ("uart_tx", "L4")):
        assert f'LOCATE COMP "{port}" SITE "{site}";' in text
        assert f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;' in text
    assert 'FREQUENCY PORT "clk" 25 MHZ;' in text


def test_the_part_is_that_of_the_definition():
    """Device, package and speed grade are those of amaranth-boards, if it states them."""
    boards = pytest.importorskip(
        "amaranth_boards", reason="amaranth-boards is absent: extra boards"
    )
    assert boards
    from matloom_rtl.board.pins import _definition

    packages = {"BG381": "CABGA381", "BG256": "CABGA256", "MG285": "CSFBGA285"}
    for board in map(load_board, board_names()):
        if board.package:
            known = _definition(board)
            assert known.device.removeprefix("LFE5U-").removesuffix("F") in board.device
            assert packages[known.package] == board.package
            assert known.speed == board.speed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "ulx3s-85f"\n', "", "must have the field 'name', which is missing"),
        ("input_hz", "colour", "must be one of name, title, .*, not 'colour'"),
        ('"ecp5-85k"', '"ice40"', "device in .* must be one of ecp5-85k, .*, not 'ice40'"),
        ("25_000_000", '"25 MHz"', "input_hz in .* must be of type int, not '25 MHz'"),
        ("baud = 3_000_000", "baud = 0", "baud in .* must be positive, not 0"),
        (
            'kind = "sdram"',
            'kind = "dram"',
            "memory.kind in .* must be one of .*block.*, not 'dram'",
        ),
        (
            SDRAM,
            'kind = "block"\nbytes = 0',
            "memory.bytes in .* must be a positive integer, not 0",
        ),
        (SDRAM, 'kind = "block"', "memory in .* must have bytes, kind, not .'kind'."),
        (SDRAM, BLOCK + '\npart = ""', "memory in .* must have bytes, kind, not .'bytes', 'kind',"),
        ("IS42S16160", "IS42", "memory.part in .* must be one of IS42S16160, .*, not 'IS42'"),
        ('"IS42S16160"', '"2 x GW2AR-18"', "memory.part in .* must be .*, not '2 x GW2AR-18'"),
        ('pins = "sdram"', "pins = 7", "memory.pins in .* must be a resource .*, not 7"),
        (
            'pins = "sdram"',
            'pins = "sdram"\nwired = ["dqm", "clk"]',
            r"memory.wired in .* must list some of clk_en, cs, dqm, not \['dqm', 'clk'\]",
        ),
        (
            "gear = 2",
            "gear = 3",
            "memory.gear in .* must be 1 or 2, not 3",
        ),
        (
            SDRAM,
            BLOCK + "\ngear = 2",
            "memory in .* must have bytes, kind, not .'bytes', 'gear',",
        ),
        (
            "sliced = true",
            "sliced = 1",
            "memory.sliced in .* must be true or false, not 1",
        ),
        ('uart_rx = "uart.rx"\n', "", "pins in .* must name clk, uart_rx, uart_tx"),
        ('clk = "clk25"', "clk = 7", r"pins.clk in .* must be a resource or have a site, not 7"),
        ("[pins]", "[pins", "must be TOML: "),
        ("[soc]", "[soc]\nbaud = 7", "soc in .* must have config, clock_hz, seed, not .'baud', "),
        (
            f'config = "{WITH_PROCESSOR}"',
            "config = 7",
            "soc.config in .* must be as without it, not 7",
        ),
    ],
)
def test_mistakes_are_reported(old, new, message, tmp_path):
    assert old in LINES
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace(old, new))
    with pytest.raises(BoardError, match=message):
        load_board(str(path))


TANG = (BOARD_FOLDER / "tang-nano-20k.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["IOR11B"]', '"IOR11B"', "memory.pins in .* must be .* lists of sites, not "),
        ('["IOR11B"]', "[11]", "memory.pins in .* must be .* lists of sites, not "),
        ('clk = ["IOR11B"]\n', "", "must be an SDRAM of its file with 1 pins clk, .* has 0"),
        ('"IOR44A", "IOR44B"', '"IOR44A"', "of its file with 32 pins dq, not .*, which has 31"),
    ],
)
def test_mistakes_in_the_sites_of_an_sdram(old, new, message, tmp_path):
    assert TANG.count(old) == 1
    path = tmp_path / "mine.toml"
    path.write_text(TANG.replace(old, new))
    with pytest.raises(BoardError, match=message):
        port_sites(load_board(str(path)))


def test_the_sdram_of_the_tang_nano():
    """The SDRAM's first and last pin of each bus are as in Apicula's doc/sdram.md."""
    board = load_board("tang-nano-20k")
    assert board.memory.bytes == 8 << 20
    found = {port: place for port, place in port_sites(board).items() if port.startswith("sdram")}
    known = {"clk": "IOR11B", "we": "IOL12B", "dqm[0]": "IOL12A", "dqm[3]": "IOR15B"}
    known |= {"a[0]": "IOR14A", "a[10]": "IOR12B", "dq[0]": "IOL3A", "dq[31]": "IOR44B"}
    assert {port: found[f"sdram_{port}"].site for port in known} == known
    assert len(found) == 6 + 4 + 11 + 2 + 32
    assert all(place.attributes == {"IO_TYPE": "LVCMOS33"} for place in found.values())


@pytest.mark.parametrize("name", ["ulx3s-85f", "ulx3s-25f"])
def test_the_sdram_of_the_ulx3s(name):
    """The SDRAM's first and last pin of each bus are as in the board's schematics."""
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    board = load_board(name)
    assert board.memory.bytes == 32 << 20
    found = {port: place.site for port, place in port_sites(board).items()}
    known = {"clk": "F19", "clk_en": "F20", "cs": "P20", "we": "T20", "cas": "T19", "ras": "R20"}
    known |= {"dqm[0]": "U19", "dqm[1]": "E20", "ba[0]": "P19", "ba[1]": "N20", "a[0]": "M20"}
    known |= {"a[12]": "G19", "dq[0]": "J16", "dq[15]": "J17"}
    assert {port: found[f"sdram_{port}"] for port in known} == known
    assert len(found) == 3 + 39


def test_the_sdrams_of_the_colorlight():
    """The first and last pin of each bus are as in hardware_V7.0.md of q3k/chubby75.

    CKE, CS and DQM have no pins.
    """
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    board = load_board("colorlight-5a75b")
    assert board.memory.bytes == 4 << 20
    found = {port: place.site for port, place in port_sites(board).items() if "sdram" in port}
    known = {"clk": "C6", "we": "C7", "cas": "E7", "ras": "D7", "ba": "A7", "a[0]": "A9"}
    known |= {"a[10]": "C8", "dq[0]": "B13", "dq[15]": "B2", "dq[16]": "E2", "dq[31]": "E11"}
    assert {port: found[f"sdram_{port}"] for port in known} == known
    assert len(found) == 5 + 11 + 32


COLORLIGHT = (BOARD_FOLDER / "colorlight-5a75b.toml").read_text()


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (COLORLIGHT, '"clk_en", "cs", ', '"clk_en", ', "with 1 pins cs, not 'sdram', which has 0"),
        (COLORLIGHT, ', "dqm"]', "]", "Colorlight_5A75B_R70Platform with 4 pins dqm, .* has 0"),
        (
            LINES,
            'pins = "sdram"',
            'pins = "sdram"\nwired = ["cs"]',
            "memory.wired of ulx3s-85f must be signals without pins, not 'cs', which has P20",
        ),
    ],
)
def test_mistakes_in_wired_pins(text, old, new, message, tmp_path):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    assert text.count(old) == 1
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(BoardError, match=message):
        port_sites(load_board(str(path)))


@pytest.mark.parametrize("name", ["ulx3s-85f", "ulx3s-25f"])
def test_one_bitstream_for_each_chip_that_a_ulx3s_may_have(name):
    """At the board's clock, the SDRAM part of its file needs the longest waits of all its parts."""
    board = load_board(name)
    chosen = load_sdram(board.memory.part)
    gear = board.memory.gear
    least = chosen.timing_of_gear(board.clock_hz, gear)
    # Longer than any of them asks for between rows of two banks.
    plan = ControllerPlan(part=chosen, timing=least, bus_bits=32, chunk_beats=16, gear=gear)
    apart = gear * plan.activate_distance
    waits = ("cas_latency", "rcd", "rp", "ras", "rc", "rfc", "wr", "mrd", "power_up")
    slow = ("MT48LC16M16A2",) if gear == 1 else ()  # It takes 133 MHz (docs/boards.md).
    for part in ("AS4C32M16", "W9825G6KH", *slow):
        other = load_sdram(part)
        timing = other.timing_of_gear(board.clock_hz, gear)
        for wait in waits:
            kept = gear * getattr(plan.waits, wait) if wait != "cas_latency" else least.cas_latency
            assert kept >= getattr(timing, wait), (part, wait)
        assert apart >= timing.rrd
        assert least.refresh_due <= timing.refresh_due
        assert (other.rows, other.banks) == (chosen.rows, chosen.banks)
        assert other.columns >= chosen.columns


def test_a_board_with_a_processor_may_be_slower():
    board = load_board("ulx3s-85f")
    system = board.with_processor()
    assert (board.config, board.clock_hz) == ("medium+windows=1", 71_000_000)
    assert (system.config, system.clock_hz, system.seed) == (WITH_PROCESSOR, 62_500_000, 8)
    assert system.memory == board.memory
    assert load_board("ulx3s-25f").with_processor() == load_board("ulx3s-25f")


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("ulx3s-85f", "ulx3s-sdram-64"),
        ("ulx3s-25f", "ulx3s-sdram"),
        ("tang-nano-20k", "tang-nano-sdram"),
        ("colorlight-5a75b", "colorlight-sdram"),
    ],
)
def test_the_memory_of_the_compiler_is_that_of_the_board(name, memory):
    """The compiler's model of a board's memory has the latency and bandwidth of docs/sdram.md."""
    board = load_board(name)
    part = load_sdram(board.memory.part)
    gear = board.memory.gear
    timing = part.timing(gear * board.clock_hz)
    found, config = load_memory(memory), load_config(board.config)
    columns = config.bus_bits // part.data_bits // gear
    # Of three cycles of the SDRAM a pair of words is the second of the controller's.
    latency = timing.cas_latency if gear == 1 else 2
    at_pins = {1: 2, 2: 5}[gear]
    # What the docstring of `Merge` has: 1 and 3 cycles of a read, 4 and 1 of a write; that of
    # `BusSlice`: one each way.
    before = (4, 5) if "dqm" in board.memory.wired else (0, 0)
    before = (2, 2) if board.memory.sliced else before
    assert found.read_latency == 10 + latency + columns + at_pins + before[0]
    assert found.write_latency == 10 + config.burst_beats * columns + before[1]
    bytes_ = gear * part.data_bits / 8 * (1 - 12 * gear / timing.refresh_due)
    assert found.rate == pytest.approx(bytes_, rel=0.002)
    worked_out = board_memory(board)
    assert worked_out.rate == pytest.approx(found.rate, rel=0.003)
    assert replace(worked_out, bytes_per_cycle=found.rate) == found


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "ulx3s-85f",
            "clock_hz = 71_000_000",
            "clock_hz = 50_000_000",
            "clock of ulx3s-85f, with memory.gear of 2, must be at least 60 MHz, not 50 MHz",
        ),
        (
            "ulx3s-85f",
            "clock_hz = 71_000_000",
            "clock_hz = 75_000_000",
            "the clock of IS42S16160 must be at most 143000000, not 150000000",
        ),
        (
            "tang-nano-20k",
            'kind = "sdram"',
            'kind = "sdram"\ngear = 2',
            "gear must be 1 with a PLL",
        ),
    ],
)
def test_a_memory_that_cannot_be_as_fast(tmp_path, name, old, new, message):
    path, text = tmp_path / "fast.toml", (BOARD_FOLDER / f"{name}.toml").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        board_memory(load_board(str(path)))


def test_a_memory_that_cannot_be_worked_out():
    """A missing board and an unknown one give a message without a traceback."""
    command = [sys.executable, "-m", "matloom_rtl.board.external"]
    for words, message in (([], "usage: "), (["ulx4m"], "matloom: ")):
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1


def test_the_compiler_knows_the_memory_of_each_board():
    kinds = {
        ("IS42S16160", 32): "ulx3s-sdram",
        ("IS42S16160", 64): "ulx3s-sdram-64",
        ("GW2AR-18", 32): "tang-nano-sdram",
        ("2 x M12L16161A", 32): "colorlight-sdram",
    }
    found = {}
    for name in board_names():
        board = load_board(name)
        key = board.memory.part, load_config(board.config).bus_bits
        found[name] = kinds.get(key, "board-block")
        assert (found[name] == "board-block") == (board.memory.kind == "block")
    assert found == BOARD_MEMORIES


def test_an_sdram_with_too_few_pins(tmp_path):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace('pins = "sdram"', 'pins = "uart"'))
    with pytest.raises(BoardError, match=r"must be an SDRAM of .* with 1 pins clk, not 'uart'"):
        port_sites(load_board(str(path)))


@pytest.mark.parametrize("pin", ["nothing", "uart.nothing", "uart", "led.0"])
def test_no_such_pin(pin, tmp_path):
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    path = tmp_path / "mine.toml"
    path.write_text(LINES.replace("uart.rx", pin))
    with pytest.raises(BoardError, match=f"with one pin of the device, not '{pin}'"):
        port_sites(load_board(str(path)))


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
        port_sites(load_board(str(path)))


def test_no_such_board():
    with pytest.raises(BoardError, match=r"one of .*ulx3s-85f.* or a file\.toml, not 'ulx4m'"):
        load_board("ulx4m")


def test_a_clock_that_the_line_cannot_be_made_from():
    board = load_board("ulx3s-85f")
    with pytest.raises(ValueError, match="baud must be the clock"):
        settings_for(board, baud=70_000_000)
    with pytest.raises(ValueError, match="PLL of the ECP5"):
        settings_for(board, clock_hz=3_000_000)


#: Those of boards, not of chips alone.
REPORTS = [
    path
    for path in sorted((Path(__file__).parents[3] / "bitstreams" / "reports").glob("*.json"))
    if "board" in json.loads(path.read_text())
]

#: Those with what networks take there.
WITH_NETWORKS = [path for path in REPORTS if "networks" in json.loads(path.read_text())]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_of_boards_met_their_clock(path):
    """Each stored report has a clock that was met, and a known board."""
    report = json.loads(path.read_text())
    assert load_board(report["board"]).device == report["device"]
    assert report["fmax_mhz"] >= report["clock_asked_mhz"]
    assert all(item["used"] <= item["available"] for item in report["area"].values())


@pytest.mark.parametrize("path", WITH_NETWORKS, ids=lambda path: path.stem)
def test_network_cycles_of_a_report_match_its_board(path):
    """Reports used the board's memory and engine, and their cycles are close to the prediction."""
    report = json.loads(path.read_text())
    board = load_board(report["board"])
    assert load_memory(board.name).name == report["memory_model"]
    # The digest holds the interface version, too, which a report may be older than. So may its
    # fields be: those it lacks have their defaults.
    assert load_config(board.config) == Config(**report["config"])
    for found in report["networks"].values():
        assert found.get("needs_bytes", board.memory.bytes + 1) > board.memory.bytes
        for call in set(found) & {"first", "later"}:
            assert found[call]["predicted"] == pytest.approx(found[call]["cycles"], rel=0.05)


def test_commands_of_the_page_name_the_engine_of_a_board():
    """Every `--config` in docs/boards.md is a board's engine, as boards refuse other programs."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "boards.md").read_text()
    boards = [load_board(name) for name in board_names()]
    engines = {each.config for board in boards for each in (board, board.with_processor())}
    used = set(re.findall(r"--config (\S+?)`?(?=\s)", page)) - {"CONFIG"}
    assert used <= engines
