"""Everything that a user can have checked of the chip of a configuration, within some minutes."""

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matloom.arch.config import Config
from matloom.arch.memory import load_memory
from matloom.coverage.coverage import Coverage
from matloom.device.covered import CoveredTransport
from matloom.device.rtl import MemoryTiming
from matloom.testing.checks import CHECKS, check_stream
from matloom.testing.pair import Pair
from matloom.testing.regression import regression, why_no_regression
from matloom.testing.steered import steered_streams
from matloom.testing.verdicts import FAILED, INCOMPLETE, NOT_RUN, PASSED, Step, Verification
from matloom.toolchain.process import ToolError
from matloom.toolchain.verilator import find_verilator

__all__ = ["Linter", "Prover", "verify", "why_no_simulator"]

#: The configuration, in the folder of the report.
_CONFIG_FILE = "config.json"

#: Parts of the time, of what is left when a step begins.
_SHARES = {"coverage": 3, "streams": 3, "regression": 3, "proofs": 4}

#: How often each check of random streams is chosen.
_MIX = ("streams", "streams", "corrupted", "streams", "refusals", "layers")

#: Proves claims of a configuration in some minutes: `matloom_rtl.formal.run`.
Prover = Callable[..., list[Any]]

#: Writes the Verilog of a configuration into a folder; returns a sentence on it, and what Verilator
#: complains of that is not waived.
Linter = Callable[[Config, Path], tuple[str, Sequence[object]]]


@dataclass(kw_only=True)
class _Run:
    """What the steps share."""

    verification: Verification
    end: float
    say: Callable[[str], None]
    shares: dict[str, int]
    interrupted: bool = False

    def seconds_for(self, name: str) -> float:
        """Return the seconds that a step may take; the time of those before it is gone."""
        share = self.shares[name] / sum(self.shares.values())
        del self.shares[name]
        return max(self.end - time.monotonic(), 0) * share


