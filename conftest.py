"""Settings of all test runs: a printed, replayable seed, checked buses, and warnings as errors."""

import os
import secrets
from pathlib import Path

import pytest

ROOT = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption(
        "--seed",
        default="0",
        help='seed of the random tests: a number, or "random" (default: 0)',
    )


def pytest_configure(config):
    """Settle the seed once: worker processes receive the number, not the word.

    Programs are not checked when they are compiled: most tests compare results themselves.
    Every chip that a test simulates is held against the bus rules, unless someone said otherwise.
    """
    os.environ["MATLOOM_CHECK"] = "none"
    os.environ.setdefault("MATLOOM_CHECK_BUS", "1")
    seed = config.option.seed
    if seed == "random":
        seed = secrets.randbelow(2**32)
    try:
        config.option.seed = int(seed)
    except ValueError:
        raise pytest.UsageError(f'--seed must be a number or "random", not {seed!r}') from None


def pytest_report_header(config):
    return f"seed: {config.option.seed}"


@pytest.fixture
def seed(request):
    """The seed of this run; printed, so that a failure's report shows it."""
    number = request.config.option.seed
    print(f"--seed={number}")
    return number


def pytest_collection_modifyitems(items):
    """Let cocotb and its libraries warn: they are not ours to mend."""
    for item in items:
        if item.path.is_relative_to(ROOT / "sim_tests"):
            item.add_marker(pytest.mark.filterwarnings("default"))
