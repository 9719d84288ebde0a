"""The cocotb regression as a step of a verification."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import matloom

#: Folder of the testbenches, which exists only in a clone of the repository.
_BENCHES = Path(matloom.__file__).parents[2] / "sim_tests"

#: Number of the last lines of output that `Outcome.lines` keeps.
_KEPT_LINES = 40


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of the regression: whether it passed, and how many testbenches did.

    `passed` is None if time ran out before any testbench failed. `testbenches` is the number of
    all, and `done` of those that passed or were skipped.
    """

    passed: bool | None
    summary: str
    lines: tuple[str, ...]
    done: int = 0
    testbenches: int = 0


def why_no_regression() -> str:
    """Return why the regression cannot run here; an empty string if it can."""
    if not (_BENCHES / "test_chip.py").is_file():
        return "the testbenches, sim_tests/, are in a clone of the project only"
    missing = [
        name for name in ("cocotb", "cocotb_tools", "pytest") if not importlib.util.find_spec(name)
    ]
    return f"{' and '.join(missing)} must be installed" if missing else ""


def regression(config: Path, seconds: float) -> Outcome:
    """Run all testbenches for a configuration file; kill them after `seconds`."""
    command = [sys.executable, "-u", "-m", "pytest", "-v", "-m", "", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, str(_BENCHES)],
        cwd=_BENCHES.parent,
        env={**os.environ, "MATLOOM_CONFIG": str(config.absolute())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Ends its simulators, too.
        start_new_session=True,
    )
    with process:
        try:
            output, _nothing = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _nothing = process.communicate()
            return _parse_outcome(None, output)
        except BaseException:
            # An interruption from the terminal does not reach a separate session.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return _parse_outcome(process.returncode == 0, output)


def _parse_outcome(passed: bool | None, output: str) -> Outcome:
    """Return the outcome that the output of pytest shows; `passed` is None if time ran out."""
    lines = tuple(line for line in output.splitlines() if line.strip())
    collected = re.search(r"collected (\d+) item", output)
    total = int(collected[1]) if collected else 0
    done = len(re.findall(r" (?:PASSED|SKIPPED) +\[", output))
    if passed is None and re.search(r" (?:FAILED|ERROR) +\[", output):
        passed = False
    summary = lines[-1].strip("= ") if lines else "no output"
    if passed is None:
        summary = f"{done} of {total} testbenches passed; no time was left for the rest"
    return Outcome(
        passed=passed, summary=summary, lines=lines[-_KEPT_LINES:], done=done, testbenches=total
    )