def verify(
    verification: Verification,
    *,
    linter: Linter,
    prover: Prover | str,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Take every step that is possible here; what is not says why in its verdict.

    An interruption ends a step, which is then INCOMPLETE; those after it are NOT RUN.

    Parameters
    ----------
    prover:
        Or why there is none.
    folder:
        For the configuration, `config.json`, and the Verilog.
    say:
        Takes lines of progress.
    """
    (folder / _CONFIG_FILE).write_text(verification.config.to_json())
    no_proofs = prover if isinstance(prover, str) else ""
    no_simulator = why_no_simulator()
    no_regression = no_simulator or why_no_regression()
    lacking = {
        **dict.fromkeys(("coverage", "streams"), no_simulator),
        **{"regression": no_regression, "proofs": no_proofs},
    }
    shares = {name: share for name, share in _SHARES.items() if not lacking[name]}
    end = time.monotonic() + 60 * verification.minutes
    run = _Run(verification=verification, end=end, say=say, shares=shares)
    _step(run, "verilog", lambda step: _verilog(run, linter, folder, step), no_simulator)
    chips: list[CoveredTransport] = []
    _step(run, "simulator", lambda step: chips.append(_build(run, step)), no_simulator)
    no_chip = no_simulator or ("" if chips else "the simulator was not built")
    _step(run, "coverage", lambda step: _coverage(run, chips[0], step), no_chip)
    _step(run, "streams", lambda step: _streams(run, chips[0], step), no_chip)
    for chip in chips:
        chip.close()
    _step(run, "regression", lambda step: _regression(run, folder, step), no_regression)
    _step(run, "proofs", lambda step: _proofs(run, prover, step), no_proofs)


def why_no_simulator() -> str:
    """Return what Verilator lacks on this machine, or an empty text."""
    try:
        find_verilator()
    except ToolError as error:
        return str(error)
    return ""


def _memory_bytes(config: Config) -> int:
    """Return room for three regions that each hold the scratchpad, and for commands."""
    return max(1 << 22, 4 * (config.spad_bytes + (1 << 16)))


def _step(run: _Run, name: str, body: Callable[[Step], None], lacking: str = "") -> None:
    """Take a step: what it raises is a failure of the chip or of the check, and told as such."""
    lacking = lacking or ("interrupted before" if run.interrupted else "")
    step = Step(name=name, detail=lacking)
    run.verification.steps.append(step)
    if not lacking:
        begun = time.monotonic()
        try:
            body(step)
        except KeyboardInterrupt:
            run.interrupted = True
            step.verdict, step.detail = INCOMPLETE, "interrupted"
        except Exception as error:
            step.lines += [f"it failed at: {step.detail}"] if step.detail else []
            step.verdict, step.detail = FAILED, f"{type(error).__name__}: {error}"
            step.lines += traceback.format_exc().splitlines()[-12:]
        step.seconds = round(time.monotonic() - begun, 1)
    run.say(f"{step.name}: {step.verdict}, {step.detail}")


def _verilog(run: _Run, linter: Linter, folder: Path, step: Step) -> None:
    """Write the Verilog and let Verilator look at it."""
    step.detail, complaints = linter(run.verification.config, folder)
    step.verdict = FAILED if complaints else PASSED
    step.lines = [str(each) for each in complaints]


def _build(run: _Run, step: Step) -> CoveredTransport:
    """Build the simulator, or take the one that was built before."""
    config, seed = run.verification.config, run.verification.seed
    run.say(f"building the simulator of {run.verification.name} with bus monitor and probes")
    chip = CoveredTransport(config, _memory_bytes(config), check_bus=True, state_seed=seed)
    chip.coverage = run.verification.coverage
    step.verdict, step.detail = PASSED, "with bus monitor and probes; it is kept for the next time"
    return chip


def _timings(seed: int) -> Mapping[str, MemoryTiming]:
    """Return a timing for each of `coverage.model.STALLS`."""
    return {
        "steady": MemoryTiming(),
        "withheld": MemoryTiming(stall_per_1024=300, latency_jitter=40, seed=seed),
        "slow": MemoryTiming(memory=load_memory("sdram-16")),
    }


def _coverage(run: _Run, chip: CoveredTransport, step: Step) -> None:
    """Run streams towards points that are missing, on chip and model, until none or no time."""
    coverage, seed = chip.coverage, run.verification.seed
    pair = Pair.of(chip, run.verification.config)
    end, told = time.monotonic() + run.seconds_for("coverage"), 0.0
    streams = 0
    step.detail = f"seed {seed}"
    for number, steered in enumerate(steered_streams(coverage, seed)):
        if time.monotonic() >= end:
            break
        step.detail = f"seed {seed}, steered stream {number}"
        chip.set_timing(_timings(number)[steered.stall])
        check_stream(pair, steered.stream, number)
        chip.count()
        streams += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            run.say(f"coverage: {_reached(coverage)}")
    step.figures = {"streams": streams, "instructions": coverage.instructions}
    step.verdict = INCOMPLETE if coverage.missing() else PASSED
    step.detail = _reached(coverage)


def _reached(coverage: Coverage) -> str:
    shares = coverage.shares().values()
    reached, declared = (sum(column) for column in zip(*shares, strict=True))
    return f"{reached} of {declared} declared points reached"


def _streams(run: _Run, chip: CoveredTransport, step: Step) -> None:
    """Run random checks with new seeds until the time is over; at least one of each kind."""
    generator = random.Random(run.verification.seed)
    told, number = time.monotonic(), 0
    end = told + run.seconds_for("streams")
    counts: Counter[str] = Counter()
    while number < len(_MIX) or time.monotonic() < end:
        check, seed = _MIX[number % len(_MIX)], generator.getrandbits(32)
        pair = Pair.of(chip, run.verification.config)
        try:
            counts += CHECKS[check](pair, seed)
        except Exception:
            step.lines += _how_to_repeat(check, seed)
            raise
        step.figures = dict(counts)
        number += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            run.say(f"streams: {dict(counts)}")
    step.verdict = PASSED
    step.detail = "chip and functional model agree, no rule of the bus was broken"


def _how_to_repeat(check: str, seed: int) -> list[str]:
    """Return the lines of Python that run one check again, from its first state."""
    return [
        f"{check} with seed {seed} failed; in the folder of this report it runs again by",
        "from matloom.arch.config import load_config",
        "from matloom.device.rtl import RtlTransport",
        "from matloom.testing import checks, pair",
        'config = load_config("config.json")',
        "chip = RtlTransport(config, pair.MEMORY_BYTES, check_bus=True)",
        f'checks.CHECKS["{check}"](pair.Pair.of(chip, config), {seed})',
        "",
    ]


def _regression(run: _Run, folder: Path, step: Step) -> None:
    """Run the cocotb testbenches."""
    outcome = regression(folder / _CONFIG_FILE, run.seconds_for("regression"))
    step.verdict = {True: PASSED, False: FAILED, None: INCOMPLETE}[outcome.passed]
    step.detail, step.lines = outcome.summary, [] if outcome.passed else list(outcome.lines)


def _proofs(run: _Run, prover: Prover | str, step: Step) -> None:
    """Prove what the time suffices for."""
    if isinstance(prover, str):
        raise ValueError(prover)
    results = prover(run.verification.config, run.seconds_for("proofs") / 60, say=run.say)
    verdicts = Counter(result.verdict for result in results)
    step.lines = [
        f"{result.verdict}: {result.unit}: {result.statement} {result.detail}".rstrip()
        for result in results
    ]
    step.detail = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    if verdicts[FAILED]:
        step.verdict = FAILED
    elif not results or set(verdicts) == {NOT_RUN}:
        step.verdict, step.detail = NOT_RUN, results[0].detail if results else "nothing to prove"
    else:
        step.verdict = PASSED if set(verdicts) == {"PROVEN"} else INCOMPLETE
