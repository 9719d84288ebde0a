"""SDRAM chips of boards: their geometry, and their timing at a clock.

The data sheets of most parts were not available, so `source` says where each figure comes from.
"""

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from matloom.arch.sdram_timing import Delay, SdramTiming

#: Delay after MODE if the data sheet states none.
_MODE_DELAY = Delay(cycles=2)

#: Fewest rows or columns and most columns of a part; A10 is no column bit because it requests a
#: precharge.
_LEAST_SIDE, _MOST_COLUMNS = 256, 1024

#: SDRAM cycles per controller cycle if the SDRAM runs at twice the controller's clock.
_DOUBLED = 2


class InvalidSdramError(ValueError):
    """An SDRAM part, or a clock for it, that breaks a rule; the message names rule and value."""


@dataclass(frozen=True, kw_only=True)
class SdramPart:
    """A single-data-rate SDRAM, or several side by side that receive the same commands.

    `source` says where the figures come from, and which are assumptions. The delays `rcd` to `mrd`
    are as in `SdramTiming`. `refreshes` REFRESH commands are due every `refresh_ms` milliseconds.
    `clock_hz` lists pairs of a CAS latency and its fastest clock. Raises InvalidSdramError with the
    rule and the value.
    """

    name: str
    source: str
    data_bits: int
    banks: int
    rows: int
    columns: int
    rcd: Delay
    rp: Delay
    ras: Delay
    rc: Delay
    rfc: Delay
    wr: Delay
    rrd: Delay
    mrd: Delay = _MODE_DELAY
    refreshes: int
    refresh_ms: int
    power_up_us: float = 200
    initial_refreshes: int = 8
    clock_hz: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for name, values in (("data_bits", (16, 32)), ("banks", (2, 4))):
            value = getattr(self, name)
            if value not in values:
                allowed = " or ".join(map(str, values))
                raise InvalidSdramError(f"{name} must be {allowed}, not {value}")
        for name in ("rows", "columns"):
            value = getattr(self, name)
            if value < _LEAST_SIDE or value & (value - 1):
                raise InvalidSdramError(
                    f"{name} must be a power of two from {_LEAST_SIDE} on, not {value}"
                )
        if self.columns > _MOST_COLUMNS:
            raise InvalidSdramError(
                f"columns must be at most {_MOST_COLUMNS} (A10 is no column), not {self.columns}"
            )

    @property
    def bytes(self) -> int:
        """Capacity in bytes."""
        return self.banks * self.rows * self.columns * self.data_bits // 8

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.columns * self.data_bits // 8

    def side_by_side(self, count: int) -> "SdramPart":
        """Return `count` parts that share commands, as one part with `count` times the bits."""
        name = f"{count} x {self.name}"
        return dataclasses.replace(self, name=name, data_bits=count * self.data_bits)

    def timing(self, clock_hz: int, cas_latency: int | None = None) -> SdramTiming:
        """Return the timing at a clock; raise InvalidSdramError if the part is too slow for it.

        By default, `cas_latency` is the lowest that the clock allows.
        """
        allowed = [latency for latency, fastest in self.clock_hz if clock_hz <= fastest]
        if not allowed:
            fastest = max(fastest for _, fastest in self.clock_hz)
            raise InvalidSdramError(
                f"the clock of {self.name} must be at most {fastest}, not {clock_hz}"
            )
        if cas_latency not in (None, *allowed):
            choice = " or ".join(map(str, allowed))
            raise InvalidSdramError(
                f"cas_latency must be {choice} at {clock_hz} Hz, not {cas_latency}"
            )
        delays = ("rcd", "rp", "ras", "rc", "rfc", "wr", "rrd", "mrd")
        window = Fraction(self.refresh_ms) * clock_hz / 1000
        return SdramTiming(
            cas_latency=cas_latency or min(allowed),
            **{name: getattr(self, name).at(clock_hz) for name in delays},
            refresh=int(window / self.refreshes),
            refresh_due=int(window / (self.refreshes + 1)),
            power_up=ceil(Fraction(str(self.power_up_us)) * clock_hz / 10**6),
            initial_refreshes=self.initial_refreshes,
        )

    def timing_of_gear(self, clock_hz: int, gear: int) -> SdramTiming:
        """Return the timing, in SDRAM cycles, at `gear` times the controller's clock `clock_hz`.

        With a gear of 2 the CAS latency is 3, the one for fast clocks, because words come in pairs.
        """
        return self.timing(gear * clock_hz, 3 if gear == _DOUBLED else None)


_MHZ = 10**6

