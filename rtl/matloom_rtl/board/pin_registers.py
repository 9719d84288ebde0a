"""Registers and buffers at the pins of an SDRAM, for each FPGA family."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal

__all__ = ["LEAST_GEARED_HZ", "PIN_REGISTERS", "PinRegisters"]

#: Minimum clock with two words per cycle: a word must arrive between half an SDRAM cycle and one
#: and a half after the edge that sends it, including the delays out of the device and into it
#: (docs/sdram.md). If half a cycle is longer than 4.2 ns, the word could disappear too early.
LEAST_GEARED_HZ = 60_000_000


@dataclass(frozen=True, kw_only=True)
class PinRegisters:
    """Functions that add pin drivers and receivers of a family, with one or two words per cycle.

    Members
    -------
    cycles:
        Latency of the registers in cycles, outward plus inward.
    clock(m, clock, port):
        Drives an output with a clock, delayed like the pins' registers.
    output(m, name, words, port, begins):
        Drives an output with a registered bit of `words`, or with the two bits of a cycle, one
        after the other; `begins` is the initial value if there is one word per cycle.
    bidirectional(m, name, signals, port):
        Drives a pin with the registered bits `signals.o` while the registered `signals.oe` is 1,
        and captures the pin in registers `signals.i`, the bit of the first word lowest.
    """

    cycles: int
    clock: Callable
    output: Callable
    bidirectional: Callable


def _ecp5_clock(m: Module, clock, port):
    """Drive pin `port` with a clock, by a double-data-rate register and an output buffer."""
    q = Signal()
    m.submodules.clk_ddr = Instance(
        "ODDRX1F", i_SCLK=clock, i_RST=Const(0), i_D0=Const(1), i_D1=Const(0), o_Q=q
    )
    m.submodules.clk_pin = Instance("OB", i_I=q, o_O=port)


def _ecp5_output(m: Module, name: str, words, port, *, begins: int):
    """Drive pin `port` with the only item of `words`, registered; `begins` is its initial value."""
    q = Signal(name=name)
    m.submodules[f"{name}_ff"] = _ecp5_register_out(words[0], q, begins=begins)
    m.submodules[f"{name}_pin"] = Instance("OB", i_I=q, o_O=port)


def _ecp5_bidirectional(m: Module, name: str, signals, port):
    """Connect pin `port` to `signals` (`o`, `oe`, `i`), all registered at the pin."""
    o, t, i = (Signal(name=f"{name}_{what}") for what in "oti")
    m.submodules[f"{name}_o_ff"] = _ecp5_register_out(signals.o, o, begins=0)
    m.submodules[f"{name}_t_ff"] = _ecp5_register_out(~signals.oe, t, begins=1)
    m.submodules[f"{name}_i_ff"] = _ecp5_register("IFS1P3DX", "CD", i, signals.i)
    m.submodules[f"{name}_pin"] = Instance("BB", i_I=o, i_T=t, o_O=i, io_B=port)


def _ecp5_double_output(m: Module, name: str, words, port, *, begins: int):
    """Drive pin `port` with two words per cycle, the earlier first; `begins` is not used."""
    del begins  # These registers start at zero.
    q = Signal(name=name)
    m.submodules[f"{name}_ddr"] = _ecp5_double_register_out(words, q)
    m.submodules[f"{name}_pin"] = Instance("OB", i_I=q, o_O=port)


def _ecp5_double_bidirectional(m: Module, name: str, signals, port):
    """Connect a pin with two words per cycle; the earlier of two received words comes first.

    An ODDRX1F outputs its words in the third cycle after they are given, so the output enable is
    delayed by two registers too. An IDDRX1F pairs the sample of a falling edge with that of the
    next rising edge, so a register delays the first word of a cycle until the second arrives.
    """
    o, t, i = (Signal(name=f"{name}_{what}") for what in "oti")
    off = [Signal(name=f"{name}_off_{stage}", init=1, reset_less=True) for stage in range(2)]
    first = Signal(name=f"{name}_first", reset_less=True)
    rising = Signal(name=f"{name}_rising")
    falling = Signal(name=f"{name}_falling")
    m.d.sync += [off[0].eq(~signals.oe), off[1].eq(off[0]), first.eq(rising)]
    m.submodules[f"{name}_o_ddr"] = _ecp5_double_register_out(signals.o, o)
    m.submodules[f"{name}_t_ff"] = _ecp5_register_out(off[1], t, begins=1)
    m.submodules[f"{name}_i_ddr"] = Instance(
        "IDDRX1F", i_SCLK=ClockSignal(), i_RST=Const(0), i_D=i, o_Q0=falling, o_Q1=rising
    )
    m.d.comb += signals.i.eq(Cat(first, falling))
    m.submodules[f"{name}_pin"] = Instance("BB", i_I=o, i_T=t, o_O=i, io_B=port)


def _ecp5_double_register_out(words, q) -> Instance:
    """Return a double-data-rate output register, which sends the first of `words` first."""
    first, second = words
    pins = {"i_D0": first, "i_D1": second, "o_Q": q}
    return Instance("ODDRX1F", i_SCLK=ClockSignal(), i_RST=Const(0), **pins)


def _ecp5_register_out(value, q, *, begins: int) -> Instance:
    """Return an output pin register with the initial value `begins`, 0 or 1."""
    return _ecp5_register(*(("OFS1P3BX", "PD") if begins else ("OFS1P3DX", "CD")), value, q)


def _ecp5_register(cell: str, reset: str, value, q) -> Instance:
    """Return a pin register, a `cell`, from `value` to `q`; its port `reset` is tied low."""
    pins = {f"i_{reset}": Const(0), "i_SP": Const(1), "i_D": value, "o_Q": q}
    return Instance(cell, i_SCLK=ClockSignal(), **pins)


def _gowin_clock(m: Module, clock, port):
    """Drive pin `port` with a clock, by a double-data-rate register and an output buffer."""
    q = Signal()
    m.submodules.clk_ddr = Instance(
        "ODDR", p_TXCLK_POL=0, i_CLK=clock, i_D0=Const(1), i_D1=Const(0), i_TX=Const(0), o_Q0=q
    )
    m.submodules.clk_pin = Instance("OBUF", i_I=q, o_O=port)


def _gowin_output(m: Module, name: str, words, port, *, begins: int):
    """Drive pin `port` with the only item of `words`, registered; `begins` is its initial value."""
    q = Signal(name=name, init=begins, reset_less=True)
    m.d.sync += q.eq(words[0])
    m.submodules[f"{name}_pin"] = Instance("OBUF", i_I=q, o_O=port)


def _gowin_bidirectional(m: Module, name: str, signals, port):
    """Connect pin `port` to `signals` (`o`, `oe`, `i`), all registered."""
    o = Signal(name=f"{name}_o", reset_less=True)
    pin = Signal(name=f"{name}_pin_value")
    off = Signal(name=f"{name}_t", init=1, reset_less=True)
    taken = Signal(name=f"{name}_i", reset_less=True)
    m.d.sync += [o.eq(signals.o), off.eq(~signals.oe), taken.eq(pin)]
    m.d.comb += signals.i.eq(taken)
    m.submodules[f"{name}_pin"] = Instance("IOBUF", i_I=o, i_OEN=off, o_O=pin, io_IO=port)


#: Pin registers by family and words per cycle. Gowin uses logic registers, which the tool may move
#: into the pins. With two words per cycle, it takes three cycles outward and two inward.
PIN_REGISTERS = {
    ("ecp5", 1): PinRegisters(
        cycles=2, clock=_ecp5_clock, output=_ecp5_output, bidirectional=_ecp5_bidirectional
    ),
    ("ecp5", 2): PinRegisters(
        cycles=5,
        clock=_ecp5_clock,
        output=_ecp5_double_output,
        bidirectional=_ecp5_double_bidirectional,
    ),
    ("gowin", 1): PinRegisters(
        cycles=2, clock=_gowin_clock, output=_gowin_output, bidirectional=_gowin_bidirectional
    ),
}
