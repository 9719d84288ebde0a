"""Memory parameters of an SDRAM behind Matloom's controller, as seen from the engine's bus."""

from fractions import Fraction

from matloom.arch.memory import Memory
from matloom.arch.sdram import SdramPart

#: Approximate cycles during which a refresh occupies the pins.
_REFRESH_CYCLES = 12

#: Largest denominator of the bytes per cycle, exact to a thousandth.
_MAX_DENOMINATOR = 50


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
    """Return the timing of an SDRAM and its controller as a Memory, in bus cycles.

    The figures are those of docs/sdram.md. They assume that the engine's bursts are full and that
    rows are opened ahead. A write begins when all beats of its burst have arrived.

    Parameters
    ----------
    clock_hz:
        Clock of the bus.
    burst_beats:
        Number of beats of the engine's longest bursts.
    pin_cycles:
        Cycles that registers in the pins add to a read.
    before:
        Cycles that units between engine and controller add to a read and to a write.
    gear:
        SDRAM cycles per controller cycle.
    """
    timing = part.timing_of_gear(clock_hz, gear).for_gear(gear)
    columns = bus_bits // (gear * part.data_bits)
    first = timing.cas_latency + columns + pin_cycles
    burst = burst_beats * columns
    pins = Fraction(gear * part.data_bits, 8) * (1 - Fraction(_REFRESH_CYCLES, timing.refresh_due))
    return Memory(
        bytes_per_cycle=pins.limit_denominator(_MAX_DENOMINATOR),
        read_latency=10 + first + before[0],
        write_latency=10 + burst + before[1],
    )
