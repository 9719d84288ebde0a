"""Settings of a system on chip, in addition to the engine's configuration."""

from dataclasses import dataclass, replace

from matloom.arch.soc import MEMORY_BASE, region
from matloom.errors import UserError, unknown_name_error
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.soc.cpu import CPUS

__all__ = ["SocSettings", "line_for"]

#: Bit rates that USB-to-serial adapters support, in bits per second.
_RATES = (3_000_000, 2_000_000, 1_500_000, 1_000_000, 500_000, 115_200)


def line_for(link: LinkSettings, cpu: str) -> LinkSettings:
    """Return a board's link settings, with a lower bit rate if a processor could not keep up.

    Raises
    ------
    ValueError
        There is no such processor, or none of the usual rates is slow enough for it at this clock.
    """
    if cpu not in CPUS:
        raise unknown_name_error(
            UserError, "cpu", cpu, CPUS, hint="leave the processor out for default"
        )
    shortest = CPUS[cpu].bit_cycles
    for baud in (link.baud, *(rate for rate in _RATES if rate < link.baud)):
        try:
            line = replace(link, baud=baud)
        except ValueError:  # no divisor of the clock is near
            continue
        if line.divisor >= shortest:
            return line
    raise UserError(
        f"the line of {link.board} must have {shortest} cycles of its clock for a bit with "
        f"processor {cpu}, and has {link.divisor} at {link.baud} bits per second",
        hint="choose a faster clock: --freq MHZ",
    )


@dataclass(frozen=True, kw_only=True)
class SocSettings:
    """Settings of a system on chip.

    Members
    -------
    link:
        Clock, name, memory and serial line of the board.
    rom:
        Contents of the boot ROM.
    cpu:
        One of `matloom_rtl.soc.cpu.CPUS`.

    Raises
    ------
    ValueError
        There is no such processor, the contents do not fit the ROM, external memory is not where
        the memory map says, or the line is too fast for the processor's firmware.
    """

    link: LinkSettings
    rom: bytes
    cpu: str = "default"

    def __post_init__(self):
        if self.cpu not in CPUS:
            raise unknown_name_error(UserError, "cpu", self.cpu, CPUS)
        cycles = CPUS[self.cpu].bit_cycles
        if self.link.divisor < cycles:
            raise ValueError(
                f"a bit of the line must take {cycles} cycles or more with processor {self.cpu}, "
                f"not {self.link.divisor}"
            )
        room = region("ROM").bytes
        if len(self.rom) > room:
            raise ValueError(f"rom must have up to {room} bytes, not {len(self.rom)}")
        if self.link.memory_base != MEMORY_BASE:
            raise ValueError(
                f"memory_base must be {MEMORY_BASE:#x}, not {self.link.memory_base:#x}"
            )
