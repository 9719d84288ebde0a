"""Predictions for one engine on a board: use of resources, clock, and time of a network."""

import math
from dataclasses import dataclass

from matloom.arch.config import Config

#: Factor by which an engine may exceed the tables of a routed design and still count as no larger;
#: the model's error exceeds this.
_LIKE_ROUTED = 1.05

#: Fraction of the expected clock that another seed of routing may reach; seeds differ by about a
#: tenth.
_BY_SEED = 1.05


@dataclass(frozen=True, kw_only=True)
class Use:
    """Use of one resource, such as LUTs, by a board with an engine.

    Members
    -------
    used:
        Predicted number that the whole board uses.
    room:
        Number that can be used before routing is likely to fail.
    available:
        Number in the device.
    """

    used: float
    room: float
    available: int

    @property
    def beyond(self) -> float:
        """Fraction by which the resource is exceeded; negative if it fits."""
        return self.used / self.room - 1


@dataclass(kw_only=True)
class FittedEngine:
    """An engine, and predictions for it on a board.

    Members
    -------
    text:
        Value for ``--config``.
    uses:
        Predicted use of each resource, by name.
    soft_columns:
        Number of array columns that multiply in LUTs.
    asked_mhz, mhz:
        Required and expected clock; the latter is None if no design of the family was routed.
    routed:
        Largest number of LUTs in a design that was routed on the device; 0 for none.
    milliseconds:
        Time of a call of a network at the board's clock; None until one is compiled, or if it
        cannot run.
    why:
        Reason why the network cannot run, or empty.
    """

    text: str
    config: Config
    uses: dict[str, Use]
    soft_columns: int
    asked_mhz: float
    mhz: float | None
    routed: int = 0
    milliseconds: float | None = None
    why: str = ""

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates per cycle."""
        return self.config.rows * self.config.columns

    @property
    def limit(self) -> tuple[str, float]:
        """Name of the resource (or ``"clock"``) that exceeds its limit most, and by which fraction.

        The fraction is negative if no limit is exceeded.
        """
        beyond = {name: use.beyond for name, use in self.uses.items()}
        if self.mhz is not None:
            beyond["clock"] = self.asked_mhz / (self.mhz * _BY_SEED) - 1
        return max(beyond.items(), key=lambda item: item[1])

    @property
    def fullest(self) -> str:
        """Name of the resource with the least room left, relative to its limit."""
        return max(self.uses, key=lambda name: self.uses[name].beyond)

    @property
    def is_beyond_routed(self) -> bool:
        """Whether it has more LUTs than any design routed on the device, so routing may fail."""
        return self.uses["tables"].used > self.routed * _LIKE_ROUTED

    @property
    def fits(self) -> bool:
        """Whether resources suffice, and the expected clock, if known, is high enough."""
        return self.limit[1] <= 0

    @property
    def size(self) -> tuple[int, ...]:
        """Sort key by size: multipliers, then optional hardware and memory; larger is preferred."""
        config = self.config
        whole = (config.checks, config.counters, -self.soft_columns)
        memory = (config.spad_bytes, config.acc_bytes)
        return (self.macs, *whole, config.lanes, config.bus_bits, *memory)

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key of candidates, smallest for the best one: latency, then size."""
        latency = math.inf if self.milliseconds is None else self.milliseconds
        return (latency, *(-part for part in self.size))
