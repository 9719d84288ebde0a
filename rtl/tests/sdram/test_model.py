"""The SDRAM model alone: each rule is exact to the cycle, and data are stored."""

import dataclasses

import pytest

from matloom.arch.sdram import load_sdram
from matloom_rtl.sdram.testing import RULES, Sdram, SdramPins

PART = load_sdram("IS42S16160")
#: Every wait has its own length, so that no rule hides another.
TIMING = dataclasses.replace(
    PART.timing(100_000_000, 2),
    **{"rcd": 3, "rp": 4, "ras": 7, "rc": 13, "rfc": 9, "wr": 3, "rrd": 2, "mrd": 5},
    **{"power_up": 20, "initial_refreshes": 2, "refresh": 100},
)
ALL = 1 << 10
BURST = 4
MODE = 2 << 4 | 2
NOP = {}
COMMANDS = {
    "activate": {"cs": 1, "ras": 1},
    "read": {"cs": 1, "cas": 1},
    "write": {"cs": 1, "cas": 1, "we": 1},
    "precharge": {"cs": 1, "ras": 1, "we": 1},
    "refresh": {"cs": 1, "ras": 1, "cas": 1},
    "mode": {"cs": 1, "ras": 1, "cas": 1, "we": 1},
    "stop": {"cs": 1, "we": 1},
}


class Pins:
    """Drives the model with commands; `data` has the word at each edge."""

    def __init__(self, **changes):
        names = ("refuse_unwritten", "maskless")
        options = {name: changes.pop(name) for name in names if name in changes}
        self.model = Sdram(PART, dataclasses.replace(TIMING, **changes), **options)
        self.data = []

    def edge(self, command=None, *, ba=0, a=0, **others):
        pins = SdramPins(clk_en=1, ba=ba, a=a)
        for name, value in (COMMANDS[command] if command else NOP).items():
            setattr(pins, name, value)
        for name, value in others.items():
            setattr(pins, name, value)
        self.data.append(self.model.step(pins))

    def wait(self, cycles, **pins):
        for _ in range(cycles):
            self.edge(**pins)

    def start(self, *, power_up=20, refreshes=2, rp=4, rfc=9, mrd=5, mode=MODE):
        """Initialise; the last command was `mrd` - 1 cycles ago."""
        self.wait(power_up)
        self.edge("precharge", a=ALL)
        self.wait(rp - 1)
        for _ in range(refreshes):
            self.edge("refresh")
            self.wait(rfc - 1)
        self.edge("mode", a=mode)
        self.wait(mrd - 1)
        return self

    def write(self, words, *, ba=0, a=0, masks=(0,) * BURST):
        """WRITE a burst, up to the edge of its last word."""
        for index, (word, mask) in enumerate(zip(words, masks, strict=True)):
            place = {"command": "write", "ba": ba, "a": a} if index == 0 else {}
            self.edge(drive=1, dq=word, dqm=mask, **place)


def opened(**options):
    """Return pins with row 5 of bank 0 open long enough for any column."""
    pins = Pins(**options).start()
    pins.edge("activate", a=5)
    pins.wait(TIMING.rcd - 1)
    return pins


def power_up(short):
    return Pins().start(power_up=20 - short)


def initial_refreshes(short):
    return Pins().start(refreshes=2 - short)


def mode_latency(short):
    return Pins(cas_latency=3).start(mode=(3 - short) << 4 | 2)


def rcd(short):
    pins = Pins().start()
    pins.edge("activate", a=5)
    pins.wait(TIMING.rcd - 1 - short)
    pins.edge("read")
    return pins


def rp(short):
    pins = opened()
    pins.wait(20)
    pins.edge("precharge")
    pins.wait(TIMING.rp - 1 - short)
    pins.edge("activate", a=6)
    return pins


def rp_before_refresh(short):
    pins = opened()
    pins.wait(20)
    pins.edge("precharge", a=ALL)
    pins.wait(TIMING.rp - 1 - short)
    pins.edge("refresh")
    return pins


def ras(short):
    pins = opened()
    pins.wait(TIMING.ras - TIMING.rcd - short)
    pins.edge("precharge")
    return pins


def rc(short):
    pins = opened()
    pins.wait(TIMING.ras - TIMING.rcd)
    pins.edge("precharge")
    pins.wait(TIMING.rc - TIMING.ras - 1 - short)
    pins.edge("activate", a=6)
    return pins


