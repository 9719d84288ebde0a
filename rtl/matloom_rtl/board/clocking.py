"""Clock and reset of a board: a PLL of its family, and a reset that ends after the PLL locks."""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import AsyncFFSynchronizer
from amaranth.lib.wiring import In, Out

from matloom_rtl.board.pll import ECP5_RULES, GW2A_RULES, XC7_RULES, OtherOutputPll, Pll, choose

__all__ = ["Clocking", "Reset", "pll_for"]

#: Rules of the PLL, by family.
_RULES = {"ecp5": ECP5_RULES, "gowin": GW2A_RULES, "xilinx": XC7_RULES}


def pll_for(family: str, input_hz: int, wanted_hz: int, gear: int = 1) -> Pll:
    """Return the settings of a family's PLL; raise ValueError if it cannot make the clock.

    With a `gear` of two the PLL can make a second clock at twice the frequency, whose half cycle is
    a whole number of VCO cycles.
    """
    rules = _RULES[family]
    if gear == 2:
        if family != "ecp5":
            raise ValueError(f"gear must be 1 with a PLL of the {rules.name}, not {gear}")
        dividers = tuple(divider for divider in rules.output_dividers if divider % 4 == 0)
        rules = replace(rules, output_dividers=dividers)
    return choose(input_hz, wanted_hz, rules)


#: Outputs of an EHXPLLL other than CLKOP, each with the letter of its divider and multiplexer.
_ECP5_OTHERS = (("CLKOS", "B"), ("CLKOS2", "C"), ("CLKOS3", "D"))


def _ecp5_output(pin: str, place: str, divider: int, lead: int, hz, signal) -> dict[str, Any]:
    """Return the parameters and ports of output `pin`, whose edges precede CLKOP's by `lead`.

    `lead` is in VCO cycles; `place` is the letter of the output's multiplexer.
    """
    return {
        f"p_{pin}_ENABLE": "ENABLED",
        f"p_{pin}_DIV": divider,
        # Delayed by a whole cycle minus the lead.
        f"p_{pin}_CPHASE": (2 * divider - 1 - lead) if lead else divider - 1,
        f"p_{pin}_FPHASE": 0,
        f"p_OUTDIVIDER_MUX{place}": f"DIV{place}",
        f"a_FREQUENCY_PIN_{pin}": _megahertz(hz),
        f"o_{pin}": signal,
    }


def _ecp5(pll: Pll, source, clock, locked, early=None, gear: int = 1) -> Instance:
    """Return an EHXPLLL with feedback from CLKOP, whose edges are aligned with the input's.

    The clock is CLKOP itself, or CLKOS with the settings of `OtherOutputPll`. The edges of `early`,
    if given, precede those of the clock by an eighth of a cycle, rounded down to VCO cycles but at
    least one. With a `gear` of two `early` is twice as fast and offset by half of its own cycle.
    """
    divider = pll.output_divider // gear
    lead = divider // 2 if gear == 2 else max(1, divider // 8)
    fed, fed_divider = clock, pll.output_divider
    others = []
    if isinstance(pll, OtherOutputPll):
        fed = Signal()
        fed_divider = pll.feedback_output
        others.append((pll.output_divider, 0, pll.output_hz, clock))
    if early is not None:
        others.append((divider, lead, gear * pll.output_hz, early))
    settings = [
        _ecp5_output(*pin, *other) for pin, other in zip(_ECP5_OTHERS, others, strict=False)
    ]
    return Instance(
        "EHXPLLL",
        p_CLKI_DIV=pll.input_divider,
        p_CLKFB_DIV=pll.feedback_divider,
        p_CLKOP_DIV=fed_divider,
        p_CLKOP_CPHASE=fed_divider - 1,
        p_CLKOP_FPHASE=0,
        p_CLKOP_ENABLE="ENABLED",
        p_FEEDBK_PATH="CLKOP",
        p_OUTDIVIDER_MUXA="DIVA",
        a_FREQUENCY_PIN_CLKI=_megahertz(pll.input_hz),
        a_FREQUENCY_PIN_CLKOP=_megahertz(pll.oscillator_hz / fed_divider),
        # Settings of loop filter and charge pump by the vendor's tool for these ranges.
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1",
        a_MFG_GMCREF_SEL="2",
        i_CLKI=source,
        i_CLKFB=fed,
        i_RST=Const(0),
        i_STDBY=Const(0),
        i_PLLWAKESYNC=Const(0),
        **{f"i_PHASE{name}": Const(0) for name in ("SEL0", "SEL1", "DIR", "STEP", "LOADREG")},
        i_ENCLKOP=Const(0),
        o_CLKOP=fed,
        o_LOCK=locked,
        **{name: value for each in settings for name, value in each.items()},
    )


#: Phase steps per cycle of an rPLL's second output, and the steps by which it leads.
_STEPS, _LEAD = 16, 2


