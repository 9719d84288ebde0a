"""Plans a verification: which steps are possible here, their estimated time, and their order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from matloom.arch.config import Config
from matloom.toolchain.find_verilator import find_verilator
from matloom.toolchain.process import ToolError
from matloom.verification.regression import why_no_regression
from matloom.verification.verdicts import STEPS, Verification

#: Steps that need the simulated chip.
ON_CHIP = ("coverage", "streams")

#: Reason for skipping a step that was not requested.
_LEFT_OUT = "left out by --only"

#: Number of multipliers of configuration `nano`, for which times were measured.
_NANO_MULTIPLIERS = 16

#: Seconds per coverage point of `nano`, on an idle core. The time is assumed to grow in proportion
#: to the multipliers: 40 s for `nano`, 12 minutes for `reference`.
_POINT_SECONDS = 0.011

#: Seconds for building and running the testbenches of `nano`. The time is assumed to grow with the
#: square root of the multipliers.
_TESTBENCH_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True)
class Prover:
    """Functions that prove formal properties of a chip, and estimate the seconds they take.

    Members
    -------
    run:
        Proves as many claims as possible within some minutes: `matloom_rtl.formal.run`.
    expected:
        Returns the approximate seconds that all claims take.
    """

    run: Callable[..., list[Any]]
    expected: Callable[[Config], float]


def why_no_simulator() -> str:
    """Return why Verilator cannot be used here; an empty string if it can."""
    try:
        find_verilator()
    except ToolError as error:
        return str(error)
    return ""


def why_not_run(verification: Verification, prover: Prover | str) -> dict[str, str]:
    """Return why each step cannot be run, by name of the step; an empty string if it can."""
    no_simulator = why_no_simulator()
    found = dict.fromkeys(STEPS, no_simulator)
    found["regression"] = no_simulator or why_no_regression()
    found["proofs"] = prover if isinstance(prover, str) else ""
    only = set(verification.only or STEPS)
    if only & set(ON_CHIP):
        only.add("simulator")
    return {name: found[name] if name in only else _LEFT_OUT for name in STEPS}


def expected_seconds(
    verification: Verification, prover: Prover | str, why_not: Mapping[str, str]
) -> dict[str, float]:
    """Return the estimated seconds of each step that can be run and has an end, by name."""
    config, expected = verification.config, {}
    size = max(1.0, config.rows * config.columns / _NANO_MULTIPLIERS)
    if not why_not["coverage"]:
        points = sum(map(len, verification.coverage.model.points.values()))
        expected["coverage"] = _POINT_SECONDS * points * size
    if not why_not["regression"]:
        expected["regression"] = _TESTBENCH_SECONDS * size**0.5
    if not why_not["proofs"] and isinstance(prover, Prover):
        expected["proofs"] = prover.expected(config)
    return expected


def position_of(name: str, expected: Mapping[str, float]) -> tuple[int, float]:
    """Return a key that sorts steps: Verilog, simulator, the others by estimate, streams last."""
    if name in ("verilog", "simulator"):
        return STEPS.index(name), 0.0
    return (3, 0.0) if name == "streams" else (2, expected.get(name, 0.0))
