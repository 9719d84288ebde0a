"""Mutants of registers, run state and scratchpad reads; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom_rtl.control.csr import Registers
from matloom_rtl.control.supervisor import Supervisor
from matloom_rtl.control.timestamps import Timestamps
from matloom_rtl.formal.control.contents import contents
from matloom_rtl.formal.control.supervisor import supervisor
from matloom_rtl.formal.control.timestamps import timestamps
from matloom_rtl.formal.memory.gather import gather
from matloom_rtl.memory.gather import Gather

CONFIG = load_config("nano")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # A strobe of the next byte; a base looked up of the wrong asker; a lock that is forgotten.
        ("m.If(mask[place])", "m.If(mask[(place + 8) % len(port)])"),
        ("self.base_regions[turn])", "self.base_regions[~turn])"),
        ("with m.If(self.running):", "with m.If(0):"),
        # What was stored is taken for the reset value, and the word for what it was before.
        ("rest.eq(Mux(written, 0, item.reset))", "rest.eq(item.reset)"),
        ("Cat(Mux(mask[n], word[n], before[n])", "Cat(Mux(mask[n], word[n], 0)"),
    ],
)
def test_a_register_that_forgets_is_not_proven(refuted, mutated, change):
    mutant = mutated(Registers, change)
    refuted(lambda: contents(mutant(CONFIG)), depth=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # A limit that is one too long; a count that goes on over progress; a record that changes.
        ("late.eq(still & ~more & left[0])", "late.eq(still & ~left.any())"),
        ("still = self.running & ~self.progress", "still = self.running"),
        ("with m.If(~kept):", "with m.If(1):"),
        ("m.d.sync += [self.running.eq(0), done.eq(0), failed.eq(1)]", "m.d.sync += failed.eq(1)"),
    ],
)
def test_a_watchdog_that_is_late_is_not_proven(refuted, mutated, change):
    mutant = mutated(Supervisor, change)
    refuted(lambda: supervisor(mutant()), depth=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("Mux(below, request.even_bank, request.odd_bank)", "request.odd_bank"),
        ("below = first // self._boundary * self._boundary < request.turn", "below = 0"),
        ("with m.If(rotating):", "with m.If(1):"),
    ],
)
@pytest.mark.parametrize("boundary", [1, 2])
def test_a_byte_of_another_bank_is_not_proven(refuted, mutated, change, boundary):
    mutant = mutated(Gather, change)
    sizes = {"width": 4, "span": 8, "banks": 2, "boundary": boundary}
    refuted(lambda: gather(mutant(**sizes)), depth=9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        # The upper bits of a later cycle; a completion that is lost while the table is cleared; a
        # slot that is not cleared; a cycle in the slot of another.
        ("- (low[-1] & ~self.cycle[bits - 1])", ""),
        ("m.If(write.en & ~clearing & (first == number))", "m.If(write.en & (first == number))"),
        ("clear_slot == self._timestamps - 1", "clear_slot == self._timestamps - 2"),
        ("choose(slots, first))", "choose(slots, first) ^ 1)"),
    ],
)
def test_a_time_of_another_cycle_is_not_proven(refuted, mutated, change):
    unit = mutated(Timestamps, change)(load_config("nano+timestamps=4"))
    refuted(lambda: timestamps(unit), depth=40)
