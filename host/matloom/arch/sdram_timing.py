"""Timing constraints of SDRAMs, in nanoseconds and in clock cycles."""

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from math import ceil


@dataclass(frozen=True)
class Delay:
    """Minimum delay between two commands, at least `ns` nanoseconds and `cycles` cycles."""

    ns: float = 0
    cycles: int = 1

    def at(self, clock_hz: int) -> int:
        """Return the minimum number of cycles at a clock of `clock_hz`."""
        return max(self.cycles, ceil(Fraction(str(self.ns)) * clock_hz / 10**9))


@dataclass(frozen=True, kw_only=True)
class SdramTiming:
    """Timing of an SDRAM at one clock, in cycles between commands unless stated otherwise.

    `read_precharge` and `write_precharge` count from the last column of a burst: PRECHARGE of the
    bank may follow a READ of n columns after n - 1 + `read_precharge` cycles.
    """

    #: READ to its first data.
    cas_latency: int
    #: ACTIVATE to READ or WRITE.
    rcd: int
    #: PRECHARGE to ACTIVATE, REFRESH or MODE.
    rp: int
    #: ACTIVATE to PRECHARGE.
    ras: int
    #: ACTIVATE to ACTIVATE of the same bank.
    rc: int
    #: REFRESH to ACTIVATE or REFRESH.
    rfc: int
    #: Last data of a WRITE to PRECHARGE.
    wr: int
    #: ACTIVATE to ACTIVATE of another bank.
    rrd: int
    #: MODE to any command.
    mrd: int
    #: Average interval of REFRESH commands, rounded down.
    refresh: int
    #: Interval that is shorter than `refresh`, so that no row waits longer than the data sheet
    #: allows even if each REFRESH is delayed until just before the next is due.
    refresh_due: int
    #: Minimum wait before the first command.
    power_up: int
    #: Number of REFRESH commands during initialisation.
    initial_refreshes: int

    def for_gear(self, gear: int) -> "SdramTiming":
        """Return the timing for a controller that issues commands only in every `gear`-th cycle.

        The result is in controller cycles. The CAS latency and minimum delays are rounded up,
        refresh intervals down.
        """
        most = ("refresh", "refresh_due", "initial_refreshes")
        waits = {
            item.name: -(-getattr(self, item.name) // gear)
            for item in dataclasses.fields(self)
            if item.name not in most
        }
        due = {name: getattr(self, name) // gear for name in most[:2]}
        return dataclasses.replace(self, **waits, **due)

    @property
    def read_precharge(self) -> int:
        """Cycles from a READ's last column to PRECHARGE."""
        return max(1, self.cas_latency - 1)

    @property
    def write_precharge(self) -> int:
        """Cycles from a WRITE's last column to PRECHARGE."""
        return self.wr
