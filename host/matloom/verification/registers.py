"""Checks that the chip's writable registers read as the model's do."""

import random

from matloom.arch.config import Config
from matloom.arch.csr import Access, Register, registers_of
from matloom.verification.pair import MismatchError, Pair

#: Number of cycles after the writes in which no interrupt may rise.
_IDLE_CYCLES = 20


def check_registers(pair: Pair, seed: int) -> None:
    """Write random bits and their complement to each register; compare reads with the model.

    Raises `MismatchError` if a register differs, or an interrupt rises. TIMEOUT is restored at the
    end; other registers are not, because each run writes them.
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
    """Return the registers that can be read and written."""
    return [item for item in registers_of(config) if item.access is Access.RW]


def _write_one_by_one(pair: Pair, generator: random.Random) -> None:
    """Write registers in random order after a reset; read all of them after each write.

    Raises `MismatchError` if one differs from the model, or from its reset value if it was not yet
    written. A reset does not clear the memory that holds the registers, only a flag for each.
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
