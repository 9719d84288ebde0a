"""Repeats a failed check, and records waves of the run that fails."""

import ctypes
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matloom.arch.config import Config
from matloom.arch.csr import register
from matloom.arch.memory import load_memory
from matloom.coverage.coverage import Coverage
from matloom.device.covered import CoveredTransport
from matloom.device.rtl import MemoryTiming, RtlTransport
from matloom.device.waves import Waves
from matloom.errors import UserError
from matloom.verification.checks import CHECKS, check_stream
from matloom.verification.pair import Pair
from matloom.verification.steered import steered_streams

#: Name of the check of steered streams, which is identified by a seed and a stream's index.
_STEERED_CHECK = "coverage"

_CONTROL, _START = register("CONTROL").offset, 1


def memory_bytes(config: Config) -> int:
    """Return the bytes of memory for commands, and for three regions as large as the scratchpad."""
    return max(1 << 22, 4 * (config.spad_bytes + (1 << 16)))


def timing_of(stall: str, seed: int) -> MemoryTiming:
    """Return the memory timing for a kind of stall, one of `coverage.model.STALLS`."""
    return {
        "steady": MemoryTiming(),
        "withheld": MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=seed),
        "slow": MemoryTiming(memory=load_memory("sdram-16")),
    }[stall]


def how_to_replay(check: str, seed: int, number: int | None, source: str) -> list[str]:
    """Return a sentence and the command that repeats a failed check, or stream `number` of it.

    `number` is the index of a steered stream, None for other checks; `source` is the configuration
    as the user gave it.
    """
    replay_text = f"{check}:{seed}" if number is None else f"{check}:{seed}:{number}"
    words = ["matloom", "replay", replay_text, "--config", source, "--waves", "failing.vcd"]
    return ["it fails again, and leaves waves of the run that fails, by:", shlex.join(words)]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A check to repeat: name and seed, and for steered streams the index of the failing one."""

    check: str
    seed: int
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> "Replay":
        """Parse ``CHECK:SEED`` or ``coverage:SEED:NUMBER``; raise `UserError` for other texts."""
        check, *numbers = text.split(":")
        known = {**dict.fromkeys(CHECKS, 1), _STEERED_CHECK: 2}
        if known.get(check) != len(numbers) or not all(each.isdecimal() for each in numbers):
            raise UserError(
                f"a check must be {', '.join(CHECKS)} with :SEED, or {_STEERED_CHECK}:SEED:NUMBER, "
                f"not {text!r}",
                hint="use the command that the report of matloom verify prints",
            )
        return cls(check=check, seed=int(numbers[0]), number=int(numbers[-1]))


class _Traced(RtlTransport):
    """A simulated chip that counts its runs, and records waves from run `first_run` on.

    Runs are counted from 1; no waves are recorded if `waves` is None.
    """

    def __init__(self, config: Config, waves: Path | None, first_run: int) -> None:
        self.runs, self._first_run = 0, first_run
        self._planned_waves = None if waves is None else Waves.of(waves)
        super().__init__(config, memory_bytes(config), check_bus=True)

    def _load(
        self, config: Config, trace: str, on_line: Callable[[str], None] | None
    ) -> ctypes.CDLL:
        """Load the simulated chip, prepared to record waves later if asked for."""
        return super()._load(
            config, self._planned_waves.format if self._planned_waves else "", on_line
        )

    def write32(self, address: int, value: int) -> None:
        """Write a register; count the runs this starts, and record waves from `first_run` on."""
        if (address, value) == (_CONTROL, _START):
            self.runs += 1
            if self._planned_waves is not None and self.runs == self._first_run:
                self._start_waves(self._planned_waves)
        super().write32(address, value)


def replay(config: Config, failure: Replay, waves: Path | None, say: Callable[[str], None]) -> None:
    """Repeat a check from its initial state; raise what the check raises.

    If it fails and `waves` is given, it runs once more, and waves are recorded there from the
    failing run on.
    """
    body = (
        _steered_check(config, failure, say) if failure.check == _STEERED_CHECK else _check(failure)
    )
    chip = _Traced(config, None, 0)
    try:
        body(Pair.start(chip, config))
    # Whatever a check raises is its failure: a mismatch, a fault, a time-out.
    except Exception as error:
        if waves is None:
            raise
        say(f"run {chip.runs} failed: {error}")
    else:
        return
    finally:
        chip.close()
    say(f"once more, with waves of run {chip.runs}")
    chip = _Traced(config, waves, chip.runs)
    try:
        body(Pair.start(chip, config))
    finally:
        chip.close()


def _check(failure: Replay) -> Callable[[Pair], object]:
    """Return a function that runs a check with its seed on a chip and model."""
    return lambda pair: CHECKS[failure.check](pair, failure.seed)


def _steered_check(
    config: Config, failure: Replay, say: Callable[[str], None]
) -> Callable[[Pair], None]:
    """Return a function that runs the failed stream of those that aim at missing coverage.

    Such a stream depends on the coverage of earlier ones, so these are run first.
    """
    chip = CoveredTransport(config, memory_bytes(config), check_bus=True, state_seed=failure.seed)
    coverage, pair = Coverage(config), Pair.start(chip, config)
    chip.coverage = coverage
    for number, steered in enumerate(steered_streams(coverage, failure.seed)):
        if number == failure.number:
            break
        if number % 20 == 0:
            say(f"drawing stream {number} of {failure.number}")
        chip.set_timing(timing_of(steered.stall, number))
        check_stream(pair, steered.stream, number)
        chip.count()
    chip.close()

    def body(pair: Pair) -> None:
        """Run the failed stream on chip and model, with its memory stalls."""
        pair.chip.set_timing(timing_of(steered.stall, failure.number))
        check_stream(pair, steered.stream, failure.number)

    return body
