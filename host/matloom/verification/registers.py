"""Checks of writable registers, on the chip as on the model."""

import random

from matloom.arch.config import Config
from matloom.arch.csr import Access, Register, registers_of
from matloom.verification.pair import MismatchError, Pair

#: Cycles without a run in which no interrupt may rise.
_IDLE_CYCLES = 20


def check_registers(pair: Pair, seed: int) -> None:
    """Write random bits and their complement to each register; compare reads with the model.

    No interrupt may rise meanwhile. TIMEOUT is restored; each run writes the others.
    """
    generator = random.Random(f"registers {seed}")
    timeout = pair.rtl.read("TIMEOUT")
    for item in _stored_registers(pair.config):
        value = generator.getrandbits(32)
        for word in (value, value ^ 0xFFFFFFFF):
            for driver in pair:
                driver.write(item.name, word)
            # Read in odd and even cycles after the write, since a bit might change in either.
            for _reading in range(2):
                expected, found = (driver.read(item.name) for driver in pair)
                if found != expected:
                    raise MismatchError(
                        f"{item.name} is {found:#x} where {expected:#x} was written"
                    )
                pair.chip.wait_interrupt(1)
    _write_one_by_one(pair, generator)
    pair.rtl.write("TIMEOUT", timeout)
    for name in ("IRQ_STATUS", "IRQ_ENABLE"):
        pair.rtl.write(name, 3)
    if pair.chip.wait_interrupt(_IDLE_CYCLES) < _IDLE_CYCLES:
        raise MismatchError("an interrupt rises although nothing runs")


def _stored_registers(config: Config) -> list[Register]:
    """Return the registers that keep the written value."""
    return [item for item in registers_of(config) if item.access is Access.RW]


def _write_one_by_one(pair: Pair, generator: random.Random) -> None:
    """After a reset, write registers in random order, and read all of them each time.

    They lie in a memory that a reset does not clear, with a flag for each that says whether it was
    written.
    """
    pair.chip.reset()
    registers = _stored_registers(pair.config)
    expected = {item.name: item.reset for item in registers}
    for item in generator.sample(registers, len(registers)):
        value = generator.getrandbits(32)
        for driver in pair:
            driver.write(item.name, value)
        expected[item.name] = pair.model.read(item.name)
        found = {each.name: pair.rtl.read(each.name) for each in registers}
        if found != expected:
            name = next(name for name in expected if found[name] != expected[name])
            raise MismatchError(
                f"{name} is {found[name]:#x}, not {expected[name]:#x}, after {item.name} is written"
            )
