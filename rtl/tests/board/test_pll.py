"""PLLs: the nearest legal clock, compared with an exhaustive search and with another tool."""

import re
import shutil
import subprocess
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from matloom_rtl.board.pll import ECP5_RULES, GW2A_RULES, XC7_RULES, Pll, choose, obeys_rules

RULES = {"ecp5": ECP5_RULES, "gowin": GW2A_RULES}

#: Oscillators of boards, and one that divides badly.
OSCILLATORS = (12_000_000, 25_000_000, 27_000_000, 48_000_000, 33_333_000)


def reachable(input_hz, rules):
    """Return all clocks of a PLL, by trying all dividers."""
    clocks = set()
    for divide, multiply in product(rules.input_dividers, rules.feedback_dividers):
        detector = Fraction(input_hz, divide)
        clock = detector * multiply
        if not rules.detector_hz[0] <= detector <= rules.detector_hz[1]:
            continue
        if not rules.output_hz[0] <= clock <= rules.output_hz[1]:
            continue
        if any(
            rules.oscillator_hz[0] <= clock * after <= rules.oscillator_hz[1]
            for after in rules.output_dividers
        ):
            clocks.add(clock)
    return clocks


def other_clocks(input_hz, rules):
    """Return the clocks of an ECP5 PLL with feedback from another output."""
    clocks = set()
    for divide in rules.input_dividers:
        detector = Fraction(input_hz, divide)
        if detector < rules.detector_hz[0]:
            break
        fed = [n for n in rules.feedback_dividers if 10_000_000 <= detector * n <= 400_000_000]
        multiples = {n * after for n, after in product(fed, rules.output_dividers)}
        oscillators = [detector * n for n in multiples if 4e8 <= detector * n <= 8e8]
        clocks |= {clock / after for clock, after in product(oscillators, rules.output_dividers)}
    return {clock for clock in clocks if 10_000_000 <= clock <= 400_000_000}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("input_hz", OSCILLATORS)
@pytest.mark.parametrize("family", RULES)
def test_nothing_is_nearer(family, input_hz):
    rules = RULES[family]
    clocks = reachable(input_hz, rules)
    if family == "ecp5":
        clocks |= other_clocks(input_hz, rules)
    for wanted in range(30_000_000, 150_000_000, 7_300_000):
        pll = choose(input_hz, wanted, rules, tolerance=1)
        assert pll.output_hz in clocks
        assert abs(pll.output_hz - wanted) == min(abs(clock - wanted) for clock in clocks)


def test_nothing_is_nearer_on_an_artix():
    """No setting of an Artix's PLL, with feedback from its oscillator, is nearer to the target."""
    rules, clocks = XC7_RULES, set()
    detectors = [Fraction(100_000_000, divide) for divide in range(1, 6)]
    for detector, multiply, after in product(detectors, range(2, 65), range(1, 129)):
        if 800_000_000 <= detector * multiply <= 1_600_000_000:
            clocks.add(detector * multiply / after)
    for wanted in range(20_000_000, 150_000_000, 7_300_000):
        pll = choose(100_000_000, wanted, rules, tolerance=1)
        assert obeys_rules(pll, rules)
        assert abs(pll.output_hz - wanted) == min(abs(clock - wanted) for clock in clocks)
    pll = choose(100_000_000, 60_000_000, rules)
    # 100 * 12 = 1200, the middle of 800 to 1600; 1200 / 20 = 60.
    assert (pll.input_divider, pll.feedback_divider, pll.output_divider) == (1, 12, 20)
    assert (pll.oscillator_hz, pll.output_hz) == (1_200_000_000, 60_000_000)


