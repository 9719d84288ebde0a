"""An SDRAM behind our controller, as the engine's bus sees it."""

from fractions import Fraction

from matloom.arch.memory import Memory
from matloom.arch.sdram import SdramPart

__all__ = ["sdram_memory"]

#: Cycles of the SDRAM that a refresh takes from the pins, about.
_REFRESH = 12

#: Greatest denominator of the bytes a cycle: within a thousandth.
_FINEST = 50


def sdram_memory(
    part: SdramPart,
    *,
    clock_hz: int,
    memory_hz: int = 0,
    bus_bits: int,
    burst_beats: int,
    pin_cycles: int = 2,
    before: tuple[int, int] = (0, 0),
) -> Memory:
    """Return what the bus sees: figures of docs/sdram.md, in cycles of the bus.

    Bursts are those of the engine, full; rows are opened ahead. A write begins when all beats of
    its burst have come.

    Parameters
    ----------
    clock_hz, memory_hz:
        Clocks of the bus and of the SDRAM; 0 where that has the same.
    before:
        Cycles that units between engine and controller add to a read and to a write.
    """
    timing = part.timing(memory_hz or clock_hz)
    columns = bus_bits // part.data_bits
    first = timing.cas_latency + columns + pin_cycles
    burst = burst_beats * columns
    ratio = Fraction(clock_hz, memory_hz or clock_hz)
    read, write = Fraction(10 + first), Fraction(10 + burst)
    if memory_hz:
        # The most, less half a cycle of each clock, which is what the edges' places make of it.
        read = 8 + ratio * (8 + first) - (1 + ratio) / 2
        write = 9 + ratio * (7 + burst) - (1 + ratio) / 2
    pins = Fraction(part.data_bits, 8) * (1 - Fraction(_REFRESH, timing.refresh_due))
    return Memory(
        bytes_a_cycle=(pins / ratio).limit_denominator(_FINEST),
        read_latency=round(read) + before[0],
        write_latency=round(write) + before[1],
    )
