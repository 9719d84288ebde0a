"""What a system on chip is built from, next to the engine's configuration."""

from dataclasses import dataclass

from matloom.arch.soc import MEMORY_BASE, region
from matloom_rtl.link.settings import LinkSettings
from matloom_rtl.soc.cpu import CPUS

__all__ = ["SocSettings"]


@dataclass(frozen=True, kw_only=True)
class SocSettings:
    """The settings of a system on chip.

    Members
    -------
    link:
        Clock, name, memory and serial line of the board.
    rom:
        Contents of the boot ROM.
    cpu:
        One of `matloom_rtl.soc.cpu.CPUS`.

    Errors
    ------
    ValueError
        No such processor, the ROM has no room for its contents, or external memory is elsewhere
        than the map says.
    """

    link: LinkSettings
    rom: bytes
    cpu: str = "default"

    def __post_init__(self):
        if self.cpu not in CPUS:
            raise ValueError(f"cpu must be one of {', '.join(CPUS)}, not {self.cpu!r}")
        room = region("ROM").bytes
        if len(self.rom) > room:
            raise ValueError(f"rom must have up to {room} bytes, not {len(self.rom)}")
        if self.link.memory_base != MEMORY_BASE:
            raise ValueError(
                f"memory_base must be {MEMORY_BASE:#x}, not {self.link.memory_base:#x}"
            )
