"""Runs unit tests on one mutant, in a child process that has everything else imported already."""

import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, replace

import pytest

from mutation.units import ROOT, RTL

#: Modules that the hardware's do not change.
_LOADED = (
    *("amaranth.back.rtlil", "amaranth.lib.fifo", "amaranth.sim", "numpy"),
    "matloom.verification.random_programs",
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a mutant under the tests.

    `verdict` is "killed", "survived", "timeout" (killed, because its tests took too long) or
    "invalid" (it is not valid hardware, whatever the tests say). `by` is the test that failed, and
    `reason` the first line of the error. `seconds` has the time of each test, `cpu` that of all.
    """

    verdict: str
    by: str = ""
    reason: str = ""
    seconds: dict[str, float]
    cpu: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A mutant, the test files to run on it, and how long they took before.

    `known` has the seconds of each test; `limit` is the processor time of all of them, in seconds.
    """

    unit: str
    source: str | None
    files: tuple[str, ...]
    known: dict[str, float]
    limit: int


class _Source(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that replaces the source text of one module."""

    def __init__(self, unit: str, source: str):
        self._module, self._source = f"matloom_rtl.{unit.replace('/', '.')}", source
        self._path = str(RTL / f"{unit}.py")

    def find_spec(self, name, path, target=None):
        """Return this importer as the loader of the replaced module; None for other modules."""
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module):
        """Execute the replaced source text as the module."""
        exec(compile(self._source, self._path, "exec"), module.__dict__)


class _Watch:
    """Pytest plugin that runs quick tests first, and records their outcome and durations."""

    def __init__(self, seconds: dict[str, float]):
        self._known, self.outcome = seconds, {"verdict": "survived", "seconds": {}}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Sort tests by duration, and one case of each test function before further cases."""
        items.sort(key=lambda item: self._known.get(item.nodeid, 0.5))
        seen, rounds = Counter(), {}
        for item in items:
            function = item.nodeid.partition("[")[0]
            rounds[item.nodeid] = seen[function]
            seen[function] += 1
        items.sort(key=lambda item: rounds[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Record the duration of a test, and whether it fails."""
        if call.when == "call":
            self.outcome["seconds"][item.nodeid] = round(call.duration, 3)
        if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
            self._fail(item.nodeid, call.excinfo.value)
        return (yield)

    def pytest_collectreport(self, report):
        """Record that a test file cannot be imported: such a mutant is invalid."""
        if report.failed:
            self.outcome |= {"verdict": "invalid", "by": report.nodeid}
            self.outcome["reason"] = str(report.longrepr).strip().splitlines()[-1]

    def _fail(self, test: str, error: BaseException):
        """Record that a test failed, with its error: the mutant is killed, or invalid."""
        verdict = "invalid" if _is_construction(error) else "killed"
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        self.outcome |= {"verdict": verdict, "by": test, "reason": reason}


def _is_construction(error: BaseException) -> bool:
    """Return whether an error occurred while hardware was built, not while it ran."""
    if isinstance(error, AssertionError):
        return False
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = (each for each in places if each.startswith(str(RTL)) and "testing" not in each)
    return any(ours) or any(each.endswith("amaranth/hdl/_ir.py") for each in places)


def try_mutant(trial: Trial) -> Outcome:
    """Run a trial's test files, one by one until a test fails, in a process; return the outcome."""
    # Loaded for the children, which find them done.
    for name in _LOADED:
        importlib.import_module(name)
    seconds, cpu = dict[str, float](), 0.0
    for file in trial.files:
        outcome = run_tests(trial.unit, trial.source, [file], trial.known, trial.limit)
        cpu += outcome.cpu
        seconds |= {test: each for test, each in outcome.seconds.items() if test != outcome.by}
        if outcome.verdict != "survived":
            break
    return replace(outcome, cpu=round(cpu, 1), seconds=seconds)


def run_tests(
    unit: str, source: str | None, tests: list[str], known: dict[str, float], limit: int
) -> Outcome:
    """Run tests until one fails, with `source` as a unit's text; return the outcome.

    The modules of the hardware must not have been imported here. `known` has the seconds of tests;
    `limit` is processor time in seconds.
    """
    with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile() as noise:
        child = os.fork()
        if child == 0:
            _work(unit, source, tests, known, limit, answer, noise)
        _pid, status, usage = os.wait4(child, 0)
        answer.seek(0)
        text = answer.read()
    cpu = round(usage.ru_utime + usage.ru_stime, 1)
    if text:
        return Outcome(**json.loads(text), cpu=cpu)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return Outcome(verdict="timeout", reason=f"beyond {limit} s", seconds={}, cpu=cpu)
    raise RuntimeError(f"the tests of {unit} ended with status {status} and no answer")


def _work(unit, source, tests, seconds_of, limit, answer, noise):
    """Run the tests in the child process, and write the outcome to `answer`; never return."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        os.dup2(noise.fileno(), 1)
        os.dup2(noise.fileno(), 2)
        os.chdir(ROOT)
        if source is not None:
            sys.meta_path.insert(0, _Source(unit, source))
        watch = _Watch(seconds_of)
        quiet = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
        pytest.main([*quiet, *tests], plugins=[watch])
        answer.write(json.dumps(watch.outcome))
        answer.flush()
        code = 0
    finally:
        os._exit(code)


def as_record(outcome: Outcome) -> dict:
    """Return the entries of an outcome that are stored in the report."""
    record = asdict(outcome)
    del record["seconds"]
    return {name: value for name, value in record.items() if value != ""}
