"""PLL dividers of three families: finds the allowed settings whose clock is closest to a target."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

from matloom.errors import UserError

__all__ = [
    "ECP5_RULES",
    "GW2A_RULES",
    "XC7_RULES",
    "OscillatorPll",
    "OtherOutputPll",
    "Pll",
    "PllRules",
    "choose",
    "obeys_rules",
]


@dataclass(frozen=True, kw_only=True)
class PllRules:
    """Limits of a PLL's settings. Frequencies in Hz, limits included.

    Members
    -------
    name:
        Name for messages.
    input_dividers, feedback_dividers, output_dividers:
        Dividers that exist.
    input_hz, detector_hz, oscillator_hz, output_hz:
        Minimum and maximum of the input, the phase detector, the oscillator (VCO) and the output.
    plls:
        Possible sources of the feedback, the best first: the output (`Pll`), the oscillator
        (`OscillatorPll`), or another output (`OtherOutputPll`).
    """

    name: str
    input_dividers: range
    feedback_dividers: range
    output_dividers: tuple[int, ...]
    input_hz: tuple[int, int]
    detector_hz: tuple[int, int]
    oscillator_hz: tuple[int, int]
    output_hz: tuple[int, int]
    plls: "tuple[type[Pll], ...]"


@dataclass(frozen=True, kw_only=True)
class Pll:
    """Settings of a PLL with feedback from its output.

    output = input / `input_divider` * `feedback_divider`; VCO = output * `output_divider`.
    """

    input_hz: int
    input_divider: int
    feedback_divider: int
    output_divider: int

    @classmethod
    def of(cls, multiple: int, settings: dict[str, int], rules: PllRules) -> "Pll | None":
        """Return settings with the feedback divider `multiple`, or None if they break a rule."""
        pll = cls(feedback_divider=multiple, **settings)
        return pll if obeys_rules(pll, rules) else None

    @property
    def detector_hz(self) -> Fraction:
        """Frequency at the phase detector."""
        return Fraction(self.input_hz, self.input_divider)

    @staticmethod
    def multiple(target: Fraction, detector: Fraction, output_divider: int) -> Fraction:
        """Return the feedback divider, maybe a fraction, for an output of exactly `target`."""
        return target / detector

    @property
    def output_hz(self) -> Fraction:
        """Output frequency."""
        return self.detector_hz * self.feedback_divider

    @property
    def oscillator_hz(self) -> Fraction:
        """Frequency of the oscillator (VCO)."""
        return self.output_hz * self.output_divider


@dataclass(frozen=True, kw_only=True)
class OscillatorPll(Pll):
    """Settings of a PLL with feedback from its oscillator.

    VCO = input / `input_divider` * `feedback_divider`; output = VCO / `output_divider`.
    """

    @staticmethod
    def multiple(target: Fraction, detector: Fraction, output_divider: int) -> Fraction:
        """Return the feedback divider, maybe a fraction, for an output of exactly `target`."""
        return target * output_divider / detector

    @property
    def oscillator_hz(self) -> Fraction:
        """Frequency of the oscillator (VCO)."""
        return self.detector_hz * self.feedback_divider

    @property
    def output_hz(self) -> Fraction:
        """Output frequency."""
        return self.oscillator_hz / self.output_divider


@dataclass(frozen=True, kw_only=True)
class OtherOutputPll(OscillatorPll):
    """Settings of a PLL with feedback from an otherwise unused output.

    That output = input / `input_divider` * `feedback_divider`; VCO = that output *
    `feedback_output`; clock = VCO / `output_divider`.
    """

    feedback_output: int

    @classmethod
    def of(cls, multiple: int, settings: dict[str, int], rules: PllRules) -> Pll | None:
        """Return settings whose VCO has `multiple` times the detector's frequency, or None.

        None means that no such settings obey the rules.
        """
        oscillator = Fraction(settings["input_hz"], settings["input_divider"]) * multiple
        if not _inside(oscillator, rules.oscillator_hz):
            return None
        for divider in rules.output_dividers:
            feedback, rest = divmod(multiple, divider)
            pll = cls(feedback_divider=feedback, feedback_output=divider, **settings)
            # The feedback is an output, so its limits apply too.
            fed = _inside(oscillator / divider, rules.output_hz)
            if not rest and fed and obeys_rules(pll, rules):
                return pll
        return None

    @property
    def oscillator_hz(self) -> Fraction:
        """Frequency of the oscillator (VCO)."""
        return self.detector_hz * self.feedback_divider * self.feedback_output


#: EHXPLLL, with CLKOP both as feedback and as clock if possible (data sheet FPGA-DS-02012, sysCLOCK
#: PLL timing). The phase detector is limited to the range of the inputs; `ecppll` goes down to
#: 3.125 MHz.
ECP5_RULES = PllRules(
    name="ECP5",
    input_dividers=range(1, 129),
    feedback_dividers=range(1, 129),
    output_dividers=tuple(range(1, 129)),
    input_hz=(8_000_000, 400_000_000),
    detector_hz=(8_000_000, 400_000_000),
    oscillator_hz=(400_000_000, 800_000_000),
    output_hz=(10_000_000, 400_000_000),
    plls=(Pll, OtherOutputPll),
)

#: rPLL of a GW2A or GW2AR, grade C8/I7 (data sheet DS226).
GW2A_RULES = PllRules(
    name="GW2A",
    input_dividers=range(1, 65),
    feedback_dividers=range(1, 65),
    output_dividers=(2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128),
    input_hz=(3_000_000, 500_000_000),
    detector_hz=(3_000_000, 500_000_000),
    oscillator_hz=(500_000_000, 1_250_000_000),
    output_hz=(3_906_250, 625_000_000),
    plls=(Pll,),
)

#: PLLE2_BASE of an Artix-7, grades 1 and 1L: ranges of the dividers by UG472, of the frequencies by
#: the data sheet DS181.
XC7_RULES = PllRules(
    name="Artix-7",
    input_dividers=range(1, 57),
    feedback_dividers=range(2, 65),
    output_dividers=tuple(range(1, 129)),
    input_hz=(19_000_000, 800_000_000),
    detector_hz=(19_000_000, 450_000_000),
    oscillator_hz=(800_000_000, 1_600_000_000),
    output_hz=(6_250_000, 800_000_000),
    plls=(OscillatorPll,),
)


def _inside(value: Fraction | int, limits: tuple[int, int]) -> bool:
    """Return whether a value is within limits, both included."""
    return limits[0] <= value <= limits[1]


def obeys_rules(pll: Pll, rules: PllRules) -> bool:
    """Return whether settings obey all rules."""
    return (
        pll.input_divider in rules.input_dividers
        and pll.feedback_divider in rules.feedback_dividers
        and pll.output_divider in rules.output_dividers
        and _inside(pll.input_hz, rules.input_hz)
        and _inside(pll.detector_hz, rules.detector_hz)
        and _inside(pll.oscillator_hz, rules.oscillator_hz)
        and _inside(pll.output_hz, rules.output_hz)
    )


def _candidates(input_hz: int, target: Fraction, rules: PllRules, kind: type[Pll]) -> Iterator[Pll]:
    """Yield, for each input and output divider, the allowed settings whose clocks enclose `target`.

    One clock is at most `target`, the other above; settings that break a rule are left out.
    """
    for divider in rules.input_dividers:
        detector = Fraction(input_hz, divider)
        if not _inside(detector, rules.detector_hz):
            continue
        for output in rules.output_dividers:
            settings = {"input_hz": input_hz, "input_divider": divider, "output_divider": output}
            near = int(kind.multiple(target, detector, output))
            for multiple in (near, near + 1):
                pll = kind.of(multiple, settings, rules) if multiple else None
                if pll:
                    yield pll


def choose(input_hz: int, wanted_hz: int, rules: PllRules, tolerance: float = 0.02) -> Pll:
    """Return the settings whose clock is closest to the wanted one.

    Among equally close settings, the earlier kind of feedback wins, then the fastest phase
    detector, which has the least jitter, then the oscillator closest to the middle of its range.

    Raises
    ------
    ValueError
        No allowed settings are within the tolerance, a fraction of the wanted clock.
    """
    wanted, middle = Fraction(wanted_hz), sum(rules.oscillator_hz) / 2
    best = min(
        chain.from_iterable(_candidates(input_hz, wanted, rules, kind) for kind in rules.plls),
        key=lambda pll: (
            abs(pll.output_hz - wanted),
            rules.plls.index(type(pll)),
            pll.input_divider,
            abs(pll.oscillator_hz - middle),
        ),
        default=None,
    )
    if best is None or abs(best.output_hz - wanted) > tolerance * wanted:
        nearest = f"; the nearest is {float(best.output_hz) / 1e6:.3f} MHz" if best else ""
        raise UserError(
            f"clock must be one that a PLL of the {rules.name} makes from "
            f"{input_hz / 1e6:g} MHz, within {tolerance:.0%}, not {wanted_hz / 1e6:g} MHz{nearest}",
            hint="choose another clock: --freq MHZ, or clock_hz in the board's file",
        )
    return best