_PARTS = (
    SdramPart(
        name="IS42S16160",
        source="tRCD, tRP, tWR, tRFC and refreshes as litedram's table of IS42S16160 has them; all "
        "else recalled; ISSI's data sheet not read",
        data_bits=16,
        banks=4,
        rows=8192,
        columns=512,
        rcd=Delay(20),
        rp=Delay(20),
        ras=Delay(45),
        rc=Delay(70),
        rfc=Delay(70),
        wr=Delay(20, 2),
        rrd=Delay(15),
        mrd=Delay(15, 2),
        refreshes=8192,
        refresh_ms=64,
        clock_hz=((2, 100 * _MHZ), (3, 143 * _MHZ)),
    ),
    SdramPart(
        name="MT48LC16M16A2",
        source="tRCD, tRP, tWR, tRFC and refreshes as litedram's table of MT48LC16M16 has them; "
        "all else (tRC and power-up too) recalled; Micron's data sheet not read",
        data_bits=16,
        banks=4,
        rows=8192,
        columns=512,
        rcd=Delay(20),
        rp=Delay(20),
        ras=Delay(44),
        rc=Delay(66),
        rfc=Delay(66),
        wr=Delay(15),
        rrd=Delay(15),
        refreshes=8192,
        refresh_ms=64,
        power_up_us=100,
        clock_hz=((2, 100 * _MHZ), (3, 133 * _MHZ)),
    ),
    SdramPart(
        name="AS4C32M16",
        source="its own data sheet: Alliance Memory AS4C32M16SB, table 16, speed -7",
        data_bits=16,
        banks=4,
        rows=8192,
        columns=1024,
        rcd=Delay(21),
        rp=Delay(21),
        ras=Delay(42),
        rc=Delay(63),
        rfc=Delay(63),
        wr=Delay(14, 2),
        rrd=Delay(14),
        mrd=Delay(14, 2),
        refreshes=8192,
        refresh_ms=64,
        clock_hz=((2, 100 * _MHZ), (3, 142 * _MHZ)),
    ),
    SdramPart(
        name="W9825G6KH",
        source="the data sheet of its sister Winbond W9825G6JH, section 9.5, speed -6; its own not "
        "read",
        data_bits=16,
        banks=4,
        rows=8192,
        columns=512,
        rcd=Delay(15),
        rp=Delay(15),
        ras=Delay(42),
        rc=Delay(60),
        rfc=Delay(60),
        wr=Delay(cycles=2),
        rrd=Delay(cycles=2),
        refreshes=8192,
        refresh_ms=64,
        clock_hz=((2, 133 * _MHZ), (3, 166 * _MHZ)),
    ),
    SdramPart(
        name="M12L16161A",
        source="ESMT M12L16161A data sheet (geometry, 2,048 refreshes in 32 ms); times from that "
        "of its low-voltage sister M12S16161A, speed -7; its own table of times not read",
        data_bits=16,
        banks=2,
        rows=2048,
        columns=256,
        rcd=Delay(20),
        rp=Delay(20),
        ras=Delay(42),
        rc=Delay(63),
        rfc=Delay(63),
        wr=Delay(cycles=2),
        rrd=Delay(14),
        refreshes=2048,
        refresh_ms=32,
        clock_hz=((2, 100 * _MHZ), (3, 143 * _MHZ)),
    ),
    SdramPart(
        name="GW2AR-18",
        # Gowin names no chip; open designs run it with the times of one of the same shape.
        source="Apicula's doc/sdram.md (pins, geometry); times filled in from memory, each as long "
        "as or longer than litedram's table of M12L64322A has it; Gowin's own not found",
        data_bits=32,
        banks=4,
        rows=2048,
        columns=256,
        rcd=Delay(20),
        rp=Delay(20),
        ras=Delay(45),
        rc=Delay(65),
        rfc=Delay(65),
        wr=Delay(15, 2),
        rrd=Delay(14),
        refreshes=4096,
        refresh_ms=64,
        clock_hz=((2, 100 * _MHZ), (3, 143 * _MHZ)),
    ),
)

#: Parts by name.
SDRAMS = {part.name: part for part in _PARTS}


def load_sdram(source: "str | SdramPart") -> SdramPart:
    """Return the part that `source` names; an SdramPart is returned unchanged.

    ``2 x NAME`` means two parts side by side. Raises InvalidSdramError for an unknown name, or for
    a number of parts that is not possible.
    """
    if isinstance(source, SdramPart):
        return source
    count, several, name = source.rpartition(" x ")
    if name not in SDRAMS or (several and not count.isdecimal()):
        raise InvalidSdramError(f"an SDRAM must be one of {', '.join(SDRAMS)}, not {source!r}")
    return SDRAMS[name].side_by_side(int(count)) if several else SDRAMS[name]
