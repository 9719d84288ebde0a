"""Bus rules of a channel, as assertions of our own."""

from amaranth.hdl import Assert, Assume, Module, Signal, Value

__all__ = ["assume_stays", "implies", "stays"]


def implies(condition, claim) -> Assert:
    """Claim one thing wherever another holds."""
    return Assert(~condition | claim, src_loc_at=1)


def _waited(m: Module, stream):
    """Return whether an item waited in the cycle before, and what it was."""
    payload = Value.cast(stream.payload)
    waits = Signal()
    before = Signal.like(payload, reset_less=True, name="payload_before")
    m.d.sync += [waits.eq(stream.valid & ~stream.ready), before.eq(payload)]
    return waits, stream.valid & (payload == before)


def stays(m: Module, stream) -> None:
    """Claim that an item which waits stays, with every bit (`valid_stays`, `payload_stays`)."""
    waits, same = _waited(m, stream)
    m.d.comb += implies(waits, same)


def assume_stays(m: Module, stream) -> None:
    """Assume the same of a stream that others drive."""
    waits, same = _waited(m, stream)
    m.d.comb += Assume(~waits | same)
