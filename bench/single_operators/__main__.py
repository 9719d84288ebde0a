"""Runs random files: ``python -m single_operators --first 0 --count 2000`` from `bench`."""

import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import click

from matloom.cli.worker_options import Workers, worker_options
from matloom.terminal.tables import count_text
from matloom.workers import run_as_completed
from single_operators.campaign import verdicts
from single_operators.operators import OPERATORS

#: Seeds of a task: their interpreters are started once.
_SEEDS_PER_TASK = 25


@click.command()
@click.option("--first", default=0, help="The first seed.")
@click.option("--count", default=2000, help="How many seeds.")
@click.option(
    "--operator",
    type=click.Choice(list(OPERATORS)),
    metavar="NAME",
    help="Of this operator alone, such as CONV_2D.",
)
@click.option("--plain", is_flag=True, help="Without oddities.")
@click.option("--config", default="nano", help="The engine.")
@click.option("--save", type=click.Path(path_type=Path), help="A folder for files that fail.")
@worker_options
def main(
    first: int,
    count: int,
    operator: str | None,
    plain: bool,
    config: str,
    save: Path | None,
    workers: Workers,
) -> None:
    """Compare random files of one operator on TensorFlow Lite Micro, LiteRT and Matloom.

    Each line is a failure; its seed repeats it: --first SEED --count 1.
    """
    if save is not None:  # Before hours of work, not at the first failure.
        save.mkdir(parents=True, exist_ok=True)
    begin, kinds = time.monotonic(), Counter[str]()
    failed = False
    starts = range(first, first + count, _SEEDS_PER_TASK)
    chunks = [range(start, min(start + _SEEDS_PER_TASK, first + count)) for start in starts]
    task = partial(verdicts, operator=operator, odd=not plain, config=config)
    for _at, found in run_as_completed(task, chunks, workers.make):
        for verdict in found:
            kinds[verdict.kind] += 1
            if verdict.failed:
                failed = True
                click.echo(str(verdict))
                if save is not None:
                    path = save / f"{verdict.case.seed}.tflite"
                    path.write_bytes(verdict.case.content)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    click.echo(f"{count_text(count, 'file')} in {time.monotonic() - begin:.0f} s: {counts}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
