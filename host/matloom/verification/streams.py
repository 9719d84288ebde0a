"""Runs random checks of a chip as independent tasks, on one or several processes."""

import random
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from matloom.arch.config import Config
from matloom.coverage.coverage import Coverage
from matloom.device.covered import CoveredTransport
from matloom.verification.checks import CHECKS
from matloom.verification.pair import Pair
from matloom.verification.replays import memory_bytes
from matloom.workers import TaskRunner

#: Names of the checks of one round, which is repeated without end.
_ROUND_OF_CHECKS = ("streams", "streams", "corrupted", "streams", "refusals", "layers")

#: Number of checks that always run: one round, so that each kind runs at least once.
MIN_CHECKS = len(_ROUND_OF_CHECKS)

#: Number of lines of a traceback in a report.
_TRACEBACK_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check to run: its name in `CHECKS`, and its seed.

    `state_seed` determines the random contents of the simulated chip's memories at the start.
    """

    config: Config
    state_seed: int
    name: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """Outcome of a check: counts, coverage and, if it failed, the error.

    `error` is empty if the check passed; otherwise, `lines` are the end of the traceback.
    """

    check: Check
    counts: Counter[str]
    covered: Coverage
    error: str = ""
    lines: tuple[str, ...] = ()


#: The open chip of this process, by configuration and state seed; at most one.
_chips: dict[tuple[Config, int], CoveredTransport] = {}


def open_chip(config: Config, state_seed: int) -> CoveredTransport:
    """Return the simulated chip with bus monitor and probes; build it if it is not cached.

    A process has one chip open: repeated calls return the same one, and a call with other arguments
    closes it first.
    """
    key = config, state_seed
    if key not in _chips:
        close_chip()
        _chips[key] = CoveredTransport(
            config, memory_bytes(config), check_bus=True, state_seed=state_seed
        )
    return _chips[key]


def close_chip() -> None:
    """Close the chip of this process, if there is one."""
    while _chips:
        _key, chip = _chips.popitem()
        chip.close()


def _run_check(check: Check) -> CheckOutcome:
    """Run a check on the chip of this process and on the functional model; return its outcome."""
    chip = open_chip(check.config, check.state_seed)
    chip.coverage = Coverage(check.config)
    counts, error, lines = Counter[str](), "", list[str]()
    try:
        counts = CHECKS[check.name](Pair.start(chip, check.config), check.seed)
        chip.count()
    except Exception as failed:  # A faulty chip may raise anything.
        error = f"{type(failed).__name__}: {failed}"
        lines = traceback.format_exc().splitlines()[-_TRACEBACK_LINES:]
    return CheckOutcome(
        check=check, counts=counts, covered=chip.coverage, error=error, lines=tuple(lines)
    )


def run_checks(config: Config, seed: int, tasks: TaskRunner) -> Iterator[CheckOutcome]:
    """Yield the outcomes of checks without end, in the order of the checks.

    The kinds of checks follow in a fixed order; `seed` determines the seed of each.
    """
    draw = random.Random(seed)
    checks = (
        Check(
            config=config,
            state_seed=seed,
            name=_ROUND_OF_CHECKS[number % len(_ROUND_OF_CHECKS)],
            seed=draw.getrandbits(32),
        )
        for number in count()
    )
    return tasks.in_order(_run_check, checks)
