"""Rules of valid/ready channels, as assertions and assumptions."""

from amaranth.hdl import Assert, Assume, Module, Signal, Value

__all__ = ["assume_stays", "implies", "stays"]


def implies(condition, claim) -> Assert:
    """Return an assertion that `claim` holds whenever `condition` does; both are single bits."""
    return Assert(~condition | claim, src_loc_at=1)


def _waiting_item(m: Module, stream):
    """Return whether an item waited in the previous cycle, and whether it is still shown."""
    payload = Value.cast(stream.payload)
    waits = Signal()
    before = Signal.like(payload, reset_less=True, name="payload_before")
    m.d.sync += [waits.eq(stream.valid & ~stream.ready), before.eq(payload)]
    return waits, stream.valid & (payload == before)


def stays(m: Module, stream) -> None:
    """Claim that an item stays unchanged until it is taken (`valid_stays`, `payload_stays`)."""
    waits, same = _waiting_item(m, stream)
    m.d.comb += implies(waits, same)


def assume_stays(m: Module, stream) -> None:
    """Assume that an item of an input stream stays unchanged until it is taken."""
    waits, same = _waiting_item(m, stream)
    m.d.comb += Assume(~waits | same)
