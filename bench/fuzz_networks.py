"""Compiles, verifies and compares random networks on random engines, and prints failing seeds.

    python bench/fuzz_networks.py --first 0 --count 5000

Every network is compared with the interpreter of graphs; one in ten also with TensorFlow Lite
Micro; one in fifty runs on the chip in Verilator (preset nano or small); and one in fifty is
compiled again in another process, which must give the same bytes. A network that takes more than
--limit seconds of processor time is given up; the last line counts these.
"""

import signal
import time
from contextlib import closing
from pathlib import Path

import click
import numpy as np

from matloom.arch.config import PRESETS
from matloom.device.open import memory_for, open_device
from matloom.kernels.interpreter import interpret
from matloom.runtime import Session
from matloom.tools.compare import random_inputs
from support.network_campaign import (
    case_of,
    compile_case,
    digest,
    digests,
    failure_of,
    tflm_failure_of,
)

#: Every so many networks: against TensorFlow Lite Micro, on the chip, compiled in another process.
TFLM, CHIP, AGAIN = 10, 50, 50

#: Seeds that ever failed, which the tests repeat.
KEPT = Path(__file__).parents[1] / "host" / "tests" / "support" / "tests" / "network_seeds.txt"


#: Predicted cycles of a first call beyond which a network is not simulated.
LONGEST = 1_000_000


def chip_failure_of(seed: int, preset: str) -> str | None:
    """Return how the chip's results differ in three calls; None if they are equal."""
    case = case_of(seed, PRESETS[preset])
    made = compile_case(case)
    if made.program.predicted_cycles > LONGEST:
        click.echo(
            f"seed {seed} is too long for {preset}: {made.program.predicted_cycles:,} cycles"
        )
        return None
    size = memory_for(sum(made.program.region_bytes.values()))
    with closing(open_device("rtl", case.config, memory_bytes=size)) as driver:
        session = Session(made.program, driver, "rtl")
        for call in range(3):
            given = random_inputs(made.graph, call)
            named = {made.graph.tensors[at].name: array for at, array in given.items()}
            found = session.run(named)
            for at, array in interpret(made.graph, given).items():
                name = made.graph.tensors[at].name
                if not np.array_equal(found[name], array):
                    return f"on {preset}, call {call}: output {name} differs"
    return None


class GivenUp(BaseException):
    """A network took too long; not an `Exception`, which a case would report as its failure."""


def _give_up(_signal: int, _frame: object) -> None:
    raise GivenUp


def limited(seed: int, *, chip: bool, limit: float) -> list[str] | None:
    """Return `failures`, or None if they take more than `limit` seconds of processor time."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return failures(seed, chip=chip)
    except GivenUp:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def failures(seed: int, *, chip: bool) -> list[str]:
    """Return all faults that a seed shows."""
    case = case_of(seed)
    found = [failure_of(case)]
    if seed % TFLM == 0:
        found.append(tflm_failure_of(case))
    if chip and seed % CHIP == 7:
        found.append(chip_failure_of(seed, "nano" if seed % (2 * CHIP) == 7 else "small"))
    if seed % AGAIN == 3 and digests([seed], hash_seed=seed % 1000 + 1) != [digest(seed)]:
        found.append("another process compiles other bytes")
    return [text for text in found if text is not None]


@click.command()
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=100, show_default=True, help="Networks.")
@click.option("--seconds", default=0, help="Stop after so many seconds.")
@click.option("--chip/--no-chip", default=True, show_default=True, help="Run a share in Verilator.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds for a network.")
@click.option("--keep", type=click.Path(path_type=Path), default=KEPT, help="For failing seeds.")
def main(first: int, count: int, seconds: int, chip: bool, limit: float, keep: Path) -> None:
    """Run seeds FIRST to FIRST + COUNT and print those that fail.

    Exit with status 1 if any does.
    """
    signal.signal(signal.SIGPROF, _give_up)
    start, wrong, operators, long = time.time(), 0, [], []
    for seed in range(first, first + count):
        if seconds and time.time() - start > seconds:
            count = seed - first
            break
        operators.append(len(case_of(seed).graph.nodes))
        found = limited(seed, chip=chip, limit=limit)
        if found is None:
            long.append(seed)
            click.echo(f"seed {seed}: given up after {limit:g} s")
        for text in found or ():
            wrong += 1
            click.echo(f"seed {seed}: {text}")
            with keep.open("a") as stream:
                stream.write(f"{seed}\n")
        if (seed - first) % 100 == 99:
            done = time.time() - start
            click.echo(f"{seed - first + 1} networks in {done:.0f} s, {wrong} failures", err=True)
    click.echo(
        f"{count} networks from seed {first} in {time.time() - start:.0f} s: median of operators "
        f"{int(np.median(operators))}, {sum(n >= 80 for n in operators)} of 80 or more; "
        f"{wrong} failures, {len(long)} given up"
    )
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