@pytest.mark.parametrize(
    ("family", "input_hz", "wanted", "dividers"),
    [
        # 25 * 3 = 75, oscillator 75 * 8 = 600, the middle of 400 to 800.
        ("ecp5", 25_000_000, 75_000_000, (1, 3, 8)),
        # 25 * 1 = 25, oscillator 25 * 29 = 725, of which a tenth.
        ("ecp5", 25_000_000, 72_500_000, (1, 1, 10)),
        # 48 / 4 * 7 = 84, oscillator 84 * 7 = 588.
        ("ecp5", 48_000_000, 84_000_000, (4, 7, 7)),
        # 27 * 2 = 54, oscillator 54 * 16 = 864, the nearest to 875.
        ("gowin", 27_000_000, 54_000_000, (1, 2, 16)),
    ],
)
def test_by_hand(family, input_hz, wanted, dividers):
    pll = choose(input_hz, wanted, RULES[family])
    assert (pll.input_divider, pll.feedback_divider, pll.output_divider) == dividers
    assert pll.output_hz == wanted


@pytest.mark.parametrize(
    ("rules", "dividers", "input_hz"),
    [
        (ECP5_RULES, (4, 12, 8), 25_000_000),  # detector 6.25 MHz
        (ECP5_RULES, (1, 3, 5), 25_000_000),  # oscillator 375 MHz
        (ECP5_RULES, (1, 3, 11), 25_000_000),  # oscillator 825 MHz
        (ECP5_RULES, (1, 1, 60), 7_000_000),  # input 7 MHz
        (ECP5_RULES, (1, 17, 1), 25_000_000),  # output 425 MHz
        (ECP5_RULES, (1, 129, 1), 8_000_000),  # no such divider
        (GW2A_RULES, (1, 2, 12), 27_000_000),  # no such divider
        (GW2A_RULES, (1, 2, 8), 27_000_000),  # oscillator 432 MHz
    ],
)
def test_rules(rules, dividers, input_hz):
    names = ("input_divider", "feedback_divider", "output_divider")
    assert not obeys_rules(Pll(input_hz=input_hz, **dict(zip(names, dividers, strict=True))), rules)


def test_clocks_that_no_pll_makes():
    with pytest.raises(
        ValueError, match=r"PLL of the ECP5 makes from 25 MHz, within 2%, not 7 MHz"
    ):
        choose(25_000_000, 7_000_000, ECP5_RULES)
    with pytest.raises(ValueError, match=r"not 400 MHz; the nearest is 398.250 MHz"):
        choose(27_000_000, 400_000_000, ECP5_RULES, tolerance=0.001)
    with pytest.raises(ValueError, match="from 5 MHz"):
        choose(5_000_000, 80_000_000, ECP5_RULES)


def _ecppll(input_mhz, wanted_mhz, folder):
    program = Path(sys.executable).with_name("yowasp-ecppll")
    command = [str(program), "-i", str(input_mhz), "-o", str(wanted_mhz), "-f", "pll.v"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    text = (folder / "pll.v").read_text()
    numbers = [int(re.search(rf"\.{name}\((\d+)\)", text)[1]) for name in ("CLKI_DIV", "CLKFB_DIV")]
    return (*numbers, int(re.search(r"\.CLKOP_DIV\((\d+)\)", text)[1]))


@pytest.mark.slow
@pytest.mark.skipif(
    not Path(sys.executable).with_name("yowasp-ecppll").exists() and not shutil.which("ecppll"),
    reason="yowasp-ecppll is not installed (extra fpga)",
)
@pytest.mark.parametrize(("input_mhz", "wanted_mhz"), [(25, 75), (25, 90), (48, 80), (12, 66)])
def test_ecppll_finds_nothing_better(input_mhz, wanted_mhz, tmp_path):
    divide, multiply, after = _ecppll(input_mhz, wanted_mhz, tmp_path)
    other = Pll(
        input_hz=input_mhz * 1_000_000,
        input_divider=divide,
        feedback_divider=multiply,
        output_divider=after,
    )
    ours = choose(other.input_hz, wanted_mhz * 1_000_000, ECP5_RULES, tolerance=1)
    if obeys_rules(other, ECP5_RULES):
        wanted = wanted_mhz * 1_000_000
        assert abs(ours.output_hz - wanted) <= abs(other.output_hz - wanted)
    else:
        # It lets the phase detector be slower than the data sheet's slowest input.
        assert other.detector_hz < ECP5_RULES.detector_hz[0]
