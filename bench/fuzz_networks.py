"""Compiles, verifies and compares random networks on random engines, and prints failing seeds.

    python bench/fuzz_networks.py --first 0 --count 5000

Every network is compared with the interpreter of graphs; one in ten also with TensorFlow Lite
Micro; one in fifty runs on the chip in Verilator (preset nano or small); and one in fifty is
compiled again in another process, which must give the same bytes. A network that takes more than
--limit seconds of processor time is given up; the last line counts these. --workers and --cluster
take any number of seeds at a time, and find the same.
"""

import time
from functools import partial
from pathlib import Path

import click
import numpy as np

from matloom.cli.worker_options import Workers, worker_options
from matloom.terminal.tables import count_text
from matloom.workers import in_order
from support.network_seeds import outcomes
from support.own_process import in_own_process

#: Seeds that ever failed, which the tests repeat.
FAILED_SEEDS = (
    Path(__file__).parents[1] / "host" / "tests" / "support" / "tests" / "network_seeds.txt"
)


#: Seeds of a task.
CHUNK = 10


@click.command()
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=100, show_default=True, help="Networks.")
@click.option("--seconds", default=0, help="Stop after this many seconds.")
@click.option("--chip/--no-chip", default=True, show_default=True, help="Run a share in Verilator.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds for a network.")
@click.option(
    "--keep", type=click.Path(path_type=Path), default=FAILED_SEEDS, help="For failing seeds."
)
@worker_options
def main(
    first: int,
    count: int,
    seconds: int,
    chip: bool,
    limit: float,
    keep: Path,
    workers: Workers,
) -> None:
    """Run seeds FIRST to FIRST + COUNT and print those that fail.

    Exit with status 1 if any does.
    """
    task = partial(outcomes, chip=chip, limit=limit)
    # Tasks of a cluster run in threads, which take no signals.
    task = partial(in_own_process, task) if workers.cluster else task
    end = first + count
    chunks = [range(seed, min(seed + CHUNK, end)) for seed in range(first, end, CHUNK)]
    start, wrong, operators, long = time.time(), 0, [], []
    for found in in_order(task, chunks, workers.make, ahead=workers.at_once):
        for seed, size, texts in found:
            operators.append(size)
            if texts is None:
                long.append(seed)
                click.echo(f"seed {seed}: given up after {limit:g} s")
            for text in texts or ():
                wrong += 1
                click.echo(f"seed {seed}: {text}")
                with keep.open("a") as stream:
                    stream.write(f"{seed}\n")
        if len(operators) % 100 == 0:
            done = time.time() - start
            click.echo(f"{len(operators)} networks in {done:.0f} s, {wrong} failures", err=True)
        if seconds and time.time() - start > seconds:
            break
    tried, spent = count_text(len(operators), "network"), time.time() - start
    click.echo(
        f"{tried} from seed {first} in {spent:.0f} s: median of operators "
        f"{int(np.median(operators))}, {sum(n >= 80 for n in operators)} of 80 or more; "
        f"{wrong} failures, {len(long)} given up"
    )
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
