"""The controller against the SDRAM model: exact data, no rule broken, efficiency, refreshes."""

import dataclasses
import random

import pytest

from matloom.arch.sdram import load_sdram
from matloom_rtl.sdram.controller import SdramController
from matloom_rtl.sdram.initiator import Initiator
from matloom_rtl.sdram.testing import Sdram
from matloom_rtl.testing import simulate

#: Part, clock, bus bits, CAS latency.
CASES = [
    ("IS42S16160", 85, 64, 2),
    ("IS42S16160", 140, 64, 3),
    ("MT48LC16M16A2", 100, 32, 2),
    ("AS4C32M16", 75, 128, 2),
    ("W9825G6KH", 133, 32, 3),
    ("2 x M12L16161A", 75, 32, 2),
    ("2 x M12L16161A", 133, 64, 3),
    ("GW2AR-18", 54, 32, 2),
    ("GW2AR-18", 120, 128, 3),
]


class Bench:
    """A controller with an SDRAM of full size, the first `span` bytes of each bank's first rows."""

    def __init__(self, case=CASES[0], *, span=1 << 16, spoilt=None, **options):
        name, mhz, bus_bits, latency = case
        self.part = load_sdram(name)
        truth = self.part.timing(mhz * 10**6, latency)
        # Nobody wants to wait 200 us.
        truth = dataclasses.replace(truth, power_up=300)
        self.timing = truth
        self.dut = SdramController(
            self.part,
            clock_hz=mhz * 10**6,
            bus_bits=bus_bits,
            burst_beats=options.pop("burst_beats", 32),
            timing=dataclasses.replace(truth, **(spoilt or {})),
        )
        self.sdram = Sdram(self.part, truth)
        self.contents = bytearray(random.Random(7).randbytes(span))
        self.sdram.write(0, bytes(self.contents))
        self.initiator = Initiator(self.dut, self.contents, **options)

    def run(self, limit):
        cycles = simulate(
            self.dut,
            *self.initiator.benches,
            cycles=limit,
            background=[self.initiator.count, self.sdram.attach(self.dut.pins)],
        )
        assert self.sdram.breach == "none", f"{self.sdram.breach} at {self.sdram.breach_edge}"
        assert self.sdram.read(0, len(self.contents)) == bytes(self.contents)
        return cycles


def random_bursts(chance, count, width, span):
    """Return bursts anywhere, of any length, many of them short, within 4 KiB as AXI has it."""
    bursts = []
    for _ in range(count):
        beats = chance.choice((1, 1, 2, 3, 4, 8, 16, 32, chance.randrange(1, 100)))
        beats = min(beats, 4096 // width)
        page = chance.randrange(span // 4096) * 4096
        room = 4096 // width - beats
        bursts.append((page + chance.randrange(room + 1) * width, beats))
    return bursts


@pytest.mark.parametrize("stall", [0, 0.4])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_random_traffic(case, stall, seed):
    chance = random.Random(seed)
    width = case[2] // 8
    Bench(
        case,
        reads=random_bursts(chance, 24, width, 1 << 16),
        writes=random_bursts(chance, 24, width, 1 << 16),
        stall=stall,
        seed=seed,
    ).run(60000)
