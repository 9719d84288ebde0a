"""Random checks of a chip, as independent tasks: each is determined by configuration and seed."""

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
from matloom.workers import Tasks

#: Weight with which each check is chosen.
_WEIGHTED_CHECKS = ("streams", "streams", "corrupted", "streams", "refusals", "layers")

#: Checks that always run: at least one of each kind.
MIN_CHECKS = len(_WEIGHTED_CHECKS)

#: Number of lines of a traceback in a report.
_TRACEBACK_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of a chip; `state_seed` fills the simulated chip's memories."""

    config: Config
    state_seed: int
    name: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """Counts and coverage of a check; `error` is empty if it passed, else `lines` say where."""

    check: Check
    counts: Counter[str]
    covered: Coverage
    error: str = ""
    lines: tuple[str, ...] = ()


#: The chip of this process.
_chips: dict[tuple[Config, int], CoveredTransport] = {}


def open_chip(config: Config, state_seed: int) -> CoveredTransport:
    """Return the simulated chip with bus monitor and probes, built if it is not cached.

    A process has one; another is closed first.
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


def _run(check: Check) -> CheckOutcome:
    """Run a check on the chip of this process and on the functional model."""
    chip = open_chip(check.config, check.state_seed)
    chip.coverage = Coverage(check.config)
    counts, error, lines = Counter[str](), "", list[str]()
    try:
        counts = CHECKS[check.name](Pair.of(chip, check.config), check.seed)
        chip.count()
    except Exception as failed:  # A faulty chip may raise anything.
        error = f"{type(failed).__name__}: {failed}"
        lines = traceback.format_exc().splitlines()[-_TRACEBACK_LINES:]
    return CheckOutcome(
        check=check, counts=counts, covered=chip.coverage, error=error, lines=tuple(lines)
    )


def run_checks(config: Config, seed: int, tasks: Tasks) -> Iterator[CheckOutcome]:
    """Return the outcomes of checks without end, in the order in which a seed draws them."""
    draw = random.Random(seed)
    checks = (
        Check(
            config=config,
            state_seed=seed,
            name=_WEIGHTED_CHECKS[number % len(_WEIGHTED_CHECKS)],
            seed=draw.getrandbits(32),
        )
        for number in count()
    )
    return tasks.in_order(_run, checks)