def _gowin(pll: Pll, source, clock, locked, early=None) -> Instance:
    """Return an rPLL; the edges of `early`, if given, precede the clock's by an eighth of a cycle.

    Falling edges follow rising ones by half a cycle (UG286, tables of PSDA_SEL and DUTYDA_SEL).
    """
    phase = _STEPS - _LEAD
    second = {
        "p_PSDA_SEL": f"{phase:04b}",
        "p_DUTYDA_SEL": f"{(phase + _STEPS // 2) % _STEPS:04b}",
        "p_DYN_DA_EN": "false",
        "o_CLKOUTP": early,
    }
    return Instance(
        "rPLL",
        p_DEVICE="GW2AR-18C",
        p_FCLKIN=_megahertz(pll.input_hz),
        p_IDIV_SEL=pll.input_divider - 1,
        p_FBDIV_SEL=pll.feedback_divider - 1,
        p_ODIV_SEL=pll.output_divider,
        **{f"p_DYN_{name}_SEL": "false" for name in ("IDIV", "FBDIV", "ODIV")},
        p_DYN_SDIV_SEL=2,
        p_CLKFB_SEL="internal",
        p_CLKOUT_BYPASS="false",
        p_CLKOUTP_BYPASS="false",
        p_CLKOUTD_BYPASS="false",
        i_CLKIN=source,
        i_CLKFB=Const(0),
        i_RESET=Const(0),
        i_RESET_P=Const(0),
        **{f"i_{name}": Const(0, 6) for name in ("IDSEL", "FBDSEL", "ODSEL")},
        **{f"i_{name}": Const(0, 4) for name in ("PSDA", "DUTYDA", "FDLY")},
        o_CLKOUT=clock,
        o_LOCK=locked,
        **({} if early is None else second),
    )


def _xilinx(pll: Pll, source, clock, locked) -> Instance:
    """Return a PLLE2_BASE, whose output need not be in phase with its input."""
    feedback = Signal()
    return Instance(
        "PLLE2_BASE",
        p_BANDWIDTH="OPTIMIZED",
        p_CLKIN1_PERIOD=1e9 / pll.input_hz,
        p_DIVCLK_DIVIDE=pll.input_divider,
        p_CLKFBOUT_MULT=pll.feedback_divider,
        p_CLKOUT0_DIVIDE=pll.output_divider,
        p_STARTUP_WAIT="FALSE",
        i_CLKIN1=source,
        i_CLKFBIN=feedback,
        i_RST=Const(0),
        i_PWRDWN=Const(0),
        o_CLKFBOUT=feedback,
        o_CLKOUT0=clock,
        o_LOCKED=locked,
    )


_INSTANCES = {"ecp5": _ecp5, "gowin": _gowin, "xilinx": _xilinx}


def _megahertz(hz) -> str:
    """Return a frequency, given in Hz, as decimal text in MHz."""
    return f"{float(hz) / 1e6:.6f}".rstrip("0").rstrip(".")


class Clocking(wiring.Component):
    """PLL of a board.

    Members
    -------
    source: in
        The board's oscillator.
    clock: out
        Output of the PLL; undefined until `locked`.
    early: out
        Clock for an SDRAM, driven if the parameter `early` is set. Its edges precede those of
        `clock` by up to an eighth of a cycle, but by at least one VCO cycle. With a gear of two, it
        is twice as fast as `clock` and offset by half of its own cycle.
    locked: out
        The PLL has locked; asynchronous.
    """

    def __init__(self, family: str, pll: Pll, early: bool = False, gear: int = 1):
        self._family, self._pll, self._early, self._gear = family, pll, early, gear
        super().__init__({"source": In(1), "clock": Out(1), "early": Out(1), "locked": Out(1)})

    def elaborate(self, platform):
        """Return the module: the PLL of the device's family."""
        m = Module()
        make = _INSTANCES[self._family]
        others = {"early": self.early} if self._early else {}
        if self._gear > 1:
            others["gear"] = self._gear
        m.submodules.pll = make(self._pll, self.source, self.clock, self.locked, **others)
        return m


class Reset(wiring.Component):
    """Hold the reset until the PLL has locked and for `LENGTH` cycles more.

    If the PLL loses its lock while the clock still runs, the reset is asserted within four cycles.

    Members
    -------
    locked: in
        The PLL has locked; may change asynchronously.
    reset: out
        Reset of the design: synchronous to the clock, high from power-up.
    """

    #: Length in cycles; the engine requires two.
    LENGTH = 8

    def __init__(self):
        super().__init__({"locked": In(1), "reset": Out(1, init=1)})

    def elaborate(self, platform):
        """Return the module: a synchroniser of the PLL's lock signal, and a counter."""
        m = Module()
        unlocked = Signal(init=1)
        left = Signal(range(self.LENGTH), init=self.LENGTH - 1)
        m.submodules.sync = AsyncFFSynchronizer(~self.locked, unlocked)
        with m.If(unlocked):
            m.d.sync += [left.eq(self.LENGTH - 1), self.reset.eq(1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += self.reset.eq(0)
        return m
