"""Registers and buffers of a family's pins, as an SDRAM wants them: each signal registered once."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal

__all__ = ["PIN_REGISTERS", "PinRegisters"]


@dataclass(frozen=True, kw_only=True)
class PinRegisters:
    """How a family's pins are driven and read.

    Members
    -------
    clock(m, clock, port):
        Shows a clock at an output, later than the clock as a register is.
    output(m, name, value, port, begins):
        Shows a register of a bit; it begins with 0 or 1.
    bidirectional(m, name, signals, port):
        Shows a register of `signals.o` while a register of `signals.oe` is 1, and takes the pin
        into a register that is `signals.i`.
    """

    clock: Callable
    output: Callable
    bidirectional: Callable


def _ecp5_clock(m: Module, clock, port):
    q = Signal()
    m.submodules.clk_ddr = Instance(
        "ODDRX1F", i_SCLK=clock, i_RST=Const(0), i_D0=Const(1), i_D1=Const(0), o_Q=q
    )
    m.submodules.clk_pin = Instance("OB", i_I=q, o_O=port)


def _ecp5_output(m: Module, name: str, value, port, *, begins: int):
    q = Signal(name=name)
    m.submodules[f"{name}_ff"] = _ecp5_register_out(value, q, begins=begins)
    m.submodules[f"{name}_pin"] = Instance("OB", i_I=q, o_O=port)


def _ecp5_bidirectional(m: Module, name: str, signals, port):
    o, t, i = (Signal(name=f"{name}_{what}") for what in "oti")
    m.submodules[f"{name}_o_ff"] = _ecp5_register_out(signals.o, o, begins=0)
    m.submodules[f"{name}_t_ff"] = _ecp5_register_out(~signals.oe, t, begins=1)
    m.submodules[f"{name}_i_ff"] = _ecp5_register("IFS1P3DX", "CD", i, signals.i)
    m.submodules[f"{name}_pin"] = Instance("BB", i_I=o, i_T=t, o_O=i, io_B=port)


def _ecp5_register_out(value, q, *, begins: int) -> Instance:
    """Return a register of an output pin; BX begins with one, DX with zero."""
    return _ecp5_register(*(("OFS1P3BX", "PD") if begins else ("OFS1P3DX", "CD")), value, q)


def _ecp5_register(cell: str, reset: str, value, q) -> Instance:
    pins = {f"i_{reset}": Const(0), "i_SP": Const(1), "i_D": value, "o_Q": q}
    return Instance(cell, i_SCLK=ClockSignal(), **pins)


def _gowin_clock(m: Module, clock, port):
    q = Signal()
    m.submodules.clk_ddr = Instance(
        "ODDR", p_TXCLK_POL=0, i_CLK=clock, i_D0=Const(1), i_D1=Const(0), i_TX=Const(0), o_Q0=q
    )
    m.submodules.clk_pin = Instance("OBUF", i_I=q, o_O=port)


def _gowin_output(m: Module, name: str, value, port, *, begins: int):
    q = Signal(name=name, init=begins, reset_less=True)
    m.d.sync += q.eq(value)
    m.submodules[f"{name}_pin"] = Instance("OBUF", i_I=q, o_O=port)


def _gowin_bidirectional(m: Module, name: str, signals, port):
    o, pin = Signal(name=f"{name}_o", reset_less=True), Signal(name=f"{name}_pin_value")
    off = Signal(name=f"{name}_t", init=1, reset_less=True)
    taken = Signal(name=f"{name}_i", reset_less=True)
    m.d.sync += [o.eq(signals.o), off.eq(~signals.oe), taken.eq(pin)]
    m.d.comb += signals.i.eq(taken)
    m.submodules[f"{name}_pin"] = Instance("IOBUF", i_I=o, i_OEN=off, o_O=pin, io_IO=port)


#: By family. Gowin's registers are those of the logic, which the tool may move into the pins.
PIN_REGISTERS = {
    "ecp5": PinRegisters(clock=_ecp5_clock, output=_ecp5_output, bidirectional=_ecp5_bidirectional),
    "gowin": PinRegisters(
        clock=_gowin_clock, output=_gowin_output, bidirectional=_gowin_bidirectional
    ),
}
