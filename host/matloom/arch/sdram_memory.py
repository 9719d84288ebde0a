"""An SDRAM behind our controller, as the engine's bus sees it."""

from fractions import Fraction

from matloom.arch.memory import Memory
from matloom.arch.sdram import SdramPart

__all__ = ["sdram_memory"]

#: Cycles that a refresh takes from the pins, about.
_REFRESH = 12

#: Greatest denominator of the bytes a cycle: within a thousandth.
_FINEST = 50


def sdram_memory(
    part: SdramPart,
    *,
    clock_hz: int,
    bus_bits: int,
    burst_beats: int,
    pin_cycles: int = 2,
    before: tuple[int, int] = (0, 0),
    gear: int = 1,
) -> Memory:
    """Return what the bus sees: figures of docs/sdram.md, in cycles of the bus.

    Bursts are those of the engine, full; rows are opened ahead. A write begins when all beats of
    its burst have come.

    Parameters
    ----------
    clock_hz:
        That of the bus.
    before:
        Cycles that units between engine and controller add to a read and to a write.
    gear:
        Cycles of the SDRAM in one of the controller's.
    """
    timing = part.timing_of_gear(clock_hz, gear).geared(gear)
    columns = bus_bits // (gear * part.data_bits)
    first = timing.cas_latency + columns + pin_cycles
    burst = burst_beats * columns
    pins = Fraction(gear * part.data_bits, 8) * (1 - Fraction(_REFRESH, timing.refresh_due))
    return Memory(
        bytes_a_cycle=pins.limit_denominator(_FINEST),
        read_latency=10 + first + before[0],
        write_latency=10 + burst + before[1],
    )