def rfc(short):
    pins = Pins().start()
    pins.edge("refresh")
    pins.wait(TIMING.rfc - 1 - short)
    pins.edge("activate")
    return pins


def initial_rfc(short):
    return Pins().start(rfc=9 - short)


def wr(short):
    pins = opened()
    pins.write([1, 2, 3, 4])
    pins.wait(TIMING.wr - 1 - short)
    pins.edge("precharge")
    return pins


def rrd(short):
    pins = Pins().start()
    pins.edge("activate", ba=1)
    pins.wait(TIMING.rrd - 1 - short)
    pins.edge("activate", ba=2)
    return pins


def mrd(short):
    pins = Pins().start(mrd=5 - short)
    pins.edge("activate")
    return pins


def refresh(short):
    pins = Pins().start(mrd=1)
    pins.wait(2 * TIMING.refresh - 1 + short)
    pins.edge("refresh")
    return pins


def closed(short):
    pins = opened()
    pins.edge("read", ba=short)
    return pins


def activated_twice(short):
    pins = opened()
    pins.wait(20)
    pins.edge("activate", ba=1 - short)
    return pins


def refresh_of_open(short):
    pins = opened()
    pins.wait(20)
    pins.edge("precharge", a=0 if short else ALL, ba=1)
    pins.wait(20)
    pins.edge("refresh")
    return pins


def no_such_row(short):
    pins = Pins().start()
    pins.edge("activate", a=8191 + short)
    return pins


def no_such_column(short):
    pins = opened()
    pins.edge("read", a=511 + short)
    return pins


def cut_by_read(short):
    pins = opened()
    pins.edge("read")
    pins.wait(BURST - 1 - short)
    pins.edge("read", a=8)
    return pins


def cut_by_precharge(short):
    pins = opened()
    pins.wait(20)
    pins.edge("read")
    # CAS latency + burst - 2.
    pins.wait(2 + BURST - 2 - 1 - short)
    pins.edge("precharge")
    return pins


def turned_too_soon(short):
    pins = opened()
    pins.edge("read")
    # CAS latency + burst: the edge of the last data is one before, the pins rest at this one.
    pins.wait(2 + BURST - short)
    pins.write([1, 2, 3, 4])
    return pins


def undriven(short):
    pins = opened()
    pins.edge("write", drive=1)
    pins.wait(2, drive=1)
    pins.edge(drive=1 - short)
    return pins


def unwritten(short):
    pins = opened(refuse_unwritten=True)
    pins.write([1, 2, 3, 4], masks=(0, 0, 0, short))
    pins.edge("read")
    pins.wait(BURST)
    return pins


def auto_precharge(short):
    pins = opened()
    pins.wait(20)
    pins.edge("read", a=ALL * short)
    return pins


def auto_precharged():
    """Return pins with row 5 of bank 0 open, and with auto-precharge allowed."""
    pins = opened()
    pins.model.allow_auto_precharge()
    pins.wait(20)
    return pins


def rp_after_a_read_that_closes(short):
    pins = auto_precharged()
    pins.edge("read", a=ALL)
    # As if by a PRECHARGE at its earliest, CAS latency + burst - 2 cycles later.
    pins.wait(2 + BURST - 2 + TIMING.rp - 1 - short)
    pins.edge("activate", a=6)
    return pins


def rp_after_a_write_that_closes(short):
    pins = auto_precharged()
    pins.write([1, 2, 3, 4], a=ALL)
    pins.wait(TIMING.wr + TIMING.rp - 1 - short)
    pins.edge("activate", a=6)
    return pins


def ras_of_a_write_that_closes(short):
    pins = opened(ras=TIMING.rcd + BURST - 1 + TIMING.wr + short)
    pins.model.allow_auto_precharge()
    pins.write([1, 2, 3, 4], a=ALL)
    return pins


def closed_by_a_read(short):
    pins = auto_precharged()
    pins.edge("read", a=ALL * short)
    pins.wait(BURST - 1)
    pins.edge("read")
    return pins


def masked(short):
    pins = opened(maskless=True)
    pins.write([1, 2, 3, 4], masks=(0, 0, 0, short))
    return pins


def unknown_command(short):
    pins = opened()
    pins.edge("stop" if short else None)
    return pins


