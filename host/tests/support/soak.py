"""Runs random checks with new seeds for some time, and keeps failing ones for replay.

``python -m support.soak --seconds 600``, or ``make soak SECONDS=600``.
"""

import json
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from matloom.arch.config import Config, load_config
from matloom.device.rtl import RtlTransport
from matloom.verification.checks import CHECKS
from matloom.verification.pair import MEMORY_BYTES, Pair
from support.configs import random_config

__all__ = ["FailedSeed", "failed_seeds", "replay"]

#: Seconds after which another random configuration is drawn.
_CONFIG_SECONDS = 300.0

#: Seconds below which there is no time to build more than the smallest engine.
_BUILD_SECONDS = 600.0

#: How often each check is chosen.
_SHARES = {"streams": 6, "corrupted": 2, "refusals": 1, "layers": 1}


@dataclass(frozen=True, kw_only=True)
class FailedSeed:
    """A check that failed once: its name in `CHECKS`, configuration, and seed."""

    check: str
    config: Config
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"check": self.check, "seed": self.seed, "config": self.config.as_dict()}


def failed_seeds(path: Path) -> list[FailedSeed]:
    """Return the seeds kept in a file; raise ValueError if it is not valid JSON."""
    return [
        FailedSeed(
            check=each["check"],
            seed=each["seed"],
            config=Config.from_json(json.dumps(each["config"])),
        )
        for each in json.loads(path.read_text())
    ]


def _keep(path: Path, failed: FailedSeed) -> None:
    kept = failed_seeds(path) if path.exists() else []
    if failed not in kept:
        lines = ",\n".join(json.dumps(each.as_dict()) for each in (*kept, failed))
        path.write_text(f"[\n{lines}\n]\n")


def replay(chip: RtlTransport, failed: FailedSeed) -> Counter[str]:
    """Run one check from its initial state; return its counts, and raise its error."""
    return CHECKS[failed.check](Pair.start(chip, failed.config), failed.seed)


def _draw(generator: random.Random, config: Config, checks: tuple[str, ...]) -> FailedSeed:
    (check,) = generator.choices(checks, [_SHARES[name] for name in checks])
    return FailedSeed(check=check, config=config, seed=generator.getrandbits(32))


def _configs(generator: random.Random, named: tuple[str, ...], seconds: float) -> Iterator[Config]:
    """Yield the named configurations, or random ones; building one may take minutes."""
    while True:
        if named:
            yield from map(load_config, named)
        elif seconds < _BUILD_SECONDS:
            yield load_config("nano")
        else:
            yield random_config(generator)


class _OverError(BaseException):
    """Time is up; not an OSError like TimeoutError, which the cache would report as its own."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise `_OverError` if the block takes longer; this ends the tools that it runs."""

    def over(*_signal: object) -> None:
        raise _OverError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _built(config: Config, state_seed: int, seconds: float) -> RtlTransport | None:
    """Return a chip, building its simulator if necessary; None if time is too short."""
    try:
        with _within(seconds):
            return RtlTransport(config, MEMORY_BYTES, check_bus=True, state_seed=state_seed)
    except _OverError:
        click.echo("  the time was over before its simulator was built")
        return None


@click.command()
@click.option("--seconds", default=600.0, help="Time for all checks, builds included.")
@click.option("--seed", type=int, help="Decides everything that is drawn; default: a new one.")
@click.option("--config", "named", multiple=True, help="Presets or files instead of random ones.")
@click.option("--check", "checks", multiple=True, type=click.Choice(tuple(CHECKS)))
@click.option("--config-seconds", default=_CONFIG_SECONDS, help="Time for each configuration.")
@click.option("--instructions", default=0, help="Stop with a configuration after so many.")
@click.option(
    "--keep",
    default=Path("host/tests/support/tests/failed_seeds.json"),
    type=click.Path(path_type=Path),
    help="The file of failing seeds.",
)
def main(
    seconds: float,
    seed: int | None,
    named: tuple[str, ...],
    checks: tuple[str, ...],
    config_seconds: float,
    instructions: int,
    keep: Path,
) -> None:
    """Compare chip and model on random streams, layers and corrupted streams."""
    seed = secrets.randbits(32) if seed is None else seed
    click.echo(f"--seed={seed}")
    generator = random.Random(seed)
    end, failures, ran = time.monotonic() + seconds, 0, 0
    for number, config in enumerate(_configs(generator, named, seconds)):
        if time.monotonic() >= end or (named and instructions and number >= len(named)):
            break
        click.echo(f"configuration {config.as_dict()}")
        chip = _built(config, generator.getrandbits(31), end - time.monotonic())
        if chip is None:
            break
        started = time.monotonic()
        limit = min(end, started + config_seconds)
        counts: Counter[str] = Counter()
        while time.monotonic() < limit and not 0 < instructions <= counts["instructions"]:
            drawn = _draw(generator, config, checks or tuple(CHECKS))
            failures += not _passes(chip, drawn, counts, keep)
        chip.close()
        ran += counts["checks"] + counts["failed"]
        spent = time.monotonic() - started
        click.echo(f"  {spent:.0f} s: {json.dumps(counts)}, {failures} failures so far")
    if not ran:
        click.echo(
            f"error: nothing was tested: {seconds:.0f} s were over before a simulator was built\n"
            "hint: ask for more seconds, or build it first: matloom demo --config nano",
            err=True,
        )
    raise SystemExit(failures > 0 or not ran)


def _passes(chip: RtlTransport, drawn: FailedSeed, counts: Counter[str], keep: Path) -> bool:
    """Run a check; if it fails for any reason, keep and print it."""
    try:
        counts += replay(chip, drawn)
    except Exception as error:
        click.echo(f"FAILED {drawn.check} seed {drawn.seed}: {type(error).__name__}: {error}")
        _keep(keep, drawn)
        counts["failed"] += 1
        return False
    counts["checks"] += 1
    return True


if __name__ == "__main__":
    main()
