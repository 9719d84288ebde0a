"""Both bus monitors, in the C++ harness and in cocotb, on scripts that break one rule each."""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from matloom.arch.bus_rules import CHANNELS, RULES, describe_broken_rule, region_registers
from matloom.arch.isa import Region

ROOT = Path(__file__).parents[3]
HARNESS = ROOT / "host" / "matloom" / "device" / "harness"
BUS_BYTES, BURST_BEATS, OUTSTANDING = 16, 8, 2

_ADDRESS = "valid ready addr len size burst id lock cache prot qos"
_LITE = "valid ready addr prot"
CHANNEL_SIGNALS = {
    "m_axi_ar": _ADDRESS,
    "m_axi_aw": _ADDRESS,
    "m_axi_w": "valid ready data strb last",
    "m_axi_r": "valid ready id data resp last",
    "m_axi_b": "valid ready id resp",
    "s_axil_ar": _LITE,
    "s_axil_aw": _LITE,
    "s_axil_w": "valid ready data strb",
    "s_axil_r": "valid ready data resp",
    "s_axil_b": "valid ready resp",
}
SIGNALS = (
    "rst",
    *(channel + name for channel, names in CHANNEL_SIGNALS.items() for name in names.split()),
)
WIDE = ("m_axi_wdata", "m_axi_rdata")
WORD = ctypes.c_uint64


