"""Signals between the controller's units, and the pins of an SDRAM."""

from dataclasses import dataclass
from functools import cached_property

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from matloom.arch.sdram import InvalidSdramError, SdramPart
from matloom.arch.sdram_timing import SdramTiming

__all__ = ["ControllerPlan", "SdramPinsSignature"]


class SdramPinsSignature(wiring.Signature):
    """Registered pins of an SDRAM, from the controller's view; the board drives the clock.

    `cs`, `ras`, `cas` and `we` are active high here; the pins themselves are active low. With a
    `gear` of two the SDRAM has two cycles in each controller cycle: commands are for the first, and
    data contains the words of both, the first in the low bits.

    Members
    -------
    clk_en, cs, ras, cas, we: out
        The command.
    ba, a: out
        Bank, and row or column.
    dqm: out
        Bit k masks byte k of `dq`.
    dq: in, out and out-enable
        Data: `i`, `o`, and `oe` while the controller drives.
    """

    def __init__(self, part: SdramPart, gear: int = 1):
        self.part, self.gear = part, gear
        bits = gear * part.data_bits
        names = ("clk_en", "cs", "ras", "cas", "we")
        super().__init__(
            {
                **{name: Out(1) for name in names},
                "ba": Out((part.banks - 1).bit_length()),
                "a": Out(max(11, (part.rows - 1).bit_length())),
                "dqm": Out(bits // 8),
                "dq": Out(wiring.Signature({"i": In(bits), "o": Out(bits), "oe": Out(1)})),
            }
        )


@dataclass(frozen=True, kw_only=True)
class ControllerPlan:
    """Parameters of a controller and values derived from them.

    `chunk_beats` is the maximum number of beats in a chunk: AXI bursts are cut at its multiples.
    `pin_cycles` is the latency of the board's registers between controller and pins, outward plus
    inward. `timing` counts SDRAM cycles, `gear` of them per controller cycle; everything else
    counts controller cycles.

    Raises
    ------
    InvalidSdramError
        A parameter is not allowed, or a chunk takes too long for refreshes to be in time.
    """

    part: SdramPart
    timing: SdramTiming
    bus_bits: int
    chunk_beats: int
    pin_cycles: int = 0
    gear: int = 1

    def __post_init__(self):
        if self.gear not in (1, 2):
            raise InvalidSdramError(f"gear must be 1 or 2, not {self.gear}")
        if self.gear == 2 and self.timing.cas_latency != 3:
            latency = self.timing.cas_latency
            raise InvalidSdramError(f"cas_latency must be 3 with a gear of 2, not {latency}")
        if self.bus_bits not in (32, 64, 128) or self.bus_bits < self.word_bits:
            geared = f" and {self.word_bits} at least with a gear of 2" if self.gear == 2 else ""
            raise InvalidSdramError(f"bus_bits must be 32, 64 or 128{geared}, not {self.bus_bits}")
        row_beats = 8 * self.part.row_bytes // self.bus_bits
        beats = self.chunk_beats
        if beats < 2 or beats & (beats - 1) or beats > min(row_beats, 256):
            most = min(row_beats, 256)
            raise InvalidSdramError(f"chunk_beats must be a power of two, 2 to {most}, not {beats}")
        if not 0 <= self.pin_cycles <= 5:
            raise InvalidSdramError(f"pin_cycles must be 0 to 5, not {self.pin_cycles}")
        if self.waits.rrd > self.activate_distance:
            most = self.activate_distance
            raise InvalidSdramError(f"rrd must be at most {most} cycles, not {self.waits.rrd}")
        if self.waits.refresh_due <= self.longest_wait:
            raise InvalidSdramError(
                f"chunk_beats must let a refresh in every {self.waits.refresh_due} cycles, "
                f"not {beats}: a chunk may take {self.longest_wait}"
            )

    @property
    def activate_distance(self) -> int:
        """Minimum cycles between ACTIVATEs, for `Opener` to pass, take and examine a chunk."""
        return 4

    @property
    def longest_wait(self) -> int:
        """Upper bound on the cycles that a refresh takes, with the chunk and rows it waits for."""
        waits = self.waits
        rows = waits.rcd + waits.ras + waits.rp + waits.wr + waits.cas_latency
        return self.chunk_beats * self.burst + rows + 2 * waits.rfc + 8

    @cached_property
    def waits(self) -> SdramTiming:
        """SDRAM timing in controller cycles."""
        return self.timing.for_gear(self.gear)

    @property
    def word_bits(self) -> int:
        """Number of bits that pass the data pins per cycle."""
        return self.gear * self.part.data_bits

    @property
    def columns(self) -> int:
        """Number of columns of a bus beat, the SDRAM's burst length: 1, 2, 4 or 8."""
        return self.bus_bits // self.part.data_bits

    @property
    def burst(self) -> int:
        """Cycles that a bus beat takes at the data pins."""
        return self.bus_bits // self.word_bits

    @property
    def read_held(self) -> int:
        """Minimum cycles from READ to PRECHARGE of its bank."""
        return -(-(self.columns - 1 + self.timing.read_precharge) // self.gear)

    @property
    def write_held(self) -> int:
        """Minimum cycles from WRITE to PRECHARGE of its bank."""
        return -(-(self.columns - 1 + self.timing.write_precharge) // self.gear)

    @property
    def bank_bits(self) -> int:
        """Width of the index of a bank."""
        return (self.part.banks - 1).bit_length()

    @property
    def row_bits(self) -> int:
        """Width of the index of a row in its bank."""
        return (self.part.rows - 1).bit_length()

    @property
    def beat_bits(self) -> int:
        """Width of a beat's index in its row."""
        return (8 * self.part.row_bytes // self.bus_bits - 1).bit_length()

    @property
    def index_bits(self) -> int:
        """Width of a byte's index in its beat."""
        return (self.bus_bits // 8 - 1).bit_length()

    @property
    def count_bits(self) -> int:
        """Width of a chunk's `count`, its number of beats minus one."""
        return (self.chunk_beats - 1).bit_length()

    @property
    def row_layout(self) -> data.StructLayout:
        """Layout of a chunk's first address, lowest bits first, without the byte's index."""
        return data.StructLayout(
            {"beat": self.beat_bits, "bank": self.bank_bits, "row": self.row_bits}
        )

    @property
    def chunk_layout(self) -> data.StructLayout:
        """Layout of a chunk: `count` + 1 beats in one row; `last` ends a burst."""
        return data.StructLayout(
            {"place": self.row_layout, "count": self.count_bits, "write": 1, "id": 1, "last": 1}
        )
