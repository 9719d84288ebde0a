"""Any legal configuration elaborates: shapes, buses, and the ends of every parameter."""

import dataclasses

import pytest

from matloom.arch.config import PRESETS, Config
from matloom_rtl.convert import to_rtlil
from matloom_rtl.core import Core
from matloom_rtl.top import Top

NANO = PRESETS["nano"]
SMALLEST = dataclasses.replace(
    NANO,
    broadcast_group=1,
    weight_rows=1,
    # 16 lines of two words of four bytes.
    spad_bytes=128,
    spad_banks=1,
    # 16 entries of four sums.
    acc_bytes=256,
    lanes=1,
    outstanding=1,
    burst_beats=1,
    queue_depth=1,
    address_first=1,
    checks=0,
    timestamps=0,
    counters=0,
)


def shaped(rows, columns, **values):
    return dataclasses.replace(
        NANO, **{"rows": rows, "columns": columns, "broadcast_group": columns, **values}
    )


def varied(**values):
    return dataclasses.replace(NANO, **values)


CONFIGS = {
    "4x4": NANO,
    "8x16": shaped(8, 16, lanes=4),
    "smallest": SMALLEST,
    "256-bit bus": varied(bus_bits=256),
    "one bank, one lane": varied(spad_banks=1, lanes=1),
}

#: Seconds each. Not among them are `small`, `reference` and an 8x16 with a bus of 128 bits: they
#: are made by test_generate.py and host/tests/toolchain/test_equivalence.py, and simulated in
#: host/tests/device.
MORE = {
    "16x8": shaped(16, 8, lanes=4),
    "12x12": shaped(12, 12, broadcast_group=3, weight_rows=3, acc_bytes=48 * 1024, lanes=3),
    "64-bit bus": varied(bus_bits=64),
    "128-bit bus": varied(bus_bits=128),
    "all rows of weights": varied(weight_rows=4),
    "one row of weights": varied(weight_rows=1),
    "all lanes": varied(lanes=4),
    "three banks": varied(spad_banks=3, spad_bytes=3 * 8192),
    "groups of one": varied(broadcast_group=1),
    "16 entries": varied(acc_bytes=256),
    "long bursts": varied(burst_beats=256, outstanding=32),
    "single beats": varied(burst_beats=1, outstanding=1),
    "long queues": varied(queue_depth=32),
    "timestamps": varied(timestamps=256),
    "cycles alone": varied(counters=1, timestamps=2),
    "16x16, 32-bit bus": dataclasses.replace(Config(), bus_bits=32),
    "8x8, all rows of weights": dataclasses.replace(PRESETS["small"], weight_rows=8),
    "32x32": PRESETS["large"],
    "64x4": dataclasses.replace(
        Config(), rows=64, columns=4, broadcast_group=4, weight_rows=8, lanes=4
    ),
    "4x64": dataclasses.replace(
        Config(), rows=4, columns=64, broadcast_group=8, weight_rows=1, lanes=16
    ),
}


def ports(text, name):
    """Return the ports of a module of RTLIL text."""
    body = text[text.index(f"\nmodule \\{name}\n") :]
    body = body[: body.index("\nend\n")]
    words = [line.split() for line in body.splitlines() if line.startswith("  wire ")]
    return {
        line[-1].removeprefix("\\"): int(line[2]) if line[1] == "width" else 1
        for line in words
        if "input" in line or "output" in line
    }


def check(config):
    found = ports(to_rtlil(Top(config), "matloom"), "matloom")
    assert found["m_axi_wdata"] == found["m_axi_rdata"] == config.bus_bits
    assert found["m_axi_wstrb"] == config.bus_bytes
    assert found["irq"] == 1


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_configuration_elaborates(config):
    check(config)


@pytest.mark.slow
@pytest.mark.parametrize("config", MORE.values(), ids=MORE)
def test_more_configurations_elaborate(config):
    check(config)


def test_core_needs_no_top():
    text = to_rtlil(Core(NANO), "core")
    assert ports(text, "core")["irq"] == 1
