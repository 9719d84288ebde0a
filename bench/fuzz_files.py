"""Damages Program, TensorFlow Lite and ONNX files: each must be refused by one sentence, or run.

    python bench/fuzz_files.py structured --count 100000 --seed 1
    python bench/fuzz_files.py random --seconds 600
    python bench/fuzz_files.py tflite --count 20000
    python bench/fuzz_files.py onnx --count 20000 --workers 2

ONNX files are compiled, which makes ONNX Runtime try them in a process of its own, but not run.
Cases are numbered from the seed; a failure is printed with the command that repeats it.
"""

import sys
import time
from functools import partial

import click

from matloom.cli.worker_options import Workers, worker_options
from matloom.workers import in_order
from support.file_chunks import KINDS, LIMIT_BYTES, Chunk, Found, run_chunk
from support.own_process import in_own_process

#: Number of cases per task, which runs in a separate process.
_CASES_PER_TASK = 1000


@click.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.option("--count", default=1_000_000, help="How many cases.")
@click.option("--seconds", default=1e9, help="Seconds after which no case begins.")
@click.option("--seed", default=1, help="Of all cases.")
@click.option("--first", default=0, help="Number of the first case.")
@click.option("--most-failures", default=20, help="Failures after which no case begins.")
@worker_options
def main(
    kind: str,
    count: int,
    seconds: float,
    seed: int,
    first: int,
    most_failures: int,
    workers: Workers,
) -> None:
    """Run cases of damaged files, and print how many were refused and how much memory they took."""
    end = first + count
    chunks = [
        Chunk(kind=kind, seed=seed, numbers=range(start, min(start + _CASES_PER_TASK, end)))
        for start in range(first, end, _CASES_PER_TASK)
    ]
    begin, found = time.monotonic(), Found()
    task = partial(in_own_process, run_chunk)
    for each in in_order(task, chunks, workers.make, ahead=workers.at_once):
        for text in each.failures:
            click.echo(text)
        found.add(each)
        click.echo(f"{found.cases:,} cases, {time.monotonic() - begin:.0f} s", err=True)
        if len(found.failures) >= most_failures or time.monotonic() - begin > seconds:
            break
    click.echo(
        f"{kind}, seed {seed}: {found.cases:,} cases from {first} "
        f"in {time.monotonic() - begin:.0f} s: {found.counts['refused']:,} refused, "
        f"{found.counts['ran']:,} ran, {len(found.failures)} failures; "
        f"slowest case {found.slowest[1]}: {found.slowest[0]:.2f} s; "
        f"largest case {found.largest[1]}: {found.largest[0] >> 20:,} MiB"
    )
    click.echo(f"largest process of an interpreter: {found.process_bytes >> 20:,} MiB")
    sys.exit(bool(found.failures) or found.process_bytes > LIMIT_BYTES)


if __name__ == "__main__":
    main()
