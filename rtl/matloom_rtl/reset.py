"""Reset registers close to the logic that they reset."""

from amaranth.hdl import Module, Signal

__all__ = ["near_reset"]


def near_reset(m: Module, reset, name: str) -> Signal:
    """Return a unit's own reset register, which follows `reset` by one cycle.

    It is high at power-up. A reset driven from a single place would be the slowest path of the
    chip; the attribute `keep` prevents a merger of the equal registers.
    """
    near = Signal(name=f"{name}_reset", init=1, attrs={"keep": 1})
    m.d.sync += near.eq(reset)
    return near