class Ports(ctypes.Structure):
    _fields_ = [(name, WORD * (BUS_BYTES // 8) if name in WIDE else WORD) for name in SIGNALS]


class Breach(ctypes.Structure):
    _fields_ = [("rule", ctypes.c_uint32), ("channel", ctypes.c_uint32)] + [
        (name, WORD) for name in ("cycle", "value", "limit")
    ]


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the harness's monitor, compiled alone."""
    folder = tmp_path_factory.mktemp("monitor")
    lines = [f"{'WORDS' if name in WIDE else 'SIGNAL'}({name})\n" for name in SIGNALS]
    (folder / "signals.h").write_text("".join(lines))
    source = Path(__file__).with_name("monitor_script.cpp")
    output = folder / "monitor.so"
    command = [shutil.which("g++"), "-std=c++17", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    folders = [f"-I{folder}", f"-I{HARNESS}"]
    subprocess.run([*command, *folders, source, "-o", output], check=True)
    loaded = ctypes.CDLL(str(output))
    loaded.open_monitor.restype = ctypes.c_void_p
    loaded.open_monitor.argtypes = [ctypes.c_uint32, ctypes.c_uint32, WORD]
    loaded.close_monitor.argtypes = [ctypes.c_void_p]
    loaded.step_monitor.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(Ports),
        WORD,
        ctypes.POINTER(Breach),
    ]
    return loaded


def in_cpp(library, script, ignored):
    """Return the message of the harness's monitor for a script, or None if it is legal."""
    mask = sum(1 << n for n, rule in enumerate(RULES) if rule.name in ignored)
    monitor = library.open_monitor(BURST_BEATS, OUTSTANDING, mask)
    breach = Breach()
    try:
        for cycle, signals in enumerate(script):
            ports = Ports()
            for name, value in signals.items():
                if name in WIDE:
                    words = [value >> 64 * n & (1 << 64) - 1 for n in range(BUS_BYTES // 8)]
                    value = (WORD * len(words))(*words)
                setattr(ports, name, value)
            if library.step_monitor(monitor, ports, cycle, breach):
                rule, channel = RULES[breach.rule].name, list(CHANNELS)[breach.channel]
                return describe_broken_rule(rule, channel, breach.cycle, breach.value, breach.limit)
    finally:
        library.close_monitor(monitor)
    return None


def in_cocotb(_library, script, ignored):
    """Return the message of the regression's monitor for a script."""
    spec = importlib.util.spec_from_file_location("protocol", ROOT / "sim_tests" / "protocol.py")
    protocol = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(protocol)
    dut = SimpleNamespace(**{name: SimpleNamespace(value=0) for name in SIGNALS})
    config = SimpleNamespace(bus_bytes=BUS_BYTES, burst_beats=BURST_BEATS, outstanding=OUTSTANDING)
    monitor = protocol.Monitor(dut, config, ignored)
    for signals in script:
        for name in SIGNALS:
            getattr(dut, name).value = signals.get(name, 0)
        try:
            monitor.step()
        except AssertionError as error:
            return str(error)
    return None


def on(channel, taken=True, **payload):
    """Return the signals of a channel: valid, and accepted or not."""
    return {
        f"{channel}valid": 1,
        f"{channel}ready": int(taken),
        **{channel + name: value for name, value in payload.items()},
    }


def address(channel, addr, beats=1, taken=True, **other):
    fixed = {"addr": addr, "len": beats - 1, "size": 4, "burst": 1, "cache": 3}
    return on(f"m_axi_{channel}", taken, **fixed | other)


def reads(addr, beats=1, taken=True, **other):
    return address("ar", addr, beats, taken, **{"id": 1} | other)


def writes(addr, beats=1, taken=True, **other):
    return address("aw", addr, beats, taken, **other)


def beat(last=1, taken=True, strb=0xFFFF, data=7):
    return on("m_axi_w", taken, data=data, strb=strb, last=last)


def answers(last=1, taken=True, **other):
    return on("m_axi_r", taken, **{"id": 1, "last": last, "data": 5} | other)


RESPONDS = on("m_axi_b")
RESET = [{"rst": 1}] * 4
#: Regions begin and end within beats.
PLACES = {
    Region.PROGRAM: (0x1000, 0x1000),
    Region.INPUT: (0x2000, 0x2000),
    Region.OUTPUT: (0x8000, 0x1008),
    Region.ARENA: (0xA008, 0x1000),
}


def sets(offset, value, strb=15):
    """Return a register write: request, then response."""
    request = on("s_axil_aw", addr=offset) | on("s_axil_w", data=value, strb=strb)
    return [request, on("s_axil_b")]


PLACED = [
    cycle
    for window in region_registers()
    for offset, value in zip(
        (window.base_offset, window.bytes_offset), PLACES[window.region], strict=True
    )
    for cycle in sets(offset, value)
]
START = RESET + PLACED

#: Everything that is allowed and near a rule.
LEGAL = [
    # The memory may still answer in a reset, and the driver ask.
    {"rst": 1, **answers(taken=False)},
    {"rst": 1, **on("s_axil_aw", False), **on("s_axil_ar", False)},
    *START,
    # A command fetch and a read that waits; the beats of both, interleaved, the last one late.
    reads(0x1000, 2, id=0),
    reads(0x3F80, 8, taken=False),
    reads(0x3F80, 8, taken=False),
    reads(0x3F80, 8),
    answers(last=0, id=0),
    *[answers(last=0)] * 7,
    answers(taken=False, resp=2),
    answers(taken=False, resp=2),
    answers(resp=2),
    answers(id=0, resp=3),
    # Two reads on their way, the third in the cycle after one ended.
    reads(0x1FF0),
    reads(0xA000),
    answers(),
    reads(0x9000),
    answers(),
    answers(),
    # Data before their address, after it, and with it; strobes up to a region's rims.
    beat(last=0),
    beat(last=1, taken=False),
    beat(last=1),
    writes(0x8000, 2, taken=False),
    writes(0x8000, 2),
    RESPONDS,
    {**writes(0x9000), **beat(strb=0x00FF)},
    on("m_axi_b", taken=False, resp=2),
    on("m_axi_b", resp=2),
    writes(0xA000, 2),
    beat(last=0, strb=0xFF00),
    writes(0xB000),
    beat(last=1, strb=0),
    {**beat(last=1, strb=0x00FF), **RESPONDS},
    RESPONDS,
    # Registers: address before data, data before address, stalled answers, bytes of a word.
    on("s_axil_aw", taken=False, addr=0x60),
    on("s_axil_aw", addr=0x60),
    on("s_axil_w", taken=False, data=0xFF90FF, strb=2),
    on("s_axil_w", data=0xFF90FF, strb=2) | on("s_axil_aw", taken=False, addr=0x68),
]
LEGAL += [
    on("s_axil_aw", addr=0x68),
    {**on("s_axil_w", data=0x1008), **on("s_axil_b", taken=False)},
    on("s_axil_b"),
    on("s_axil_b"),
    on("s_axil_ar", addr=0x7FC),
    {**on("s_axil_r", resp=2, taken=False), **on("s_axil_ar", addr=0)},
    on("s_axil_r", resp=2),
    on("s_axil_r"),
    writes(0x9FF0),
    beat(),
    RESPONDS,
    # A reset forgets what waits, what is owed, and the regions.
    {**reads(0x2000, 8), **beat(taken=False)},
    *START,
    {},
]

#: Rule, channel, cycles after START of which the last breaks it, and how the message ends.
BROKEN = [
    ("burst_kind", "m_axi_ar", [reads(0x2000, burst=2)], "INCR (1), not 2"),
    ("burst_kind", "m_axi_aw", [writes(0x8000, burst=0)], "INCR (1), not 0"),
    ("burst_size", "m_axi_ar", [reads(0x2000, size=3)], "(4), not 3"),
    ("burst_size", "m_axi_aw", [writes(0x8000, size=5)], "(4), not 5"),
    ("burst_attributes", "m_axi_ar", [reads(0x2000, lock=1)], ""),
    ("burst_attributes", "m_axi_ar", [reads(0x2000, cache=2)], ""),
    ("burst_attributes", "m_axi_aw", [writes(0x8000, prot=1)], ""),
    ("burst_attributes", "m_axi_aw", [writes(0x8000, qos=8)], ""),
    ("burst_id", "m_axi_aw", [writes(0x8000, id=1)], "not 1"),
    ("burst_length", "m_axi_ar", [reads(0x2000, 9)], "at most 8 beats, not 9"),
    ("burst_length", "m_axi_aw", [writes(0x8000, 256)], "at most 8 beats, not 256"),
    ("burst_aligned", "m_axi_ar", [reads(0x2004)], "16 bytes, not at 0x2004"),
    ("burst_aligned", "m_axi_aw", [writes(0x8008)], "16 bytes, not at 0x8008"),
    ("burst_page", "m_axi_ar", [reads(0x2FF0, 2)], "not go from 0x2ff0 to 0x3010"),
    ("burst_page", "m_axi_aw", [writes(0x8FF0, 2)], "not go from 0x8ff0 to 0x9010"),
    ("read_window", "m_axi_ar", [reads(0x4000)], "not go from 0x4000 to 0x4010"),
    ("read_window", "m_axi_ar", [reads(0xB000, 2)], "not go from 0xb000 to 0xb020"),
    ("read_window", "m_axi_ar", [reads(0x9FF0)], "not go from 0x9ff0 to 0xa000"),
    ("read_window", "m_axi_ar", [reads(0x2000, id=0)], "not go from 0x2000 to 0x2010"),
    ("read_window", "m_axi_ar", [*sets(0x58, 0), reads(0x2000)], "not go from 0x2000 to 0x2010"),
    ("write_window", "m_axi_aw", [writes(0x1000)], "not go from 0x1000 to 0x1010"),
    ("write_window", "m_axi_aw", [writes(0x9000, 2)], "not go from 0x9000 to 0x9020"),
    (
        "write_window",
        "m_axi_aw",
        [*sets(0x60, 0x9000, strb=2), writes(0x8FF0)],
        "not go from 0x8ff0 to 0x9000",
    ),
    ("strobe_window", "m_axi_w", [writes(0x9000), beat(strb=0x0180)], "not at 0x9008"),
    ("strobe_window", "m_axi_w", [writes(0xA000), beat(strb=0x0180)], "not at 0xa007"),
    (
        "outstanding",
        "m_axi_ar",
        [reads(0x2000)] * 3,
        "at most 2 bursts must be outstanding, not 3",
    ),
    ("outstanding", "m_axi_aw", [writes(0x8000)] * 3, "must be outstanding, not 3"),
    ("write_last", "m_axi_w", [writes(0x8000, 2), beat(last=1)], "beat 2 of a burst, not 1"),
    ("write_last", "m_axi_w", [writes(0x8000), beat(last=0)], "beat 1 of a burst, not 1"),
    ("write_last", "m_axi_w", [beat(last=1), writes(0x8000, 2)], "beat 2 of a burst, not 1"),
    ("read_owed", "m_axi_r", [answers()], "not of ID 1"),
    ("read_owed", "m_axi_r", [reads(0x2000), answers(id=0)], "not of ID 0"),
    ("read_owed", "m_axi_r", [{**reads(0x2000), **answers()}], "not of ID 1"),
    ("read_last", "m_axi_r", [reads(0x2000, 2), answers(last=1)], "not 1"),
    ("read_last", "m_axi_r", [reads(0x2000), answers(last=0)], "not 0"),
    ("response_owed", "m_axi_b", [RESPONDS], "0 of which await one"),
    ("response_owed", "m_axi_b", [beat(), RESPONDS], "0 of which await one"),
    ("response_owed", "m_axi_b", [writes(0x8000), {**beat(), **RESPONDS}], "0 of which await one"),
    ("response_id", "m_axi_b", [writes(0x8000), beat(), on("m_axi_b", id=1)], "(0), not 1"),
    ("response_code", "m_axi_r", [reads(0x2000), answers(resp=1)], "not 1"),
    ("response_code", "m_axi_b", [writes(0x8000), beat(), on("m_axi_b", resp=1)], "not 1"),
    ("response_code", "s_axil_r", [on("s_axil_ar"), on("s_axil_r", resp=1)], "not 1"),
    (
        "response_code",
        "s_axil_b",
        [on("s_axil_aw") | on("s_axil_w"), on("s_axil_b", resp=1)],
        "not 1",
    ),
    ("answer_owed", "s_axil_r", [on("s_axil_r")], "0 of which await one"),
    ("answer_owed", "s_axil_r", [on("s_axil_ar") | on("s_axil_r")], "0 of which await one"),
    ("answer_owed", "s_axil_b", [on("s_axil_aw"), on("s_axil_b")], "0 of which await one"),
    ("answer_owed", "s_axil_b", [on("s_axil_w"), on("s_axil_b")], "0 of which await one"),
    *(
        ("valid_stays", name, [on(name, False, **{payload.split()[2]: 0x77}), {}], "0x77 waits")
        for name, payload in CHANNEL_SIGNALS.items()
    ),
    *(
        ("payload_stays", name, [on(name, False), on(name, False, **{signal: 1})], "")
        for name, payload in CHANNEL_SIGNALS.items()
        for signal in payload.split()[2:]
    ),
    ("payload_stays", "m_axi_ar", [reads(0x2000, taken=False), reads(0x2010)], ""),
    ("payload_stays", "m_axi_w", [on("m_axi_w", False), on("m_axi_w", False, data=1 << 127)], ""),
    ("payload_stays", "m_axi_r", [on("m_axi_r", False), on("m_axi_r", False, data=1 << 64)], ""),
    *(
        (
            "reset_quiet",
            name,
            [*[{"rst": 1}] * before, {"rst": 1, **on(name)}],
            f"cycle {before + 1}",
        )
        for name, chip in CHANNELS.items()
        for before in (0, 2)
        if chip
    ),
]

MONITORS = pytest.mark.parametrize("judge", [in_cpp, in_cocotb])


@MONITORS
def test_a_legal_script(judge, library):
    assert judge(library, LEGAL, ()) is None


@pytest.mark.fast_cases(85)
@MONITORS
@pytest.mark.parametrize(("rule", "channel", "cycles", "ending"), BROKEN)
def test_each_rule_alone_catches_its_mutant(judge, library, rule, channel, cycles, ending):
    script = [*START, *cycles]
    said = judge(library, script, ())
    assert said is not None, "the monitor saw nothing"
    assert said.startswith(f"bus rule {rule} broken in cycle {len(script) - 1} on {channel}: ")
    assert said.endswith(ending)
    assert judge(library, script, {rule}) is None, "another rule catches it, too"


def test_every_rule_is_broken_on_each_of_its_channels():
    expected = {(rule.name, channel) for rule in RULES for channel in rule.channels}
    assert {(rule, channel) for rule, channel, _cycles, _ending in BROKEN} == expected


def test_a_rule_that_does_not_hold_for_a_channel():
    with pytest.raises(ValueError, match="rule burst_id must be of m_axi_aw, not m_axi_ar"):
        describe_broken_rule("burst_id", "m_axi_ar", 0, 0, 0)
