"""The times that an SDRAM demands, in nanoseconds and in cycles of a clock."""

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

__all__ = ["Delay", "SdramTiming"]


@dataclass(frozen=True)
class Delay:
    """A least time between two commands: so many nanoseconds and so many cycles, both."""

    ns: float = 0
    cycles: int = 1

    def at(self, clock_hz: int) -> int:
        """Return the least number of cycles of a clock."""
        return max(self.cycles, ceil(Fraction(str(self.ns)) * clock_hz / 10**9))


@dataclass(frozen=True, kw_only=True)
class SdramTiming:
    """Timing of an SDRAM at one clock, in cycles; from command to command unless said.

    `read_precharge` and `write_precharge` count from the last column of a burst on: a READ of n
    columns may be followed by PRECHARGE of its bank after n - 1 + `read_precharge` cycles.
    """

    #: From READ to its first data.
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
    #: Average distance of REFRESH commands, rounded down.
    refresh: int
    #: A shorter distance: with it, and each REFRESH done before the next is due, no row ever waits
    #: longer than the data sheet's time for all rows.
    refresh_due: int
    #: No command before.
    power_up: int
    #: REFRESH commands of the initialisation.
    initial_refreshes: int

    def geared(self, gear: int) -> "SdramTiming":
        """Return the same for a controller that gives commands in every `gear`-th cycle alone.

        What it returns counts those cycles. A word that comes between two of them counts for the
        later one, and so do all waits, but the distances of refreshes, which are the shorter ones.
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
        """Return the cycles from a READ's last column to PRECHARGE."""
        return max(1, self.cas_latency - 1)

    @property
    def write_precharge(self) -> int:
        """Return the cycles from a WRITE's last column to PRECHARGE."""
        return self.wr
