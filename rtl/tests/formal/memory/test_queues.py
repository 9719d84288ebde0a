import pytest
from amaranth.lib import data

from matloom_rtl.formal.engine import FAILED, PROVEN
from matloom_rtl.formal.memory.queues import (
    credit_queue,
    skid_buffer,
    stream_register,
    unchecked_fifo,
)
from matloom_rtl.memory.credits import CreditQueue
from matloom_rtl.memory.skid_buffer import SkidBuffer
from matloom_rtl.memory.stream_register import StreamRegister
from matloom_rtl.memory.unchecked_fifo import UncheckedFIFO

LAYOUT = data.StructLayout({"hand": 1, "stored": 1})


@pytest.mark.slow
def test_a_skid_buffer_is_proven(prove):
    result = prove(lambda: skid_buffer(True, True))
    assert result.verdict == PROVEN, result.detail


@pytest.mark.slow
def test_a_stream_register_that_overwrites_what_waits_is_not_proven(prove, mutated):
    mutant = mutated(StreamRegister, ("eq(~self.o.valid | self.o.ready)", "eq(1)"))
    unit = mutant(data.StructLayout({"stored": 1}))
    result = prove(lambda: stream_register(unit), depth=6)
    assert result.verdict == FAILED
    assert result.detail.startswith("prove: ")


#: A unit, the replaced text, its claim.
MUTANTS = {
    "credit FIFO shows an item too many": (
        UncheckedFIFO,
        ("level > self.r_en", "level > 0"),
        {"width": 2, "depth": 5},
        lambda unit: unchecked_fifo(5, unit),
    ),
    "skid buffer forgets which place is free": (
        SkidBuffer,
        ("self.i.valid & self.i.ready", "self.i.valid"),
        {"payload": LAYOUT, "registered": ("hand",)},
        lambda unit: skid_buffer(True, True, unit),
    ),
    "skid buffer with registered fields takes the new for the old": (
        SkidBuffer,
        ("Mux(full, skid, self.i.payload[name])", "self.i.payload[name]"),
        {"payload": LAYOUT, "registered": ("hand",)},
        lambda unit: skid_buffer(True, True, unit),
    ),
    "credit queue counts what is taken twice": (
        CreditQueue,
        ("used + self.start - taken", "used + self.start - taken - taken"),
        {"payload": LAYOUT, "registered": ("hand",)},
        lambda unit: credit_queue(True, True, unit),
    ),
    "credit queue shows an old field": (
        CreditQueue,
        ("Mux(empty, self.w_data[name], found)", "found"),
        {"payload": LAYOUT, "registered": ("hand",)},
        lambda unit: credit_queue(True, True, unit),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_queues_are_not_proven(prove, mutated, name):
    component, change, parameters, claim = MUTANTS[name]
    unit = mutated(component, change)(**parameters)
    assert prove(lambda: claim(unit), depth=22, cover_depth=1).verdict == FAILED