def clock_off(short):
    pins = opened()
    pins.edge(clk_en=1 - short)
    return pins


FAULTS = [
    (power_up, "power-up"),
    (initial_refreshes, "initialise"),
    (mode_latency, "mode"),
    (rcd, "tRCD"),
    (rp, "tRP"),
    (rp_before_refresh, "tRP"),
    (ras, "tRAS"),
    (rc, "tRC"),
    (rfc, "tRFC"),
    (initial_rfc, "tRFC"),
    (wr, "tWR"),
    (rrd, "tRRD"),
    (mrd, "tMRD"),
    (refresh, "refresh"),
    (closed, "closed"),
    (activated_twice, "open"),
    (refresh_of_open, "open"),
    (no_such_row, "address"),
    (no_such_column, "address"),
    (cut_by_read, "cut"),
    (cut_by_precharge, "cut"),
    (turned_too_soon, "contention"),
    (undriven, "undriven"),
    (unwritten, "unwritten"),
    (rp_after_a_read_that_closes, "tRP"),
    (rp_after_a_write_that_closes, "tRP"),
    (ras_of_a_write_that_closes, "tRAS"),
    (closed_by_a_read, "closed"),
    (auto_precharge, "command"),
    (masked, "mask"),
    (unknown_command, "command"),
    (clock_off, "command"),
]


@pytest.mark.parametrize(
    ("script", "rule"), FAULTS, ids=lambda value: getattr(value, "__name__", value)
)
def test_each_rule_is_held_to_the_cycle(script, rule):
    assert script(0).model.breach == "none"
    assert script(1).model.breach == rule


def test_every_rule_has_a_fault():
    assert {rule for _, rule in FAULTS} == set(RULES) - {"none"}


def test_rows_need_initialisation():
    pins = Pins()
    pins.wait(30)
    pins.edge("activate")
    assert pins.model.breach == "initialise"


def test_the_first_breach_is_kept_with_its_edge():
    pins = rcd(1)
    edge = len(pins.data) - 1
    pins.wait(3)
    pins.edge("mode")
    assert (pins.model.breach, pins.model.breach_edge) == ("tRCD", edge)


@pytest.mark.parametrize("latency", [2, 3])
def test_words_come_after_the_latency_and_wrap_in_their_burst(latency):
    pins = Pins(cas_latency=latency).start(mode=latency << 4 | 2)
    pins.edge("activate", a=5)
    pins.wait(TIMING.rcd - 1)
    pins.write([0x1111, 0x2222, 0x3333, 0x4444], a=8)
    pins.edge("read", a=10)
    pins.wait(BURST + latency)
    # `data[k]` is what stands at edge k + 1.
    first = len(pins.data) - 1 - BURST - latency + latency - 1
    assert pins.data[first : first + 4] == [0x3333, 0x4444, 0x1111, 0x2222]
    assert pins.model.breach == "none"
    address = (5 * PART.banks * PART.columns + 8) * 2
    assert pins.model.read(address, 4) == bytes([0x11, 0x11, 0x22, 0x22])


def test_masks_keep_bytes_and_hide_them():
    pins = opened()
    pins.write([0x1111, 0x2222, 0x3333, 0x4444])
    pins.write([0xAAAA] * 4, masks=(0, 1, 2, 3))
    pins.edge("read", dqm=1)
    pins.wait(BURST + 2)
    first = len(pins.data) - BURST - 2
    # The mask at the READ is two edges early: of the first word.
    assert pins.data[first] >> 8 == 0xAA
    assert pins.data[first] & 255 != 0xAA
    assert pins.data[first + 1 : first + 4] == [0xAA22, 0x33AA, 0x4444]


def test_power_lost_is_contents_lost():
    pins = opened()
    pins.write([1, 2, 3, 4])
    place = 5 * PART.banks * PART.row_bytes
    assert pins.model.read(place, 2) == b"\1\0"
    pins.model.power_up()
    assert pins.model.read(place, 2) != b"\1\0"


def test_contents_from_outside():
    pins = opened()
    pins.model.write(5 * PART.banks * PART.row_bytes, b"\1\2\3\4\5\6\7\x08")
    pins.edge("read")
    pins.wait(6)
    assert pins.data[-6:-2] == [0x0201, 0x0403, 0x0605, 0x0807]
