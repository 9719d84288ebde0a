"""Mutants of the bus managers and of the register port; every proof fails."""

import pytest

from matloom.arch.config import load_config
from matloom_rtl.control.csr import Registers
from matloom_rtl.dma.bursts import Bursts
from matloom_rtl.dma.fetch import Fetch
from matloom_rtl.dma.load import Load
from matloom_rtl.dma.read_port import SharedReadPort
from matloom_rtl.dma.store import Store
from matloom_rtl.formal.control.registers import registers
from matloom_rtl.formal.dma import managers as dma
from matloom_rtl.formal.dma.bursts import cut_row
from matloom_rtl.formal.engine import PROVEN

#: A unit, the replaced text, its claim, and the cycles within which a run breaks it.
MUTANTS = {
    "bursts go on after the row": (Bursts, ("windows_left == 0", "windows_left == 1"), cut_row, 6),
    "beats are called last too early": (
        Store,
        ("final.eq(number == burst.len)", "final.eq(number >= burst.len - 1)"),
        dma.store,
        14,
    ),
    "an address gives way to the next": (Load, (" | ~ar.valid)", " | 1)"), dma.load, 10),
    "an address gives way to the other reader": (
        SharedReadPort,
        ("Mux(held, held_choice, ", "Mux(0, held_choice, "),
        dma.read_port,
        6,
    ),
    "registers answer without a word": (
        Registers,
        ("have_address & have_word)", "have_address)"),
        registers,
        6,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_proven(refuted, mutated, name):
    component, change, claim, cycles = MUTANTS[name]
    unit = mutated(component, change)(load_config("nano"))
    refuted(lambda: claim(unit), depth=cycles)


@pytest.mark.slow
def test_fetch_never_holds_up_the_bus(prove):
    unit = Fetch(load_config("nano"))
    assert prove(lambda: dma.fetch(unit), depth=3, cover_depth=30).verdict == PROVEN
