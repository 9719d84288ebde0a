"""Cost of calls on the line of a host link."""

from dataclasses import dataclass, replace

#: Bits on the line per byte: a start bit, eight data bits and a stop bit.
_BITS = 10


@dataclass(frozen=True, kw_only=True)
class LineCost:
    """Bytes, requests and seconds that calls take on a line.

    Members
    -------
    baud:
        Bits per second.
    sent, received:
        Bytes sent and received, including framing (docs/link.md).
    requests, repeats:
        Requests answered, and requests sent again because they or their answers were lost.
    seconds:
        Time of all exchanges, each from its first request to its last answer, by the host's clock,
        including the USB bridge, the operating system, and the run of the engine.
    """

    baud: int
    sent: int = 0
    received: int = 0
    requests: int = 0
    repeats: int = 0
    seconds: float = 0.0

    def plus(self, **more: float) -> "LineCost":
        """Return the cost with `more` added, member by member."""
        return replace(self, **{name: getattr(self, name) + each for name, each in more.items()})

    def since(self, before: "LineCost") -> "LineCost":
        """Return the cost that was added since `before`."""
        names = ("sent", "received", "requests", "repeats", "seconds")
        return self.plus(**{name: -getattr(before, name) for name in names})

    @property
    def line_seconds(self) -> float:
        """Minimum time in seconds that the line needs; both directions work in parallel."""
        return max(self.sent, self.received) * _BITS / self.baud

    def __str__(self) -> str:
        again = f", {self.repeats:,} sent again" if self.repeats else ""
        return (
            f"{self.sent:,} bytes out and {self.received:,} in, requests {self.requests:,}{again}: "
            f"{1e3 * self.line_seconds:.2f} ms of the line at {self.baud:,} baud, "
            f"{1e3 * self.seconds:.2f} ms by the clock"
        )


def difference(after: LineCost | None, before: LineCost | None) -> LineCost | None:
    """Return the cost from `before` to `after`; None if the device has no line."""
    return None if after is None or before is None else after.since(before)
